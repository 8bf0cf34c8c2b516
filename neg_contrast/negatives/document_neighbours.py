"""Other passages of a positive's document, nearest first.

Lu et al., section 4.1: "Given a question and its corresponding passage, we
define the context negatives as the passages from the same document that are not
the corresponding passage."
"""

import numpy as np
from jaxtyping import Int

from neg_contrast import errors
from neg_contrast.data import examples

_PLACES_AT_ONCE = 2**20  # Looked at together; some 40 bytes each.


class Neighbours:
  """Gives the neighbours of any example, as a function of its two rows.

  It holds 9 bytes a passage and 8 a document, and nothing of an example.
  """

  def __init__(
      self,
      documents: Int[np.ndarray, ' passages'],
      groups: Int[np.ndarray, ' passages'],
      known: examples.Positives,
      own: Int[np.ndarray, ' queries'] | None = None,
  ):
    """Sorts the passages by document.

    Args:
      documents: `[passages] int32`, number of the document; -1: unknown.
      groups: `[passages] int32`, the first row of equal text.
      known: groups of all known positives, of all queries.
      own: `[queries] int32`, see `Dataset.own_passages`.
    """
    self._documents, self._groups, self._known = documents, groups, known
    self._own = own
    self._order = np.argsort(documents, kind='stable').astype(np.int32)
    self._places = np.empty_like(self._order)
    self._places[self._order] = np.arange(len(documents), dtype=np.int32)
    self._ends = np.cumsum(np.bincount(documents + 1, minlength=1))
    self._is_copied = groups != np.arange(len(groups))
    self._is_copied[groups[self._is_copied]] = True

  @property
  def state_bytes(self) -> int:
    """What it holds beside what it was given."""
    return sum(held.nbytes for held in (
        self._order, self._places, self._ends, self._is_copied
    ))

  def of(
      self,
      query_rows: Int[np.ndarray, ' examples'],
      positive_rows: Int[np.ndarray, ' examples'],
      depth: int,
  ) -> Int[np.ndarray, 'examples depth']:
    """The nearest passages of the positive's document, before and after it.

    Args:
      query_rows: `[examples] int`.
      positive_rows: `[examples] int`, passage rows.
      depth: how many of each.

    Returns:
      `[examples, depth] int32` passage rows, nearest first, of two equally near
      the one before; -1 pads. Known positives of the query, its own passage,
      and passages of their text are left out; of passages with equal text there
      is the nearest.
    """
    found = np.full((len(positive_rows), depth), -1, np.int32)
    lines = np.flatnonzero(self._documents[positive_rows] >= 0)
    reach = depth
    while len(lines):
      blocked = []
      at_once = max(1, _PLACES_AT_ONCE // (2 * reach))
      for begin in range(0, len(lines), at_once):
        some = lines[begin : begin + at_once]
        nearest, is_whole = self._within(
            reach, query_rows[some], positive_rows[some], depth
        )
        found[some, :nearest.shape[1]] = nearest
        blocked.append(some[~is_whole])
      lines, reach = np.concatenate(blocked), 4 * reach
    return found

  def distances(
      self,
      positive_rows: Int[np.ndarray, ' examples'],
      rows: Int[np.ndarray, 'examples depth'],
  ) -> Int[np.ndarray, 'examples depth']:
    """Passages of the document from the positive to each of `rows`; -1 is any.
    """
    return np.abs(
        self._places[rows] - self._places[positive_rows][:, None]
    )

  def _within(self, reach, query_rows, positive_rows, depth):
    """The nearest, and of which examples these are all, or `depth`."""
    documents = self._documents[positive_rows]
    first = self._ends[documents][:, None]
    end = self._ends[documents + 1][:, None]
    here = self._places[positive_rows].astype(np.int64)[:, None]
    furthest = np.maximum(here - first, end - 1 - here)
    reach = max(1, min(reach, int(furthest.max())))
    steps = np.arange(1, reach + 1)
    places = here + np.stack([-steps, steps], axis=1).reshape(-1)
    usable = (places >= first) & (places < end)
    rows = self._order[np.where(usable, places, 0)]
    groups = self._groups[rows]
    usable &= ~self._known.holds(query_rows, groups)
    if self._own is not None:
      own_rows = self._own[query_rows]
      usable &= (groups != self._groups[own_rows][:, None]) | (
          own_rows[:, None] < 0)
    usable &= ~self._repeated(rows, groups, usable)
    best = np.argsort(~usable, axis=1, kind='stable')[:, :depth]
    usable = np.take_along_axis(usable, best, axis=1)
    nearest = np.where(usable, np.take_along_axis(rows, best, axis=1),
                       np.int32(-1))
    has_enough = usable.shape[1] == depth and usable[:, -1]
    return nearest, has_enough | (furthest[:, 0] <= reach)

  def _repeated(self, rows, groups, usable):
    """Which stand further left, usable, with equal text."""
    lines, columns = np.nonzero(usable & self._is_copied[rows])
    texts = lines * len(self._groups) + groups[lines, columns]
    again = np.ones(len(lines), bool)
    again[np.unique(texts, return_index=True)[1]] = False
    repeated = np.zeros(rows.shape, bool)
    repeated[lines[again], columns[again]] = True
    return repeated


def check_documents(
    documents: Int[np.ndarray, ' positives'],
    source: str,
    key: str,
    instead: str = 'Choose "coarse"',
) -> int:
  """Refuses data whose documents are not known.

  Args:
    documents: `[positives] int32`, document of each positive; -1: unknown.
    source: of the data, for the message.
    key: that asks for neighbours, for the message.
    instead: what to do, for the message.

  Returns:
    How many are unknown.

  Raises:
    UserError: all are.
  """
  unknown = int((documents < 0).sum())
  if unknown == len(documents):
    raise errors.UserError(
        f'{key}: it is not known which passages of {source} belong to one '
        f'document. {instead}; or, if passages of one document have one '
        f'title, set --{errors.key("data.document")}=title'
    )
  return unknown
