"""`random`: none but the other rows of the batch."""

import numpy as np

from neg_contrast.batches import batcher
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives.sources import source


class Random(source.Source):
  """Draws nothing: the loss has the other rows anyway."""

  @staticmethod
  def names(pool: pool_lib.Pool | None) -> tuple[str, ...]:
    """None."""
    del pool
    return ()

  def draw(
      self, step: int, numbers: np.ndarray, query_rows: np.ndarray
  ) -> batcher.Drawn:
    """No column."""
    del step, numbers
    return batcher.Drawn(*np.full((2, len(query_rows), 0), -1, np.int32))
