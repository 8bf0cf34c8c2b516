"""The best passages so far, as integers that sort like scores and ties. Pure.

A key holds a float32 score in its upper half and a tie rank in its lower half,
so that one comparison of integers decides by (score descending, rank
ascending). No two passages have the same key: the k largest are always the same
ones, in whatever order, blocks or processes they were found.
"""

import numpy as np
from jaxtyping import Float32, Int32, Int64

NOTHING = np.iinfo(np.int64).min
_LOW = np.iinfo(np.int32).max
_SLACK = 3  # Times as many keys as are wanted are kept before the rest is cut.
_LEAST_GROUPS = 256  # Of passages, whose maxima set the first threshold.
MOST_QUERIES = 2**16


def keys_of(
    scores: Float32[np.ndarray, '*shape'], ranks: Int32[np.ndarray, '*shape']
) -> Int64[np.ndarray, '*shape']:
  """Scores and tie ranks as one number each.

  Args:
    scores: float32; no NaN.
    ranks: int32, at least 0; the lower one is the better of equal scores.
  """
  bits = (scores + np.float32(0)).view(np.int32)  # -0 and 0 are one score.
  ordered = np.where(bits < 0, bits ^ np.int32(_LOW), bits)
  return (ordered.astype(np.int64) << 32) | (_LOW - ranks).astype(np.int64)


def scores_of(keys: Int64[np.ndarray, '*shape']) -> np.ndarray:
  """The float32 scores; -inf where there is no passage."""
  ordered = (keys >> 32).astype(np.int32)
  bits = np.where(ordered < 0, ordered ^ np.int32(_LOW), ordered)
  scores = bits.astype(np.int32).view(np.float32)
  return np.where(keys == NOTHING, np.float32(-np.inf), scores)


def ranks_of(keys: Int64[np.ndarray, '*shape']) -> np.ndarray:
  """The int32 tie ranks; -1 where there is no passage."""
  ranks = _LOW - (keys & 0xFFFFFFFF)
  return np.where(keys == NOTHING, -1, ranks).astype(np.int32)


def best_of(keys: Int64[np.ndarray, 'queries some'], k: int) -> np.ndarray:
  """`[queries, k] int64`, the largest, descending; `NOTHING` pads."""
  some = keys.shape[1]
  if some > k:
    keys = np.partition(keys, some - k, axis=1)[:, some - k:]
  found = np.full((len(keys), k), NOTHING)
  found[:, : keys.shape[1]] = np.sort(keys, axis=1)[:, ::-1]
  return found


def floor_of(queries: int) -> Float32[np.ndarray, ' queries']:
  """For `Best`, before anything is known."""
  return np.full(queries, -np.inf, np.float32)


class Best:
  """The k best passages of some queries, among all that were added.

  What can't be among them is left out by one comparison of its score, so that a
  block costs little more than its scores once some blocks were seen.
  """

  def __init__(
      self, queries: int, k: int,
      floor: Float32[np.ndarray, ' queries'] | None = None,
  ):
    """Nothing yet.

    Args:
      queries: how many, at most `MOST_QUERIES`.
      k: passages wanted of each.
      floor: scores below which nothing is among the best; raised in place, so
        that others who look among other passages may share it, in any thread.
    """
    self._k, self._seen = k, 0
    self._keys = np.full((queries, _SLACK * k), NOTHING)
    self._counts = np.zeros(queries, np.int64)
    self._is_above = np.zeros(0, bool)
    self._floor = floor_of(queries) if floor is None else floor

  @property
  def keys(self) -> Int64[np.ndarray, 'queries kept']:
    """All that may be among the best, in no order; `NOTHING` pads."""
    return self._keys[:, : max(1, int(self._counts.max(initial=0)))]

  def add(
      self,
      scores: Float32[np.ndarray, 'passages queries'],
      ranks: Int32[np.ndarray, ' passages'],
  ) -> None:
    """Takes passages into account.

    Args:
      scores: `[passages, queries] float32`, finite.
      ranks: `[passages] int32`, their tie ranks.
    """
    start = 0
    while start < len(scores):
      # Half as many as were seen before: of those, k/2 are among the best.
      stop = start + (self._seen // 2 or self._begin(scores))
      self._add(scores[start:stop], ranks[start:stop])
      self._seen += len(scores[start:stop])
      start = stop

  def _begin(self, scores):
    """Sets a threshold by the first passages; returns how many they are.

    The k-th largest of the maxima of groups is one that k passages reach.
    """
    groups = max(_LEAST_GROUPS, 4 * self._k)
    size = max(1, len(scores) // groups)
    some = scores[: size * groups]
    best = some.reshape(size, -1, scores.shape[1]).max(axis=0)
    if len(best) >= self._k:
      self._raise(np.partition(
          np.ascontiguousarray(best.T), len(best) - self._k, axis=1
      )[:, len(best) - self._k])
    return len(some)

  def _add(self, scores, ranks):
    queries = scores.shape[1]
    if scores.size > len(self._is_above):  # Fresh memory takes as long again.
      self._is_above = np.empty(scores.size, bool)
    is_above = self._is_above[: scores.size]
    np.greater_equal(scores, self._floor, out=is_above.reshape(scores.shape))
    at = np.flatnonzero(is_above)
    if not len(at):
      return
    rows = at // queries
    lines = at - rows * queries
    keys = keys_of(scores.reshape(-1)[at], ranks[rows])
    counts = np.bincount(lines, minlength=queries)
    if (self._counts + counts).max() > self._keys.shape[1]:
      self._cut()
      if len(scores) > (_SLACK - 1) * self._k:  # Else there is room now.
        half = len(scores) // 2
        self._add(scores[:half], ranks[:half])
        self._add(scores[half:], ranks[half:])
        return
    self._append(keys, lines, counts)

  def _append(self, keys, lines, counts):
    order = np.argsort(lines.astype(np.uint16), kind='stable')  # By digits.
    keys, lines = keys[order], lines[order]
    free = self._counts - (np.cumsum(counts) - counts)
    self._keys[lines, free[lines] + np.arange(len(keys))] = keys
    self._counts += counts
    if self._counts.mean() >= 1.25 * self._k:
      self._cut()

  def _cut(self):
    """Keeps k of each query, and raises the thresholds."""
    k, width = self._k, int(self._counts.max())
    if width < k:
      return
    keys = np.partition(self._keys[:, :width], width - k, axis=1)[:, -k:]
    self._keys[:, :k], self._keys[:, k:width] = keys, NOTHING
    self._counts[:] = k  # `NOTHING` comes first where there are fewer.
    self._raise(scores_of(keys[:, 0]))

  def _raise(self, scores):
    np.maximum(self._floor, scores, out=self._floor)
