"""`gold`: positives of other queries, drawn uniformly (Karpukhin et al., 2020).

What the rows of a batch are to each other, without a batch so large.
"""

import functools

import numpy as np

from neg_contrast.batches import batcher
from neg_contrast.negatives import drawing
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives.sources import source
from neg_contrast.settings import config as config_lib


class Gold(source.Source):
  """Draws from the positives of all examples, by (seed, step, example)."""

  @staticmethod
  def names(
      settings: config_lib.NegativesConfig, pool: pool_lib.Pool | None
  ) -> tuple[str, ...]:
    """One."""
    del settings, pool
    return ('gold',)

  def draw(
      self, step: int, numbers: np.ndarray, query_rows: np.ndarray
  ) -> batcher.Drawn:
    """Distinct passages that are neither positives nor the query's own."""
    material = self._material
    prepared = material.dataset.prepared
    return drawing.draw_from_corpus(
        len(prepared.passages), prepared.passage_groups,
        self.excluded(query_rows),
        material.count, material.seed, step, numbers,
        self._positives,
    )

  @functools.cached_property
  def _positives(self) -> np.ndarray:
    """`[rows] int32`, each once."""
    return np.unique(self._material.pairs.positive_rows)
