"""A training whose hard negatives may come from a pool."""

import functools

import numpy as np
from absl import logging

from neg_contrast import errors
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.training import run


class PooledTraining(run.Training):
  """What trainings of encoders and of rerankers share."""

  @functools.cached_property
  def _pool(self) -> pool_lib.Pool | None:
    given = self._given.pool
    return None if given is None else given.load()

  @property
  def _pool_sources(self) -> tuple[str, ...]:
    """Names of the pool's sources, by number."""
    if self._pool is None:
      return self._config.negatives.sources
    return self._pool.sources

  def _warn_of_small_pools(self, query_rows: np.ndarray) -> None:
    """Says when queries have fewer than N negatives to draw from.

    Raises:
      UserError: none has any.
    """
    count, pool = self._config.negatives.per_query, self._pool
    if pool is None:
      return
    lines = pool.lines_of(np.unique(query_rows))
    sizes = np.concatenate([
        np.where(some >= 0, pool.is_negative(some).sum(axis=1), 0)
        for some in np.array_split(lines, -(-len(lines) // 4096))
    ])
    if not sizes.any():
      raise errors.UserError(
          'the pool holds no hard negative for any query of the training '
          f'split; loosen the filters of {errors.key("negatives")}, or choose '
          'another strategy'
      )
    few = int((sizes < count).sum())
    if few:
      logging.warning('%d of %d queries have fewer than %d hard negatives; '
                      'their empty slots are masked', few, len(lines), count)
