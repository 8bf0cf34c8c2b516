"""Which examples of several data sets a step takes: by (seed, step).

A draw is an example, or a whole batch where each batch is of one data set.
Draws come in cycles: each cycle holds every data set as often as its weight
says, in an order that is shuffled for each cycle. So the numbers are exact
after every cycle, at no step far from the weights, and need no state. A data
set gives its examples in shuffled passes, each example once a pass.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import grain
import numpy as np
from jaxtyping import Float, Int

MOST_DRAWS = 65_536
"""Of a cycle; a data set with less than one of them is never drawn."""
_EXACT, _NEAR = 1e-9, 1e-3  # Relative errors of the parts in a cycle.
_SALT = 0x6D6978  # Orders of batches don't use the seed of orders of examples.


def weights_of_sizes(
    sizes: Sequence[int], temperature: float
) -> Float[np.ndarray, ' sets']:
  """`[sets] float64`: sizes ** (1 / temperature) (Arivazhagan et al., 2019).

  Args:
    sizes: examples of each data set.
    temperature: 1: as often as there are examples; higher: closer to equal.
  """
  return np.asarray(sizes, float) ** (1 / temperature)


def cycle_of(weights: Sequence[float] | np.ndarray) -> Int[np.ndarray, ' sets']:
  """`[sets] int64`: draws of each data set in a cycle.

  It is the shortest cycle with exactly the parts that the weights are; if none
  of at most `MOST_DRAWS` draws is, the shortest that is within a thousandth of
  each part, or the one that comes nearest.

  Args:
    weights: `[sets] float`, above 0.
  """
  parts = np.asarray(weights, float) / np.sum(weights)
  lengths = np.arange(1, MOST_DRAWS + 1)
  worst = np.zeros(MOST_DRAWS)
  for part in parts:
    counts = np.rint(lengths * part)
    worst = np.maximum(worst, np.abs(counts / (lengths * part) - 1))
  for error in (_EXACT, _NEAR, worst.min()):
    fitting = np.flatnonzero(worst <= error)
    if len(fitting):
      break
  return np.rint(lengths[fitting[0]] * parts).astype(np.int64)


@dataclasses.dataclass(frozen=True)
class MixtureOrder:
  """The order of examples of several data sets.

  Examples are numbered through: those of the first data set, of the second, and
  so on.

  Attributes:
    sizes: examples of each data set.
    cycle: draws of each in a cycle, each at least 1.
    batch_size: examples of a step.
    seed: of the order.
    is_mixed: whether a batch mixes data sets; else each is of one.
    orders: of each data set, step -> the examples that a training on it alone
      takes; None, or none at all: they are shuffled.
  """

  sizes: tuple[int, ...]
  cycle: tuple[int, ...]
  batch_size: int
  seed: int
  is_mixed: bool
  orders: tuple[Callable[[int], np.ndarray] | None, ...] = ()

  def __call__(self, step: int) -> Int[np.ndarray, ' batch']:
    """`[batch] int64`: numbers of the examples of a step, from 0."""
    return self.examples(*self.places(step))

  def places(
      self, step: int
  ) -> tuple[Int[np.ndarray, ' batch'], Int[np.ndarray, ' batch']]:
    """The data set of each example of a step, and its place in the order of it.

    Returns:
      `[batch] int64`, the data sets; `[batch] int64`, how many examples of its
      data set were drawn before each.
    """
    if not self.is_mixed:
      sets, before = self._draws(step, 1)
      return (np.repeat(sets, self.batch_size),
              before[0] * self.batch_size + np.arange(self.batch_size))
    return self._draws(step * self.batch_size, self.batch_size)

  def examples(
      self, sets: Int[np.ndarray, ' some'], places: Int[np.ndarray, ' some']
  ) -> Int[np.ndarray, ' some']:
    """Numbers of the examples at some places of the orders of data sets."""
    first = np.cumsum((0, *self.sizes))
    orders = self._orders
    return np.array([
        first[one] + orders[one](int(place))
        for one, place in zip(sets, places, strict=True)
    ], np.int64)

  def drawn(self, steps: int) -> Int[np.ndarray, ' sets']:
    """`[sets] int64`: examples of each data set in the first steps."""
    draws = steps * (self.batch_size if self.is_mixed else 1)
    whole, rest = divmod(draws, sum(self.cycle))
    counts = whole * np.array(self.cycle, np.int64) + np.bincount(
        self._shuffled(whole)[:rest], minlength=len(self.cycle)
    )
    return counts if self.is_mixed else counts * self.batch_size

  def _draws(self, first, count):
    """The data sets of draws from `first` on, and how often each came before.
    """
    length = sum(self.cycle)
    sets, before = [], []
    for number in range(first // length, (first + count - 1) // length + 1):
      order = self._shuffled(number)
      earlier = np.zeros(length, np.int64)
      for one, draws in enumerate(self.cycle):
        earlier[order == one] = number * draws + np.arange(draws)
      begin = max(0, first - number * length)
      chosen = slice(begin, min(length, first + count - number * length))
      sets.append(order[chosen])
      before.append(earlier[chosen])
    return np.concatenate(sets), np.concatenate(before)

  def _shuffled(self, number: int) -> Int[np.ndarray, ' cycle']:
    """`[cycle] int64`: the data sets of the draws of a cycle."""
    rng = np.random.default_rng((self.seed, _SALT, number))
    return rng.permutation(np.repeat(np.arange(len(self.cycle)), self.cycle))

  @functools.cached_property
  def _orders(self) -> list[Callable[[int], int]]:
    """An endless order of the examples of each data set: by place."""
    given = self.orders or (None,) * len(self.sizes)
    return [
        grain.MapDataset.range(size).seed(
            self.seed + number).shuffle().repeat().__getitem__
        if order is None
        else functools.partial(self._at, functools.lru_cache(2)(order))
        for number, (size, order) in enumerate(
            zip(self.sizes, given, strict=True)
        )
    ]

  def _at(self, order: Callable[[int], np.ndarray], place: int) -> int:
    step, inside = divmod(place, self.batch_size)
    return int(order(step)[inside])
