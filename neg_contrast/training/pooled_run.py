"""A training whose hard negatives may come from a pool."""

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
from absl import logging
from jax.sharding import Mesh

from neg_contrast import errors
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.training import run, run_settings


class PooledTraining(run.Training):
  """What trainings of encoders and of rerankers share."""

  def __init__(
      self,
      config: run_settings.RunSettings,
      workdir: pathlib.Path,
      dataset: Callable[[], dataset_lib.Dataset],
      negatives: Any = None,
      mesh: Mesh | None = None,
  ):
    """Reads nothing yet.

    Args:
      config: settings of the run.
      workdir: of its checkpoints and logs.
      dataset: makes the data.
      negatives: whose `pool` is trained with, as its `identity` says (None
        where it is not there yet); None: it needs none.
      mesh: where it runs; None: as the settings say.
    """
    super().__init__(config, workdir, dataset, mesh)
    self._negatives = negatives

  @property
  def identity(self) -> dict[str, Any]:
    """What the trained parameters depend on."""
    return {
        **super().identity,
        'pool': None if self._negatives is None else self._negatives.identity,
    }

  def is_trained(self) -> bool:
    """Whether it ran to its end; raises as any training does."""
    if self._negatives is not None and self._negatives.identity is None:
      return False
    return super().is_trained()

  @functools.cached_property
  def _pool(self) -> pool_lib.Pool | None:
    return None if self._negatives is None else self._negatives.pool

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
          'split; loosen the filters of config.negatives, or choose another '
          'strategy'
      )
    few = int((sizes < count).sum())
    if few:
      logging.warning('%d of %d queries have fewer than %d hard negatives; '
                      'their empty slots are masked', few, len(lines), count)
