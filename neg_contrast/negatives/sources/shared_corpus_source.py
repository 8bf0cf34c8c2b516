"""`shared_corpus`: passages of the corpus that all queries of a batch share."""

import numpy as np

from neg_contrast.negatives import drawing
from neg_contrast.negatives.sources import shared


class SharedCorpus(shared.Shared):
  """Draws from the worlds of the queries, by (seed, step)."""

  def draw(self, step: int) -> np.ndarray:
    """Distinct passages, uniformly; -1 where there are not so many."""
    return drawing.draw_shared(self._among, self._count, self._seed, step)
