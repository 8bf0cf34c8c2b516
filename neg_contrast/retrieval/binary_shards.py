"""Candidates by the signs of features: 1 bit a feature in memory.

96 bytes of 768 features where float32 takes 3,072: the codes of 21,015,324
passages take 2.0 GB, and only candidates are read from the table of vectors.
"""

import pathlib

import numpy as np
from jaxtyping import Float32, UInt64

from neg_contrast.artifacts import arrays
from neg_contrast.retrieval import binary_codes, quantized_shard

_FILE = 'codes.npy'
_DISTANCES = 2**25  # At once: 64 MiB.


class BinaryShard(quantized_shard.Shard):
  """Rows under their codes."""

  def __init__(
      self, first: int, last: int, codes: UInt64[np.ndarray, 'words rows']
  ):
    """Keeps a reference to the codes, which may be mapped."""
    super().__init__(first, last)
    self._codes, self._threads = codes, 1

  def use_threads(self, count: int) -> None:
    """Each computes the distances of some rows."""
    self._threads = count

  def best(
      self,
      queries: Float32[np.ndarray, 'queries features'],
      leaves: int,
      count: int,
  ) -> tuple[np.ndarray, np.ndarray]:
    """The nearest by Hamming distance; see `quantized_shard.Shard.best`.

    Args:
      queries: `[queries, features] float32`.
      leaves: there is one.
      count: rows wanted, not more than there are.

    Returns:
      Rows, and distances below zero as scores.
    """
    rows = np.zeros((len(queries), count), np.int32)
    scores = np.zeros((len(queries), count), np.float32)
    codes = binary_codes.encode(queries)
    at_once = max(1, _DISTANCES // max(1, self.rows))
    for start in range(0, len(queries), at_once):
      found = binary_codes.distances(
          self._codes, codes[:, start : start + at_once], self._threads
      )
      for line, distance in enumerate(found, start):
        rows[line] = binary_codes.nearest(distance, count)
        scores[line] = -distance[rows[line]].astype(np.float32)
    return rows, scores

  def write(self, folder: pathlib.Path) -> None:
    """Writes the codes."""
    np.save(folder / _FILE, self._codes)


def _library() -> None:
  """NumPy is enough."""


def _read(
    library: None, folder: pathlib.Path, first: int, last: int, leaves: int
) -> BinaryShard:
  """Maps the codes of a shard.

  Raises:
    UserError: they are of other rows.
  """
  codes = arrays.map_array(
      folder / _FILE, (None, last - first), np.uint64, folder
  )
  return BinaryShard(first, last, codes.values)


def _build(
    library: None, vecs: Float32[np.ndarray, 'rows features'], first: int,
    threads: int,
) -> BinaryShard:
  return BinaryShard(first, first + len(vecs), binary_codes.encode(vecs))


BINARY = quantized_shard.Quantizer('binary', _library, _build, _read)
