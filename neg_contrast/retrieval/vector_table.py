"""Vectors on disk, in shards that are mapped when they are first read.

Blocks of 4 MiB are verified by their checksums when they are first read, once
in a process.

A shard is `passages-00000.npy`, which numpy and other programs map as it is.
What a dtype costs, for a vector x that is read back as y:

* float32: nothing, y = x.
* bfloat16: 2 bytes a feature, as uint16 bit patterns, rounded to nearest even;
  |y_i - x_i| <= 2^-8 |x_i|, unless x_i is below 2^-126.
* int8: 1 byte a feature, and 4 a vector for its scale s = max|x_i| / 127 in
  `passages-00000.scales.npy`; y = s * round(x / s), hence
  |y_i - x_i| <= s / 2 = max|x_i| / 254, but for the rounding of float32.

So a score q·y differs from q·x by at most 2^-8 Σ|q_i x_i|, or by
max|x_i| / 254 · Σ|q_i|; the errors of features being independent, by far less.
"""

import contextlib
import dataclasses
import pathlib
import resource
from typing import Any, Protocol, runtime_checkable

import ml_dtypes
import numpy as np
from jaxtyping import Float32, Int

from neg_contrast.artifacts import arrays, folders

DTYPES = ('float32', 'bfloat16', 'int8')
_STORED = {'float32': np.float32, 'bfloat16': np.uint16, 'int8': np.int8}
_PARTIAL = '.partial'
_CHECKED_ROWS = 16_384


@runtime_checkable
class Rows(Protocol):
  """Vectors to be read a part at a time: an ndarray, a `Table`, or several.

  A part is `[..., features] float32`, for an int, a slice, or an integer array
  of any shape. No more than a part has to be in memory.
  """

  @property
  def shape(self) -> tuple[int, ...]:
    """(rows, features)."""
    ...

  @property
  def nbytes(self) -> int:
    """What they take where they lie."""
    ...

  def __len__(self) -> int: ...

  def __getitem__(self, rows: Any, /) -> Any: ...


@dataclasses.dataclass(frozen=True)
class Part:
  """Some rows of others, which are read when they are asked for.

  Attributes:
    vecs: `[all, features] float32`.
    rows: `[rows] int32`, which of them.
  """

  vecs: Rows
  rows: Int[np.ndarray, ' rows']

  @property
  def shape(self) -> tuple[int, ...]:
    """(rows, features)."""
    return len(self.rows), self.vecs.shape[1]

  @property
  def nbytes(self) -> int:
    """What they take where they lie."""
    return len(self) * self.vecs.nbytes // max(1, len(self.vecs))

  def __len__(self) -> int:
    return len(self.rows)

  def __getitem__(self, rows: Any, /) -> Any:
    return self.vecs[self.rows[rows]]


