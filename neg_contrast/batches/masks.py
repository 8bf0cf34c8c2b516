"""Which candidates of a batch count for which query, by what is known."""

import dataclasses

import numpy as np
from jaxtyping import Bool, Int

from neg_contrast.data import examples as examples_lib
from neg_contrast.data import sequences as sequences_lib


@dataclasses.dataclass(frozen=True)
class Known:
  """What is known of queries and passages.

  Attributes:
    positives: groups of the known positives of all queries.
    groups: `[passages] int32`, equal for passages of the same text.
    parents: `[halves] int32`, the passage that row `passages + h` is half of.
    own_passages: `[queries] int32`, the passage that each query is itself, see
      `shared_ids`; -1: none. None: no query is one.
  """

  positives: examples_lib.Positives
  groups: Int[np.ndarray, ' passages']
  parents: Int[np.ndarray, ' halves']
  own_passages: Int[np.ndarray, ' queries'] | None = None

  def no_negatives(
      self, query_rows: Int[np.ndarray, ' queries']
  ) -> Int[np.ndarray, 'queries some']:
    """Groups that are no negatives of queries; -1 pads."""
    known = self.positives[query_rows]
    if self.own_passages is None:
      return known
    own = self.own_passages[query_rows]
    return np.column_stack([known, np.where(own < 0, -1, self.groups[own])])


def make_masks(
    query_rows: Int[np.ndarray, ' batch'],
    positive_rows: Int[np.ndarray, ' batch'],
    negative_rows: Int[np.ndarray, 'batch negatives'],
    shared_rows: Int[np.ndarray, ' shared'],
    known: Known | None,
    held: Int[np.ndarray, ' held'],
) -> tuple[Bool[np.ndarray, 'batch candidates'],
           Bool[np.ndarray, 'batch batch']]:
  """The masks of both directions.

  Another row's passage that is a known positive of a query, the query itself,
  or a copy of one, is no candidate of it. Half a positive is a negative of its
  own query, and of no other that the whole is a positive of.

  Args:
    query_rows: `[batch] int32`.
    positive_rows: `[batch] int32`; row i answers query i.
    negative_rows: `[batch, negatives] int32`; -1: none.
    shared_rows: `[shared] int32`, what all queries share as candidates; -1:
      none.
    known: None: every candidate counts that is there.
    held: `[held] int`, the queries whose masks are filled in, ascending; those
      of others are False.

  Returns:
    `forward`, `[batch, batch * (1 + negatives) + shared] bool`, passages of
    queries; `backward`, `[batch, batch] bool`, queries of passages. Diagonals
    are True.
  """
  batch = len(query_rows)
  candidates = np.concatenate(
      [positive_rows, negative_rows.reshape(-1), shared_rows]
  )
  forward = np.zeros((batch, len(candidates)), bool)
  forward[held] = candidates >= 0
  backward = np.tile(np.isin(np.arange(batch), held), (batch, 1))
  if known is not None:
    rows, columns = _known_pairs(query_rows[held], candidates, known)
    rows = held[rows]
    own = np.arange(batch)
    owners = np.zeros(len(candidates), int)  # Of those that have one.
    owners[:batch + negative_rows.size] = np.append(
        own, np.repeat(own, negative_rows.shape[1])
    )
    is_half = candidates[columns] >= len(known.groups)
    masked = ~is_half | (query_rows[rows] != query_rows[owners[columns]])
    forward[rows[masked], columns[masked]] = False
    is_positive = columns < batch
    backward[columns[is_positive], rows[is_positive]] = False
    rows, places = _equal_pairs(query_rows, query_rows[held])
    backward[rows, held[places]] = False
  forward[held, held] = True
  backward[held, held] = True
  return forward, backward


def _known_pairs(query_rows, candidates, known):
  """All (query, candidate) of which the latter, or its whole, is no negative.
  """
  passages = len(known.groups)
  is_half = candidates >= passages
  whole = candidates.copy()
  whole[is_half] = known.parents[candidates[is_half] - passages]
  groups = known.no_negatives(query_rows)
  is_known = groups >= 0
  places, columns = _equal_pairs(groups[is_known], known.groups[whole])
  return np.nonzero(is_known)[0][places], columns


def _equal_pairs(left, right):
  """All `(i, j)` where `left[i] == right[j]`, as two arrays."""
  order = np.argsort(right, kind='stable')
  begins = np.searchsorted(right, left, 'left', sorter=order)
  counts = np.searchsorted(right, left, 'right', sorter=order) - begins
  return (np.repeat(np.arange(len(left)), counts),
          order[sequences_lib.runs(begins, counts)])
