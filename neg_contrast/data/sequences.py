"""Token ids of many sequences in flat arrays, read when they are used. Pure."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int, Integer


@runtime_checkable
class ReadIds(Protocol):
  """A flat array that is read when it is asked for, see `ranged_file.py`."""

  def __getitem__(self, part: Any, /) -> np.ndarray:
    """Values of a slice, or of `[values] int` numbers."""
    ...


@dataclasses.dataclass(frozen=True)
class Sequences:
  """Runs of a flat array; taking and cutting copy no token.

  Attributes:
    ids: `[flat] int`, such as a mapped file.
    begins: `[sequences] int64`, index of the first token of each.
    ends: `[sequences] int64`, index to stop before.
    before_reading: called with the begins and ends of the runs of `ids` that
      are read next; a mapped file is verified there.
  """

  ids: Integer[np.ndarray, ' flat'] | ReadIds
  begins: Int[np.ndarray, ' sequences']
  ends: Int[np.ndarray, ' sequences']
  before_reading: Callable[[np.ndarray, np.ndarray], object] | None = None

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
    one = slice(row, row + 1)
    if self.before_reading:
      self.before_reading(self.begins[one], self.ends[one])
    return self.ids[self.begins[row] : self.ends[row]]

  @property
  def lengths(self) -> Int[np.ndarray, ' sequences']:
    """`[sequences] int64`."""
    return self.ends - self.begins

  def take(self, rows: Integer[np.ndarray, ' rows']) -> 'Sequences':
    """Some of them; raises as `sequences[row]` does."""
    if len(rows):
      self._check(int(rows.min()), int(rows.max()))
    return dataclasses.replace(
        self, begins=self.begins[rows], ends=self.ends[rows]
    )

  def cut(
      self,
      first: Integer[np.ndarray, ' sequences'] | int,
      end: Integer[np.ndarray, ' sequences'] | int,
  ) -> 'Sequences':
    """Tokens `first` to `end` of each, as far as there are."""
    begins = self.begins + np.clip(first, 0, self.lengths)
    ends = self.begins + np.clip(end, 0, self.lengths)
    return dataclasses.replace(
        self, begins=begins, ends=np.maximum(begins, ends)
    )

  def flat(self) -> Integer[np.ndarray, ' tokens']:
    """`[tokens] int`: the token ids of all, sequence after sequence."""
    if self.before_reading:
      self.before_reading(self.begins, self.ends)
    return self.ids[runs(self.begins, self.lengths)]

  def _check(self, least: int, most: int) -> None:
    for row in (least, most):
      if not 0 <= row < len(self):
        raise IndexError(f'row {row} of a store of {len(self)} rows')


@dataclasses.dataclass(frozen=True)
class Chained:
  """Sequences of several pieces each; taking copies no token.

  Attributes:
    pieces: the first pieces of all sequences, their second ones, and so on.
  """

  pieces: tuple[Sequences, ...]

  def __len__(self) -> int:
    return len(self.pieces[0])

  def __iter__(self) -> Iterator[Integer[np.ndarray, ' tokens']]:
    return (self[row] for row in range(len(self)))

  def __getitem__(self, row: int) -> Integer[np.ndarray, ' tokens']:
    """Token ids of one; raises as `Sequences` does."""
    return np.concatenate([piece[row] for piece in self.pieces])

  @property
  def lengths(self) -> Int[np.ndarray, ' sequences']:
    """`[sequences] int64`."""
    return np.sum([piece.lengths for piece in self.pieces], axis=0)

  def take(self, rows: Integer[np.ndarray, ' rows']) -> 'Chained':
    """Some of them; raises as `Sequences` does."""
    return Chained(tuple(piece.take(rows) for piece in self.pieces))

  def flat(self) -> Int[np.ndarray, ' tokens']:
    """`[tokens] int32`: the token ids of all, sequence after sequence."""
    lengths = self.lengths
    places = np.cumsum(lengths) - lengths
    ids = np.empty(lengths.sum(), np.int32)
    for piece in self.pieces:
      ids[runs(places, piece.lengths)] = piece.flat()
      places += piece.lengths
    return ids


@dataclasses.dataclass(frozen=True)
class Interleaved:
  """Sequences of several stores in any order; taking copies no token.

  Attributes:
    parts: the sequences of each store.
    part: `[sequences] int`, which of the parts each comes from.
    place: `[sequences] int`, which sequence of that part it is.
  """

  parts: 'tuple[AnySequences, ...]'
  part: Int[np.ndarray, ' sequences']
  place: Int[np.ndarray, ' sequences']

  def __len__(self) -> int:
    return len(self.part)

  def __iter__(self) -> Iterator[Integer[np.ndarray, ' tokens']]:
    return (self[row] for row in range(len(self)))

  def __getitem__(self, row: int) -> Integer[np.ndarray, ' tokens']:
    """Token ids of one; raises as `Sequences` does."""
    return self.parts[self.part[row]][int(self.place[row])]

  @property
  def lengths(self) -> Int[np.ndarray, ' sequences']:
    """`[sequences] int64`."""
    lengths = np.zeros(len(self), np.int64)
    for lines, chosen in self._by_part():
      lengths[lines] = chosen.lengths
    return lengths

  def take(self, rows: Integer[np.ndarray, ' rows']) -> 'Interleaved':
    """Some of them; raises as `Sequences` does."""
    return dataclasses.replace(
        self, part=self.part[rows], place=self.place[rows]
    )

  def flat(self) -> Int[np.ndarray, ' tokens']:
    """`[tokens] int32`: the token ids of all, sequence after sequence."""
    lengths = self.lengths
    begins = np.cumsum(lengths) - lengths
    ids = np.empty(lengths.sum(), np.int32)
    for lines, chosen in self._by_part():
      ids[runs(begins[lines], lengths[lines])] = chosen.flat()
    return ids

  def _by_part(self):
    """(numbers of sequences, these sequences) of each part that has some."""
    for number, part in enumerate(self.parts):
      lines = np.flatnonzero(self.part == number)
      if len(lines):
        yield lines, part.take(self.place[lines])


@runtime_checkable
class FeatureValues(Protocol):
  """Features of texts, see `side_features.feature_table`."""

  def values(
      self, rows: Integer[np.ndarray, ' rows']
  ) -> dict[str, np.ndarray]:
    """By the feature's key, `[rows, columns]` of some texts."""
    ...


