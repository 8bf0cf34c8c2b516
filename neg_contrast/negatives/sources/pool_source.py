"""`pool`: mined candidates of each query, by whichever strategies."""

import numpy as np

from neg_contrast.negatives import drawing
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives.sources import listed_source


class FromPool(listed_source.ListedSource):
  """Draws N of the M negatives of a query, by (seed, step, example)."""

  @staticmethod
  def names(pool: pool_lib.Pool | None) -> tuple[str, ...]:
    """The strategies that mined it; without a pool, none yet."""
    return () if pool is None else pool.sources

  def listed(
      self, numbers: np.ndarray, query_rows: np.ndarray
  ) -> drawing.Listed:
    """What no filter dropped."""
    del numbers
    assert self._material.pool is not None  # The plan saw to that.
    return self._material.pool.listed(query_rows)
