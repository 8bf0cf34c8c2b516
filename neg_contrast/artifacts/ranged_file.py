"""Values of a file in a bucket, for who reads a part of them alone."""

import functools
import pathlib
import threading
from typing import Any

import numpy as np

from neg_contrast.artifacts import checksums, folders, places

_KEPT_BLOCKS = 32  # 128 MiB: 200,000 passages of 600 bytes.


class RangedValues:
  """A flat array in a file, read by verified blocks of 4 MiB.

  The blocks that were read last stay in memory; no file keeps them.
  """

  def __init__(self, path: pathlib.Path, dtype: Any):
    """Reads no values yet.

    Args:
      path: of a file of an artifact, in its folder.
      dtype: of the values; its size is a power of two.

    Raises:
      UserError: the file is missing or has no checksums.
    """
    self._path, self._dtype = path, np.dtype(dtype)
    self._known = folders.checksums_of(path, path.parent)
    self._values = checksums.BLOCK_BYTES // self._dtype.itemsize
    try:
      self._stream = places.in_ranges(path).open('rb')
    except FileNotFoundError as e:
      raise checksums.damaged(path, e.strerror or e) from None
    self._lock = threading.Lock()
    self._block = functools.lru_cache(_KEPT_BLOCKS)(self._read)

  def __len__(self) -> int:
    return self._known['bytes'] // self._dtype.itemsize

  def __getitem__(self, part: slice | np.ndarray) -> np.ndarray:
    """Some values.

    Args:
      part: a slice without a step, or `[values] int` that are not negative.

    Raises:
      IndexError: there is no such value.
      UserError: a block of them is damaged.
    """
    if isinstance(part, slice):
      begin, end, _ = part.indices(len(self))
      blocks = range(begin // self._values, -(-end // self._values))
      parts = [self._block(block)[
          max(0, begin - block * self._values) : end - block * self._values
      ] for block in blocks if begin < end]
      if len(parts) == 1:
        return parts[0]
      return np.concatenate([np.zeros(0, self._dtype), *parts])
    if len(part) and part.max() >= len(self):
      raise IndexError(f'{part.max()} of {len(self)}')
    values, blocks = np.empty(len(part), self._dtype), part // self._values
    for block in np.unique(blocks).tolist():
      is_its = blocks == block
      values[is_its] = self._block(block)[part[is_its] - block * self._values]
    return values

  def _read(self, block: int) -> np.ndarray:
    with self._lock:
      self._stream.seek(block * checksums.BLOCK_BYTES)
      data = np.frombuffer(
          self._stream.read(checksums.BLOCK_BYTES), np.uint8)
    problem = checksums.problem_of_block(data, self._known['xxh3'], block)
    if problem:
      raise checksums.damaged(self._path, problem)
    return data.view(self._dtype)
