"""Token ids of many sequences in one flat array. Pure."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from jaxtyping import Int, Integer


@dataclasses.dataclass(frozen=True)
class Sequences:
  """Runs of a flat array; taking and cutting copy no token.

  Attributes:
    ids: `[flat] int`, such as a mapped file.
    begins: `[sequences] int64`, index of the first token of each.
    ends: `[sequences] int64`, index to stop before.
  """

  ids: Integer[np.ndarray, ' flat']
  begins: Int[np.ndarray, ' sequences']
  ends: Int[np.ndarray, ' sequences']

  def __len__(self) -> int:
    return len(self.begins)

  def __iter__(self) -> Iterator[Integer[np.ndarray, ' tokens']]:
    return (self[row] for row in range(len(self)))

  def __getitem__(self, row: int) -> Integer[np.ndarray, ' tokens']:
    """Token ids of one.

    Raises:
      IndexError: there is no such row; -1, which pads pools, is none.
    """
    self._check(row, row)
    return self.ids[self.begins[row] : self.ends[row]]

  @property
  def lengths(self) -> Int[np.ndarray, ' sequences']:
    """`[sequences] int64`."""
    return self.ends - self.begins

  def take(self, rows: Integer[np.ndarray, ' rows']) -> 'Sequences':
    """Some of them; raises as `sequences[row]` does."""
    if len(rows):
      self._check(int(rows.min()), int(rows.max()))
    return Sequences(self.ids, self.begins[rows], self.ends[rows])

  def cut(
      self,
      first: Integer[np.ndarray, ' sequences'] | int,
      end: Integer[np.ndarray, ' sequences'] | int,
  ) -> 'Sequences':
    """Tokens `first` to `end` of each, as far as there are."""
    begins = self.begins + np.clip(first, 0, self.lengths)
    ends = self.begins + np.clip(end, 0, self.lengths)
    return Sequences(self.ids, begins, np.maximum(begins, ends))

  def _check(self, least: int, most: int) -> None:
    for row in (least, most):
      if not 0 <= row < len(self):
        raise IndexError(f'row {row} of a store of {len(self)} rows')


def listed(arrays: Iterable[Integer[np.ndarray, ' _tokens']]) -> Sequences:
  """Sequences of a few arrays."""
  arrays = list(arrays)
  lengths = np.array([len(array) for array in arrays], np.int64)
  ends = np.cumsum(lengths)
  ids = np.concatenate([np.zeros(0, np.int32), *arrays])
  return Sequences(ids, ends - lengths, ends)


def joined(parts: Sequence[Sequences]) -> Sequences:
  """The sequences of all parts, in order; copies their flat arrays."""
  shifts = np.cumsum([0, *(len(part.ids) for part in parts[:-1])])
  shifted = list(zip(parts, shifts, strict=True))
  return Sequences(
      np.concatenate([part.ids for part in parts]),
      np.concatenate([part.begins + shift for part, shift in shifted]),
      np.concatenate([part.ends + shift for part, shift in shifted]),
  )


def runs(
    begins: Int[np.ndarray, ' runs'], lengths: Int[np.ndarray, ' runs']
) -> Int[np.ndarray, ' numbers']:
  """`[numbers] int64`: begin, begin + 1, ... of each run, run after run."""
  before = np.cumsum(lengths) - lengths
  return np.repeat(begins - before, lengths) + np.arange(lengths.sum())
