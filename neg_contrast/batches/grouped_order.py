"""Examples of one group together in a batch, as negatives of each other.

Hard negatives that nothing is encoded for. In topic-aware sampling (TAS,
Hofstätter et al., 2021, "Efficiently Teaching an Effective Dense Retriever with
Balanced Topic Aware Sampling", section 3.1) groups are clusters of queries, and
a batch is drawn from one of them, with replacement over the steps. Here each
example comes once a pass, so that parts of groups are of different sizes, and a
batch holds those of about two groups where a part may fill it.
"""

import functools

import numpy as np
from jaxtyping import Int

_SALT = 0x646F63  # Orders of examples don't use the seed of other draws.


class GroupedOrder:
  """An endless order of examples; each comes once before any comes again.

  In every pass the examples of a group are shuffled and cut into parts of about
  the same size, which then come in a random order. Examples that have the same
  positive, and so are no negatives of each other, go to different parts as far
  as there are some. A pass is a function of (seed, its number) alone.
  """

  def __init__(
      self,
      groups: Int[np.ndarray, ' examples'],
      alike: Int[np.ndarray, ' examples'],
      together: int,
      batch_size: int,
      seed: int,
  ):
    """Shuffles nothing yet.

    Args:
      groups: `[examples] int`; -1: unknown, which makes it a group of its own.
      alike: `[examples] int`, equal for those that have the same positive.
      together: examples that a part has at most, at least 1.
      batch_size: examples of a step.
      seed: of the order.
    """
    number = np.int32 if len(groups) < 2**31 else np.int64
    self._groups = np.where(
        groups >= 0, groups, -1 - np.arange(len(groups))
    ).astype(number)
    self._alike = alike
    self._together, self._batch_size, self._seed = together, batch_size, seed
    self._pass = functools.lru_cache(2)(self._shuffled)

  def __call__(self, step: int) -> Int[np.ndarray, ' batch']:
    """`[batch] int`, the examples of a step."""
    places = step * self._batch_size + np.arange(self._batch_size)
    numbers, inside = np.divmod(places, len(self._groups))
    return np.concatenate([
        self._pass(int(number))[inside[numbers == number]]
        for number in np.unique(numbers)
    ])

  def _shuffled(self, number: int) -> Int[np.ndarray, ' examples']:
    """`[examples] int`, the order of a pass."""
    rng = np.random.default_rng((self._seed, _SALT, number))
    order = rng.permutation(len(self._groups)).astype(self._groups.dtype)
    groups, alike = self._groups[order], self._alike[order]
    order = order[np.lexsort((_occurrences(groups, alike), groups))]
    _, sizes = np.unique(self._groups[order], return_counts=True)
    places = _places(sizes)
    parts = -(-sizes // self._together)
    part = (places * np.repeat(parts, sizes) // np.repeat(sizes, sizes)
            + np.repeat(np.cumsum(parts) - parts, sizes))
    return order[np.argsort(rng.permutation(parts.sum())[part], kind='stable')]


def _places(sizes):
  """Of the members of sets of some sizes, each within its own."""
  return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def _occurrences(groups, alike):
  """How many with this group and positive came before each."""
  order = np.lexsort((alike, groups))
  starts = np.flatnonzero(np.concatenate([[True], (
      (np.diff(groups[order]) != 0) | (np.diff(alike[order]) != 0)
  )]))
  counts = np.empty(len(order), np.int64)
  counts[order] = _places(np.diff(np.append(starts, len(order))))
  return counts