@dataclasses.dataclass(frozen=True)
class Layout:
  """How a table lies on disk.

  Attributes:
    passages: rows of it.
    features: of a row.
    dtype: one of `DTYPES`.
    shard_rows: rows of every shard but the last.
  """

  passages: int
  features: int
  dtype: str = 'float32'
  shard_rows: int = 16_384

  def __post_init__(self):
    if self.dtype not in DTYPES:
      raise ValueError(f'dtype {self.dtype!r}: not one of {DTYPES}')
    if self.shard_rows < 1:
      raise ValueError(f'shard_rows is {self.shard_rows}; at least 1')

  @property
  def shards(self) -> int:
    """How many there are."""
    return -(-self.passages // self.shard_rows)

  @property
  def row_bytes(self) -> int:
    """What a vector takes."""
    return (self.features * np.dtype(_STORED[self.dtype]).itemsize
            + 4 * (self.dtype == 'int8'))

  def rows_of(self, shard: int) -> range:
    """The rows of a shard."""
    first = shard * self.shard_rows
    return range(first, min(first + self.shard_rows, self.passages))


def shard_file(folder: pathlib.Path, shard: int) -> pathlib.Path:
  """The file of a shard's vectors: whole, if it is there."""
  return folder / f'passages-{shard:05d}.npy'


def _scales_file(folder: pathlib.Path, shard: int) -> pathlib.Path:
  return folder / f'passages-{shard:05d}.scales.npy'


class ShardWriter:
  """Takes the vectors of a shard; there is no such shard before `close`."""

  def __init__(self, folder: pathlib.Path, layout: Layout, shard: int):
    """Claims all space, for partial files beside the final ones."""
    rows = len(layout.rows_of(shard))
    self._dtype = layout.dtype
    files: list[tuple[pathlib.Path, Any, tuple[int, ...]]] = [
        (shard_file(folder, shard), _STORED[layout.dtype],
         (rows, layout.features)),
    ]
    if layout.dtype == 'int8':
      files.append((_scales_file(folder, shard), np.float32, (rows,)))
    self._paths = [path for path, _, _ in files]
    self._arrays: list[np.memmap] = []
    try:
      for path, dtype, shape in files:
        self._arrays.append(
            arrays.create_array(_partial(path), dtype, shape)
        )
    except BaseException:
      self.discard()
      raise

  def __setitem__(
      self, rows: slice, vecs: Float32[np.ndarray, 'rows features']
  ) -> None:
    """Keeps `[rows, features] float32` of some rows, counted in the shard.

    Raises:
      ValueError: a vector is not finite.
    """
    check_finite(vecs, 'passage')
    if self._dtype == 'bfloat16':
      self._arrays[0][rows] = vecs.astype(ml_dtypes.bfloat16).view(np.uint16)
    elif self._dtype == 'int8':
      scales = np.abs(vecs).max(axis=1, initial=0) / np.float32(127)
      # A vector of zeros, or nearly, becomes zeros.
      safe = np.where(scales > 0, scales, np.float32(np.inf))
      steps = np.clip(np.rint(vecs / safe[:, None]), -127, 127)
      self._arrays[0][rows] = steps.astype(np.int8)
      self._arrays[1][rows] = scales
    else:
      self._arrays[0][rows] = vecs

  def close(self) -> None:
    """Gives the files their names, that of the vectors last."""
    for array in self._arrays:
      array.flush()
    for path in reversed(self._paths):
      folders.add_file(_partial(path), path)

  def discard(self) -> None:
    """Frees the space."""
    for path in self._paths:
      _partial(path).unlink(missing_ok=True)


def kept_dtype(vecs: Rows) -> np.dtype:
  """The type that holds vectors without loss: bfloat16 or float32."""
  return vecs.kept_dtype if isinstance(vecs, Table) else np.dtype(np.float32)


def read(vecs: Rows, rows: range) -> np.ndarray:
  """Adjacent vectors, `[rows, features]` in their `kept_dtype`."""
  if isinstance(vecs, Table):
    return vecs.read(rows)
  return np.asarray(vecs[rows.start : rows.stop], np.float32)


def check_finite(vecs: np.ndarray, what: str) -> None:
  """Refuses vectors that hold NaN or infinity, a few rows at a time.

  Args:
    vecs: `[rows, features]`.
    what: they are, for the message.

  Raises:
    ValueError: one is not finite.
  """
  parts = range(0, len(vecs), _CHECKED_ROWS)
  if not all(np.isfinite(vecs[at : at + _CHECKED_ROWS]).all() for at in parts):
    raise ValueError(f'a {what} vector is not finite: the model is broken')


def _partial(path: pathlib.Path) -> pathlib.Path:
  return path.with_name(path.name + _PARTIAL)


class Table:
  """The vectors of a folder, as if they were one `[rows, features] float32`.

  A slice of a float32 table within a shard is a read-only view of the map;
  everything else is a copy.

  Attributes:
    ndim: 2.
    dtype: float32, of what is read.
  """

  ndim = 2
  dtype = np.dtype(np.float32)

  def __init__(self, folder: pathlib.Path, layout: Layout):
    """Maps nothing yet."""
    self._folder, self._layout = folder, layout
    self._shards: dict[
        int, tuple[arrays.MappedArray, np.ndarray | None]
    ] = {}
    _allow_open_files(layout.shards)

  @property
  def folder(self) -> pathlib.Path:
    """Where it lies."""
    return self._folder

  @property
  def layout(self) -> Layout:
    """How it lies there."""
    return self._layout

  @property
  def shape(self) -> tuple[int, int]:
    """(rows, features)."""
    return self._layout.passages, self._layout.features

  @property
  def nbytes(self) -> int:
    """Bytes of the vectors on disk."""
    return self._layout.passages * self._layout.row_bytes

  def __len__(self) -> int:
    return self._layout.passages

  def __getitem__(self, rows: Any) -> Float32[np.ndarray, '*some features']:
    """Vectors of some rows; negative ones count from the end.

    Args:
      rows: an int, a slice, or integers in an array of any shape.

    Raises:
      IndexError: there are no such rows, or they are not integers.
      UserError: a shard is missing or damaged.
    """
    if isinstance(rows, slice):
      start, stop, step = rows.indices(len(self))
      if step == 1:
        return self._read(start, max(start, stop))
      rows = np.arange(start, stop, step)
    rows = np.asarray(rows)
    if rows.dtype.kind not in 'iu':
      raise IndexError(f'rows are integers, not {rows.dtype}')
    flat = rows.astype(np.int64).ravel()
    flat = np.where(flat < 0, flat + len(self), flat)
    if len(flat) and not 0 <= flat.min() <= flat.max() < len(self):
      raise IndexError(f'a row is not among the {len(self)} of the table')
    return self._gather(flat).reshape(*rows.shape, self._layout.features)

  @property
  def kept_dtype(self) -> np.dtype:
    """The type that holds them without loss: bfloat16 or float32."""
    is_half = self._layout.dtype == 'bfloat16'
    return np.dtype(ml_dtypes.bfloat16 if is_half else np.float32)

  def read(self, rows: range) -> np.ndarray:
    """Adjacent vectors, `[rows, features]` in their `kept_dtype`."""
    return self[rows.start : rows.stop].astype(self.kept_dtype, copy=False)

  def _read(self, start: int, stop: int) -> np.ndarray:
    """Adjacent rows."""
    size = self._layout.shard_rows
    first, last = start // size, max(start, stop - 1) // size
    if first == last and start < stop:
      return self._part(first, slice(start - first * size, stop - first * size))
    vecs = np.empty((stop - start, self._layout.features), np.float32)
    for shard in range(first, last + 1) if start < stop else ():
      begin, end = max(start, shard * size), min(stop, (shard + 1) * size)
      vecs[begin - start : end - start] = self._part(
          shard, slice(begin - shard * size, end - shard * size)
      )
    return vecs

  def _gather(self, rows: Int[np.ndarray, ' rows']) -> np.ndarray:
    """Any rows."""
    vecs = np.empty((len(rows), self._layout.features), np.float32)
    shards = rows // self._layout.shard_rows
    for shard in np.unique(shards).tolist():
      at = np.flatnonzero(shards == shard)
      vecs[at] = self._part(shard, rows[at] - shard * self._layout.shard_rows)
    return vecs

  def _part(self, shard: int, rows: slice | np.ndarray) -> np.ndarray:
    """Rows of one shard, as float32."""
    array, scales = self._shard(shard)
    if isinstance(rows, slice):
      stored = array.check(rows.start, rows.stop)
    else:
      array.check_rows(rows)
      stored = array.values
    if scales is not None:
      return stored[rows] * scales[rows, None]
    if self._layout.dtype == 'bfloat16':
      return stored[rows].view(ml_dtypes.bfloat16).astype(np.float32)
    return stored[rows]

  def _shard(
      self, shard: int
  ) -> tuple[arrays.MappedArray, np.ndarray | None]:
    """Its vectors, mapped, and their scales, in memory: 4 bytes each."""
    if shard not in self._shards:
      rows = len(self._layout.rows_of(shard))
      stored = arrays.map_array(
          shard_file(self._folder, shard), (rows, self._layout.features),
          _STORED[self._layout.dtype],
      )
      scales = None if self._layout.dtype != 'int8' else np.array(
          arrays.load_array(
              _scales_file(self._folder, shard), (rows,), np.float32
          )
      )
      self._shards[shard] = stored, scales
    return self._shards[shard]


def _allow_open_files(count: int) -> None:
  """Asks the system for so many more, since a map keeps its file open."""
  soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
  wanted = soft + count
  if hard != resource.RLIM_INFINITY:
    wanted = min(wanted, hard)
  with contextlib.suppress(OSError, ValueError):  # Then maps fail, and say so.
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
