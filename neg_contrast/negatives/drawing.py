"""How N hard negatives are drawn at a step: by (seed, step, example) alone.

Every candidate gets a random number from a hash of (seed, step, example,
place), so that a draw needs no state, takes no order into account, and is the
same on any number of hosts.
"""

import numpy as np
from jaxtyping import Int, UInt64

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def draw_from_pool(
    pool_rows: Int[np.ndarray, 'batch depth'],
    count: int,
    seed: int,
    step: int,
    examples: Int[np.ndarray, ' batch'],
) -> Int[np.ndarray, 'batch count']:
  """Draws uniformly without replacement from each row's pool.

  Args:
    pool_rows: `[batch, depth] int32` passage rows; -1 where there is none.
    count: N.
    seed: of the run.
    step: training step.
    examples: `[batch] int`, number of each example in the data set.

  Returns:
    `[batch, count] int32` passage rows; -1 where the pool holds too few.
  """
  batch, depth = pool_rows.shape
  keys = _random_bits(seed, step, examples, max(depth, count))
  pool = np.full(keys.shape, -1, np.int32)
  pool[:, :depth] = pool_rows
  keys[pool < 0] = np.iinfo(np.uint64).max
  chosen = np.argsort(keys, axis=1, kind='stable')[:, :count]
  return np.take_along_axis(pool, chosen, axis=1)


def draw_from_corpus(
    passages: int,
    passage_groups: Int[np.ndarray, ' passages'],
    positive_groups: Int[np.ndarray, 'batch positives'],
    count: int,
    seed: int,
    step: int,
    examples: Int[np.ndarray, ' batch'],
) -> Int[np.ndarray, 'batch count']:
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

  Returns:
    `[batch, count] int32` distinct passage rows; -1 where a corpus is so small
    that `count + 16` tries don't find enough.
  """
  tries = count + 16
  bits = _random_bits(seed, step, examples, tries)
  rows = (bits % np.uint64(passages)).astype(np.int32)
  usable = ~np.any(
      passage_groups[rows][:, :, None] == positive_groups[:, None, :], axis=2
  )
  repeated = np.tril(rows[:, :, None] == rows[:, None, :], -1).any(axis=2)
  usable &= ~repeated
  first = np.argsort(~usable, axis=1, kind='stable')[:, :count]
  return np.where(
      np.take_along_axis(usable, first, axis=1),
      np.take_along_axis(rows, first, axis=1),
      np.int32(-1),
  )


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
