"""Equal questions of many pairs, found by Beam: GroupByKey on their codes.

The result is that of `pair_writer.equal_queries`, which sorts all codes in one
process and takes 60 bytes a pair there. Here workers sort parts, and this
process holds 37 bytes a pair, where no question is repeated: first pairs 8,
whether each is one 1, rows 4, the order of questions 8, and the results
4 + 8 + 4. It reads the codes, 10, after that.
"""

import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from jaxtyping import Int

from neg_contrast import beams
from neg_contrast.artifacts import passed_on
from neg_contrast.data import synthetic_pairs

_PART_PAIRS = 1 << 19
"""Pairs that a worker sorts at once, in some 100 MB."""

_CODES = 1 << 32  # Of the first four bytes, which are those of a hash.


@dataclasses.dataclass(frozen=True)
class _Codes:
  """The codes of files, by the part of all codes that they belong to.

  Attributes:
    files: `.npy`, `[pairs, 10] uint8` each.
    begins: number of the first pair of each.
    parts: how many; a part's codes come before those of the next.
  """

  files: Sequence[pathlib.Path]
  begins: Sequence[int]
  parts: int

  def __call__(self, number: int) -> Iterator[tuple[int, tuple[bytes, bytes]]]:
    """Part, and the codes and numbers of its pairs in a file, as bytes."""
    codes = np.load(self.files[number])
    pairs = np.arange(len(codes), dtype='<i8') + self.begins[number]
    first = np.ascontiguousarray(codes[:, :4]).view('>u4').ravel()
    part_of = first.astype(np.int64) * self.parts // _CODES
    for part in np.unique(part_of).tolist():
      is_its = part_of == part
      yield part, (codes[is_its].tobytes(), pairs[is_its].tobytes())


@dataclasses.dataclass(frozen=True)
class _SortCodes:
  """Finds the first pair of each code of a part.

  Attributes:
    folder: gets `pairs-<part>.npy`, `[2, pairs] int64`: pairs, and the first
      ones of the same code; and `order-<part>.npy`, `[codes] int64`: first
      pairs in the order of codes.
  """

  folder: pathlib.Path

  def __call__(self, part: int, some: Iterable[tuple[bytes, bytes]]) -> None:
    """Writes a part."""
    codes, pairs = map(b''.join, zip(*some, strict=True))
    keys = np.frombuffer(codes, f'V{synthetic_pairs.CODE_BYTES}')
    numbers = np.frombuffer(pairs, '<i8').astype(np.int64)
    by_number = np.argsort(numbers)
    numbers = numbers[by_number]
    _, first, which = np.unique(
        _sortable(keys[by_number]), axis=0, return_index=True,
        return_inverse=True,
    )
    for name, values in (
        ('pairs', np.stack([numbers, numbers[first][which.ravel()]])),
        ('order', numbers[first]),
    ):
      passed_on.save(self.folder / f'{name}-{part:06d}.npy', values)


def _sortable(keys: np.ndarray) -> np.ndarray:
  """`[codes, 10] uint8`, which sort as bytes do."""
  return keys.view(np.uint8).reshape(-1, synthetic_pairs.CODE_BYTES)


def equal_queries(
    files: Sequence[pathlib.Path], scratch: pathlib.Path
) -> tuple[Int[np.ndarray, ' pairs'], Int[np.ndarray, ' queries'],
           Int[np.ndarray, ' queries']]:
  """Numbers queries as they first come.

  Args:
    files: `.npy`, `[pairs, 10] uint8`: what stands for the query of each pair.
    scratch: place of a folder, see `passed_on.shared`.

  Returns:
    As `pair_writer.equal_queries`.
  """
  with passed_on.shared(scratch) as seen:
    return _equal_queries(files, seen)


def _equal_queries(files, scratch):
  counts = [len(np.load(file, mmap_mode='r')) for file in files]
  ends = np.cumsum(counts)
  pairs = int(ends[-1])
  parts = max(1, -(-pairs // _PART_PAIRS))
  beams.run('finding equal questions', [beams.Grouped(
      _Codes(files, (ends - counts).tolist(), parts), _SortCodes(scratch),
      [number for number, count in enumerate(counts) if count],
  )])
  first_of = np.empty(pairs, np.int64)
  for path in sorted(scratch.glob('pairs-*.npy')):
    numbers, firsts = np.load(path)
    first_of[numbers] = firsts
  is_first = first_of == np.arange(pairs)
  row_of = np.cumsum(is_first, dtype=np.int32) - np.int32(1)
  order = np.concatenate([
      np.load(path) for path in sorted(scratch.glob('order-*.npy'))
  ])
  return row_of[first_of], np.flatnonzero(is_first), row_of[order]
