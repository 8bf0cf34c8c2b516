"""`corpus`: passages drawn uniformly from the corpus."""

import numpy as np

from neg_contrast.batches import batcher
from neg_contrast.negatives import drawing
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives.sources import source
from neg_contrast.settings import config as config_lib


class Corpus(source.Source):
  """Draws from the worlds of the queries, by (seed, step, example)."""

  @staticmethod
  def names(
      settings: config_lib.NegativesConfig, pool: pool_lib.Pool | None
  ) -> tuple[str, ...]:
    """One."""
    del settings, pool
    return ('corpus',)

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
        material.among,
    )
