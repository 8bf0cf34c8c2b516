"""Mapped files and arrays of artifacts, verified where they are read."""

import io
import math
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from neg_contrast.artifacts import checksums, folders

_MAX_HEADER_BYTES = 4096  # Of a .npy file; all of ours have 128.


def create_array(
    path: pathlib.Path, dtype: Any, shape: tuple[int, ...]
) -> np.memmap:
  """A mapped `.npy` file to fill in place; all its space is claimed at once.

  A mapped file that can't grow would kill the process.
  """
  array = np.lib.format.open_memmap(path, mode='w+', dtype=dtype, shape=shape)
  if hasattr(os, 'posix_fallocate'):
    with open(path, 'r+b') as f:
      os.posix_fallocate(f.fileno(), 0, os.fstat(f.fileno()).st_size)
  return array


def map_file(
    path: pathlib.Path,
    folder: pathlib.Path | None = None,
    is_finished: bool = True,
) -> checksums.MappedFile:
  """Maps a file of an artifact, to be verified where it is read.

  Args:
    path: of the file.
    folder: of the artifact; default: that of the file.
    is_finished: whether the artifact is; while it is written there are no
      checksums, and nothing is verified.

  Raises:
    UserError: the file is missing, of another size, or has no checksums.
  """
  folder = folder or path.parent
  known = folders.checksums_of(path, folder) if is_finished else None
  return checksums.MappedFile(path, known, folder)


def check_folder(folder: pathlib.Path) -> None:
  """Verifies all files of an artifact.

  Raises:
    UserError: one is missing or damaged.
  """
  for name in folders.file_names(folder):
    map_file(folder / name, folder).check()


class MappedArray:
  """A mapped `.npy` file, verified where it is read.

  Attributes:
    values: read-only, not to be read before `check`.
    file: verifies all of them, or some bytes.
  """

  def __init__(self, file: checksums.MappedFile):
    """Reads the header.

    Raises:
      UserError: it is damaged.
    """
    self.file = file
    try:
      file.check(0, min(len(file.data), _MAX_HEADER_BYTES))
      stream = io.BytesIO(file.data[:_MAX_HEADER_BYTES].tobytes())
      version = np.lib.format.read_magic(stream)
      read = {(1, 0): np.lib.format.read_array_header_1_0,
              (2, 0): np.lib.format.read_array_header_2_0}[version]
      shape, is_fortran, dtype = read(stream)
      if is_fortran or dtype.hasobject:
        raise ValueError('an order or a type that is never written')
      self._begin = stream.tell()
      self.values = file.data[self._begin:].view(dtype).reshape(shape)
    except (ValueError, KeyError) as e:
      raise file.damaged(e) from None
    self._row_bytes = dtype.itemsize * math.prod(shape[1:])

  def check(self, begin: int = 0, end: int | None = None) -> np.ndarray:
    """Verifies rows `begin` to `end`; default: all.

    Returns:
      `values`.

    Raises:
      UserError: they are damaged.
    """
    end = len(self.values) if end is None else end
    self.file.check(self._begin + begin * self._row_bytes,
                    self._begin + end * self._row_bytes)
    return self.values

  def check_rows(self, rows: np.ndarray) -> None:
    """Verifies some rows, `[rows] int` in any order.

    Raises:
      UserError: they are damaged.
    """
    begins = self._begin + rows.astype(np.int64) * self._row_bytes
    self.file.check_runs(begins, begins + self._row_bytes)


def map_array(
    path: pathlib.Path,
    shape: Sequence[int | None],
    dtype: Any = None,
    folder: pathlib.Path | None = None,
    is_finished: bool = True,
) -> MappedArray:
  """Maps a `.npy` file of an artifact; its rows are verified by `check`.

  Args:
    path: of the file.
    shape: what it has to be; None: any.
    dtype: what it has to be; None: any.
    folder: as `map_file`'s.
    is_finished: as `map_file`'s.

  Raises:
    UserError: the file is missing or damaged; says how to have it made again.
      Or the process has too many files open.
  """
  file = map_file(path, folder, is_finished)
  array = MappedArray(file)
  have = array.values
  if len(have.shape) != len(shape) or any(
      want not in (None, size)
      for want, size in zip(shape, have.shape, strict=True)
  ):
    raise file.damaged(f'holds {have.shape}, not {tuple(shape)}')
  if dtype not in (None, have.dtype):
    raise file.damaged(f'holds {have.dtype}, not {np.dtype(dtype)}')
  return array


def load_array(
    path: pathlib.Path,
    shape: Sequence[int | None],
    dtype: Any = None,
    folder: pathlib.Path | None = None,
    is_finished: bool = True,
) -> np.ndarray:
  """As `map_array`, but verified as a whole."""
  return map_array(path, shape, dtype, folder, is_finished).check()
