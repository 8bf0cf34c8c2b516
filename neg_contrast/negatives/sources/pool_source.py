"""`pool`: mined candidates of each query, by whichever strategies."""

import numpy as np

from neg_contrast.batches import batcher
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives.sources import source


class FromPool(source.Source):
  """Draws N of the M negatives of a query, by (seed, step, example)."""

  @staticmethod
  def names(pool: pool_lib.Pool | None) -> tuple[str, ...]:
    """The strategies that mined it; without a pool, none yet."""
    return () if pool is None else pool.sources

  def draw(
      self, step: int, numbers: np.ndarray, query_rows: np.ndarray
  ) -> batcher.Drawn:
    """As quotas say, or uniformly."""
    material, settings = self._material, self._material.settings
    assert material.pool is not None  # The plan saw to that.
    return material.pool.draw(
        query_rows, settings.per_query, material.seed, step, numbers,
        settings.quotas,
    )
