"""Candidates by one bit a feature in memory.

100 bytes of 768 features where float32 takes 3,072: 21,015,324 passages take
2.1 GB, and only candidates are read from the table of vectors.
"""

import pathlib

import numpy as np
from jaxtyping import Float32

from neg_contrast.artifacts import arrays
from neg_contrast.retrieval import binary_codes, hits, quantized_shard

_BITS, _FACTORS, _MEAN = 'bits.npy', 'factors.npy', 'mean.npy'
_PRODUCTS = 2**24  # At once: 64 MiB.


class BinaryShard(quantized_shard.Shard):
  """Rows under their codes."""

  def __init__(self, first: int, last: int, codes: binary_codes.Codes):
    """Keeps a reference to the codes, which may be mapped."""
    super().__init__(first, last)
    self._codes, self._threads = codes, 1

  def use_threads(self, count: int) -> None:
    """Each computes the products of some rows."""
    self._threads = count

  def best(
      self,
      queries: Float32[np.ndarray, 'queries features'],
      leaves: int,
      count: int,
  ) -> tuple[np.ndarray, np.ndarray]:
    """By estimated products; see `quantized_shard.Shard.best`."""
    found = hits.Hits(
        np.zeros((len(queries), count), np.int32),
        np.zeros((len(queries), count), np.float32),
    )
    order = np.arange(self.rows, dtype=np.int32)
    at_once = max(1, _PRODUCTS // max(1, self.rows))
    for start in range(0, len(queries), at_once):
      part = slice(start, start + at_once)
      best = hits.top_k(binary_codes.products(
          self._codes, queries[part], self._threads
      ), order, count)
      found.rows[part], found.scores[part] = best.rows, best.scores
    return found.rows, found.scores

  def write(self, folder: pathlib.Path) -> None:
    """Writes the codes."""
    np.save(folder / _BITS, self._codes.bits)
    np.save(folder / _FACTORS, self._codes.factors)
    np.save(folder / _MEAN, self._codes.mean)


def _library() -> None:
  """NumPy is enough."""


def _build(
    library: None, vecs: Float32[np.ndarray, 'rows features'], first: int,
    threads: int,
) -> BinaryShard:
  return BinaryShard(first, first + len(vecs), binary_codes.encode(vecs))


def _read(
    library: None, folder: pathlib.Path, first: int, last: int, leaves: int
) -> BinaryShard:
  """Maps the codes of a shard.

  Raises:
    UserError: they are of other rows.
  """
  rows = last - first
  mapped = [
      arrays.map_array(folder / name, shape, dtype, folder).values
      for name, shape, dtype in (
          (_BITS, (None, rows), np.uint64), (_FACTORS, (rows,), np.float32),
          (_MEAN, (None,), np.float32),
      )
  ]
  return BinaryShard(first, last, binary_codes.Codes(*mapped))


BINARY = quantized_shard.Quantizer('binary', _library, _build, _read)
