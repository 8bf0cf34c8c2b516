"""`context`: other passages of the positive's document, or half of it.

Lu et al., section 4.1. They are a function of the example's positive and the
documents: an example whose query has thirty positives has neighbours of its
own. No pool is kept, but for the half passages of positives without neighbours.
"""

import numpy as np

from neg_contrast.artifacts import artifact
from neg_contrast.negatives import document_neighbours, drawing, half_table
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives.sources import listed_source, source
from neg_contrast.settings import config as config_lib

_HALVES = 'halves'


class Context(listed_source.ListedSource):
  """Draws from the M passages nearest to the positive in its document."""

  def __init__(self, material: source.Material):
    """Sorts the passages by document."""
    super().__init__(material)
    self._neighbours = document_neighbours.Neighbours(
        material.dataset.documents, material.dataset.prepared.passage_groups,
        material.pairs.positive_groups, material.dataset.own_passages,
    )
    self._halves: half_table.Halves = material.made[_HALVES]

  @staticmethod
  def names(
      settings: config_lib.NegativesConfig, pool: pool_lib.Pool | None
  ) -> tuple[str, ...]:
    """One."""
    del settings, pool
    return ('context',)

  @staticmethod
  def needs(asked: source.Asked) -> dict[str, artifact.Artifact]:
    """The half passages."""
    return {_HALVES: half_table.HalfTable(
        asked.data, asked.split, asked.document, asked.answer_rule,
        asked.tokenizer, asked.bm25, asked.mined_dir, asked.key,
    )}

  @property
  def halves(self) -> np.ndarray:
    """Those of all examples."""
    return self._halves.spans

  def listed(
      self, step: int, numbers: np.ndarray, query_rows: np.ndarray
  ) -> drawing.Listed:
    """The neighbours of each positive; or its half, if it has none."""
    del step
    pairs = self._material.pairs
    positive_rows = pairs.positive_rows[numbers]
    rows = self._neighbours.of(
        query_rows, positive_rows, self._material.settings.pool_size
    )
    is_alone = rows[:, 0] < 0
    lines = self._halves.lines_of(
        query_rows[is_alone], positive_rows[is_alone]
    )
    passages = len(self._material.dataset.prepared.passages)
    rows[is_alone, 0] = np.where(lines >= 0, passages + lines, -1)
    return drawing.Listed(rows, np.zeros(rows.shape, np.uint8))