@dataclasses.dataclass(frozen=True)
class Featured:
  """Sequences with features beside their tokens; taking reads none.

  Attributes:
    tokens: the sequences.
    table: features of texts.
    rows: `[sequences] int`, which text of the table each is.
  """

  tokens: 'AnySequences'
  table: FeatureValues
  rows: Integer[np.ndarray, ' sequences']

  def __len__(self) -> int:
    return len(self.tokens)

  def __iter__(self) -> Iterator[Integer[np.ndarray, ' tokens']]:
    return iter(self.tokens)

  def __getitem__(self, row: int) -> Integer[np.ndarray, ' tokens']:
    """Token ids of one; raises as `Sequences` does."""
    return self.tokens[row]

  @property
  def lengths(self) -> Int[np.ndarray, ' sequences']:
    """`[sequences] int64`."""
    return self.tokens.lengths

  @property
  def side_features(self) -> dict[str, np.ndarray]:
    """By the feature's key, `[sequences, columns]`."""
    return self.table.values(self.rows)

  def take(self, rows: Integer[np.ndarray, ' rows']) -> 'Featured':
    """Some of them; raises as `Sequences` does."""
    return Featured(self.tokens.take(rows), self.table, self.rows[rows])

  def flat(self) -> Integer[np.ndarray, ' tokens']:
    """`[tokens] int`: the token ids of all, sequence after sequence."""
    return self.tokens.flat()


AnySequences = Sequences | Chained | Interleaved | Featured


def listed(arrays: Iterable[Integer[np.ndarray, ' _tokens']]) -> Sequences:
  """Sequences of a few arrays."""
  arrays = list(arrays)
  lengths = np.array([len(array) for array in arrays], np.int64)
  ends = np.cumsum(lengths)
  ids = np.concatenate([np.zeros(0, np.int32), *arrays])
  return Sequences(ids, ends - lengths, ends)


def repeated(ids: Sequence[int], count: int) -> Sequences:
  """The same sequence several times."""
  begins = np.zeros(count, np.int64)
  return Sequences(np.array(ids, np.int32), begins, begins + len(ids))


def runs(
    begins: Int[np.ndarray, ' runs'], lengths: Int[np.ndarray, ' runs']
) -> Int[np.ndarray, ' numbers']:
  """`[numbers] int64`: begin, begin + 1, ... of each run, run after run."""
  before = np.cumsum(lengths) - lengths
  numbers = np.repeat(begins - before, lengths)
  numbers += np.arange(len(numbers))
  return numbers
