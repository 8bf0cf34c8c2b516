"""Context negatives of a query, listed for files and audits.

Training draws them for each example (`negatives/sources/context_source.py`). A
query has those of all its examples here, the nearest to any of its positives
first; an example whose document has no other passage adds a half passage.
"""

import array
import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Int

from neg_contrast.mining import candidates
from neg_contrast.negatives import document_neighbours as neighbours_lib


@dataclasses.dataclass(frozen=True)
class ContextMiner:
  """Passages of the positives' documents, nearest to a positive first.

  Attributes:
    neighbours: of an example.
    positives: query row -> `[positives] int32`, passage rows it is trained
      with, whose documents are known.
    negative_half: (query row, passage row) -> (parent row, first token, end
      token), parent -1 where there is none.
    passages: of the corpus.
    depth: of the candidates.
    halves: numbers of the half passages made so far, three of each.
  """

  neighbours: neighbours_lib.Neighbours
  positives: Callable[[int], Int[np.ndarray, ' positives']]
  negative_half: Callable[[int, int], Int[np.ndarray, '3']]
  passages: int
  depth: int
  halves: array.array = dataclasses.field(
      default_factory=lambda: array.array('i')
  )

  def mine(
      self, queries: Int[np.ndarray, ' queries']
  ) -> candidates.Candidates:
    """The candidates of some queries.

    A score is minus the number of places from the nearest positive in the
    document; 0: half a positive.
    """
    found = [self._of_query(int(query)) for query in queries]
    return candidates.listed([rows for rows, _ in found],
                             [scores for _, scores in found], self.depth)

  def _of_query(self, query):
    positives = self.positives(query)
    rows = self.neighbours.of(
        np.full(len(positives), query), positives, self.depth
    )
    is_there = rows >= 0
    halves = self._halves_of(query, positives[~is_there.any(axis=1)])
    distances = np.concatenate([
        np.zeros(len(halves), np.int32),
        self.neighbours.distances(positives, rows)[is_there],
    ])
    rows = np.concatenate([halves, rows[is_there]])
    order = np.lexsort((rows, distances))
    first = np.sort(np.unique(rows[order], return_index=True)[1])
    order = order[first][:self.depth]
    return rows[order], (-distances[order]).astype(np.float32)

  def _halves_of(self, query, parents):
    """The rows of their halves."""
    begin = len(self.halves) // 3
    for parent in parents[:self.depth].tolist():
      half = self.negative_half(query, parent)
      if half[0] >= 0:
        self.halves.extend(half.tolist())
    return np.arange(self.passages + begin,
                     self.passages + len(self.halves) // 3, dtype=np.int32)
