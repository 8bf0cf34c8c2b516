"""How N hard negatives are drawn at a step: by (seed, step, example) alone.

Every candidate gets a random number from a hash of (seed, step, example,
place), so that a draw needs no state, takes no order into account, and is the
same on any number of hosts.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int, Integer, UInt64

from neg_contrast.batches import batcher

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_NONE = np.uint64(2**64 - 1)  # The key of what may not be drawn.
_NO_EXAMPLE = np.array([2**62])  # In its place, where all share what is drawn.


@dataclasses.dataclass(frozen=True)
class Listed:
  """What some examples may get.

  Attributes:
    rows: `[batch, depth] int32` passage rows; -1: none.
    sources: `[batch, depth] int`, number of the source each comes from.
  """

  rows: Int[np.ndarray, 'batch depth']
  sources: Integer[np.ndarray, 'batch depth']

  def draw(
      self,
      count: int,
      seed: int,
      step: int,
      examples: Int[np.ndarray, ' batch'],
      entries: Sequence[int] | np.ndarray = (),
      quotas: Sequence[int] = (),
  ) -> batcher.Drawn:
    """Draws from each line.

    Args:
      count: N.
      seed: of the run.
      step: of training.
      examples: `[batch] int`, number of each example in the data set.
      entries: place in `quotas` of each source.
      quotas: how many of the N each entry gives; see `draw_places`.
    """
    if len(quotas) < 2:
      return self.take(draw_places(self.rows >= 0, count, seed, step, examples))
    return self.take(draw_places(
        self.rows >= 0, count, seed, step, examples,
        np.asarray(entries)[self.sources], quotas,
    ))

  def take(self, places: Int[np.ndarray, 'batch count']) -> batcher.Drawn:
    """What stands at some places of each line; -1: nothing."""
    at = np.maximum(places, 0)
    pick = lambda values: np.where(
        places >= 0,
        np.take_along_axis(values, at, axis=1).astype(np.int32), np.int32(-1),
    )
    return batcher.Drawn(pick(self.rows), pick(self.sources))


def draw_places(
    usable: Bool[np.ndarray, 'batch depth'],
    count: int,
    seed: int,
    step: int,
    examples: Int[np.ndarray, ' batch'],
    sources: Integer[np.ndarray, 'batch depth'] | None = None,
    quotas: Sequence[int] = (),
) -> Int[np.ndarray, 'batch count']:
  """Draws places of each line uniformly and without replacement.

  Args:
    usable: `[batch, depth] bool`, what may be drawn.
    count: N.
    seed: of the run.
    step: training step.
    examples: `[batch] int`, number of each example in the data set.
    sources: `[batch, depth] int`, needed for quotas.
    quotas: how many of the N each source gives, drawn uniformly from it; what
      it lacks is drawn from the others.

  Returns:
    `[batch, count] int32`; -1 where a line holds too few.
  """
  keys = _random_bits(seed, step, examples, usable.shape[1])
  if quotas:
    late = ~_within_quotas(keys, usable, sources, quotas)
    keys = np.where(late, _mix(keys), keys)  # Theirs are high by selection.
    keys = keys >> np.uint64(1) | late.astype(np.uint64) << np.uint64(63)
  return _lowest(np.where(usable, keys, _NONE), count)


def _within_quotas(keys, usable, sources, quotas):
  """The first of each source, by random key, as many as its quota is."""
  chosen = np.zeros(usable.shape, bool)
  for number, quota in enumerate(quotas):
    ours = usable & (sources == number)
    places = _lowest(np.where(ours, keys, _NONE), quota)
    lines, columns = np.nonzero(places >= 0)
    chosen[lines, places[lines, columns]] = True
  return chosen


def _lowest(keys, count):
  """Places of the `count` lowest keys of each line, in order; -1 for `_NONE`.

  A pass for each: N is small, and sorting lines of 200 took 3 times as long, of
  800 8 times.
  """
  keys, lines = keys.copy(), np.arange(len(keys))
  places = np.full((len(keys), count), -1, np.int32)
  for column in places.T:
    best = keys.argmin(axis=1)
    is_there = keys[lines, best] < _NONE
    column[is_there] = best[is_there]
    keys[lines, best] = _NONE
  return places


def draw_from_corpus(
    passages: int,
    passage_groups: Int[np.ndarray, ' passages'],
    positive_groups: Int[np.ndarray, 'batch positives'],
    count: int,
    seed: int,
    step: int,
    examples: Int[np.ndarray, ' batch'],
    among: Int[np.ndarray, ' rows'] | None = None,
) -> batcher.Drawn:
  """Draws passages uniformly from the corpus, positives excluded.

  Args:
    passages: number of passages in the corpus.
    passage_groups: `[passages] int32`, equal for passages of the same text.
    positive_groups: `[batch, positives] int32`, groups of the known positives
      of each query, padded with -1.
    count: N.
    seed: of the run.
    step: training step.
    examples: `[batch] int`, number of each example in the data set.
    among: `[rows] int32`, the passages that are drawn from; default: all.

  Returns:
    Distinct passages; -1 where a corpus is so small that `count + 16` tries
    don't find enough.
  """
  tries = count + 16
  bits = _random_bits(seed, step, examples, tries)
  if among is None:
    rows = (bits % np.uint64(passages)).astype(np.int32)
  else:
    rows = among[(bits % np.uint64(len(among))).astype(np.int32)]
  usable = ~np.any(
      passage_groups[rows][:, :, None] == positive_groups[:, None, :], axis=2
  )
  repeated = np.tril(rows[:, :, None] == rows[:, None, :], -1).any(axis=2)
  usable &= ~repeated
  first = np.argsort(~usable, axis=1, kind='stable')[:, :count]
  kept = np.take_along_axis(usable, first, axis=1)
  drawn = np.take_along_axis(rows, first, axis=1)
  return batcher.Drawn(np.where(kept, drawn, np.int32(-1)),
                       np.where(kept, np.int32(0), np.int32(-1)))


def draw_shared(
    among: Int[np.ndarray, ' rows'] | int, count: int, seed: int, step: int
) -> Int[np.ndarray, ' count']:
  """Draws passages that all queries of a batch have as candidates.

  Args:
    among: `[rows] int32`, the passages that are drawn from; or how many there
      are in all.
    count: C.
    seed: of the run.
    step: training step.

  Returns:
    `[count] int32`, distinct; -1 where there are not so many.
  """
  size = among if isinstance(among, int) else len(among)
  count, missing = min(count, size), max(0, count - size)
  tries, places = count, np.zeros(0, np.uint64)
  while len(places) < count:
    tries *= 2  # Its first numbers stay the same.
    bits = _random_bits(seed, step, _NO_EXAMPLE, tries)[0]
    places, first = np.unique(bits % np.uint64(size), return_index=True)
    places = places[np.argsort(first)]
  chosen = places[:count].astype(np.int32)
  rows = chosen if isinstance(among, int) else among[chosen]
  return np.append(rows, np.full(missing, -1)).astype(np.int32)


def _random_bits(
    seed: int, step: int, examples: Int[np.ndarray, ' batch'], count: int
) -> UInt64[np.ndarray, 'batch count']:
  """Hashes (seed, step, example, place) to 64 bits (SplitMix64, chained)."""
  with np.errstate(over='ignore'):
    state = _mix(np.uint64(seed) + _GOLDEN)
    state = _mix(state ^ (np.uint64(step) + _GOLDEN))
    per_example = _mix(state ^ (examples.astype(np.uint64) + _GOLDEN))
    places = np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN
    return _mix(per_example[:, None] + places[None, :])


def _mix(x):
  """The output function of SplitMix64 (Steele et al., 2014)."""
  x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
  x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
  return x ^ (x >> np.uint64(31))
