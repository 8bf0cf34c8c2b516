"""Packed records in files, from the worker that reads to the one that stores.

A file holds some records at a time: how many there are, the lengths of their
fields in bytes, and the fields, each of all records together.
"""

import pathlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from neg_contrast.data import packed_records

_FIELDS = packed_records.PackedRecord._fields
_TEXTS = ('world', 'where')  # The others are bytes.


def write(
    path: pathlib.Path,
    lists: Iterable[Sequence[packed_records.PackedRecord]],
) -> int:
  """Writes records; returns how many there are."""
  total = 0
  with open(path, 'wb') as f:
    for some in filter(None, lists):
      columns = [
          [value.encode() for value in values] if name in _TEXTS else values
          for name, values in zip(
              _FIELDS, zip(*some, strict=True), strict=True)
      ]
      lengths = np.array([list(map(len, column)) for column in columns], '<i4')
      f.write(np.array([len(some)], '<i4').tobytes() + lengths.tobytes())
      for column in columns:
        f.write(b''.join(column))
      total += len(some)
  return total


def read(
    path: pathlib.Path, names: Sequence[str] = _FIELDS
) -> Iterator[list[tuple]]:
  """Some records at a time, in order.

  Args:
    path: of the file.
    names: of the fields that are wanted.

  Yields:
    A list of `PackedRecord`, or of tuples of the fields that are wanted.
  """
  make = packed_records.PackedRecord._make if names == _FIELDS else tuple
  with open(path, 'rb') as f:
    while head := f.read(4):
      count = int(np.frombuffer(head, '<i4')[0])
      size = 4 * count * len(_FIELDS)
      lengths = np.frombuffer(f.read(size), '<i4').reshape(-1, count)
      columns = {}
      for name, some in zip(_FIELDS, lengths, strict=True):
        total = int(some.sum())
        if name in names:
          columns[name] = _cut(f.read(total), some, name in _TEXTS)
        else:
          f.seek(total, 1)
      yield list(map(make, zip(*(columns[name] for name in names),
                               strict=True)))


def _cut(data: bytes, lengths: np.ndarray, is_text: bool) -> list:
  ends = np.cumsum(lengths).tolist()
  begins = [0, *ends[:-1]]
  values = [data[begin:end] for begin, end in zip(begins, ends, strict=True)]
  return [value.decode() for value in values] if is_text else values
