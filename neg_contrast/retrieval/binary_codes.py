"""Vectors as one bit a feature, and products with queries of four. Pure.

Gao and Long, 2024, "RaBitQ: Quantizing High-Dimensional Vectors with a
Theoretical Error Bound for Approximate Nearest Neighbor Search", section 3. A
passage x of a table with the mean m is rotated at random, so that all features
matter alike: y = R (x - m). Kept are the signs of y and the factor
|y|^2 / sum |y_i|, with which `factor * sum(sign(y_i) (R q)_i)` estimates
q (x - m) without bias. Of R q, features are rounded to 15 steps, whose bits are
counted where those of the passage are set.
"""

import dataclasses
import functools
from concurrent import futures

import numpy as np
from jaxtyping import Float32, UInt64

_BLOCK = 16_384  # Rows whose codes of 768 features take 1.5 MiB: a cache's.
_READ_ROWS = 4_096
_WORD = 64
_STEPS = 7  # Each side of zero.
_WEIGHTS = (1, 2, 4, -8)  # Of the bits of a step.


@dataclasses.dataclass(frozen=True)
class Codes:
  """What is kept of vectors.

  Attributes:
    bits: `[words, rows] uint64`: which rotated features are above zero, 64 in a
      word; those past the last feature are 0.
    factors: `[rows] float32`, of the products.
    mean: `[features] float32`, of the vectors.
  """

  bits: UInt64[np.ndarray, 'words rows']
  factors: Float32[np.ndarray, ' rows']
  mean: Float32[np.ndarray, ' features']


def encode(vecs: Float32[np.ndarray, 'rows features']) -> Codes:
  """Codes of vectors, of which there is at least one."""
  mean = vecs.mean(axis=0, dtype=np.float64).astype(np.float32)
  turn = rotation(vecs.shape[1]).T
  factors = np.empty(len(vecs), np.float32)
  bits = np.empty((-(-vecs.shape[1] // _WORD), len(vecs)), np.uint64)
  for start in range(0, len(vecs), _READ_ROWS):
    part = slice(start, start + _READ_ROWS)
    turned = (vecs[part] - mean) @ turn
    lengths = np.abs(turned).sum(axis=1)
    factors[part] = np.square(turned).sum(axis=1) / np.maximum(lengths, 1e-30)
    bits[:, part] = _packed(turned > 0)
  return Codes(bits, factors, mean)


def products(
    codes: Codes,
    queries: Float32[np.ndarray, 'queries features'],
    threads: int = 1,
) -> Float32[np.ndarray, 'queries rows']:
  """Estimates of dot products.

  A query's do not depend on the other queries, nor on the threads.

  Args:
    codes: of passages.
    queries: `[queries, features] float32`.
    threads: that compute, each some rows.
  """
  turn, count = rotation(queries.shape[1]), codes.bits.shape[1]
  prepared = [_Query(turn @ query, float(codes.mean @ query))
              for query in queries]
  found = np.empty((len(queries), count), np.float32)
  starts = range(0, count, _BLOCK)

  def compute(start: int) -> None:
    part = slice(start, start + _BLOCK)
    bits, factors = codes.bits[:, part], codes.factors[part]
    for line, query in enumerate(prepared):
      found[line, part] = query.products(bits, factors)

  if threads == 1 or len(starts) < 2:
    for start in starts:
      compute(start)
  else:
    with futures.ThreadPoolExecutor(min(threads, len(starts))) as pool:
      list(pool.map(compute, starts))
  return found


@functools.lru_cache(maxsize=4)
def rotation(features: int) -> Float32[np.ndarray, 'features features']:
  """A fixed orthogonal matrix, of no special direction."""
  random = np.random.default_rng(0).standard_normal((features, features))
  made, _ = np.linalg.qr(random)
  return made.astype(np.float32)


class _Query:
  """A rotated query in steps."""

  def __init__(self, turned: np.ndarray, offset: float):
    """Rounds it; `offset` is its product with the mean."""
    self._step = max(float(np.abs(turned).max(initial=0)), 1e-30) / _STEPS
    steps = np.rint(turned / self._step).astype(np.int8)
    self._planes = _packed(np.stack(
        [(steps >> place) & 1 for place in range(len(_WEIGHTS))]
    ).astype(bool))
    self._sum, self._offset = int(steps.sum()), offset

  def products(self, bits, factors) -> np.ndarray:
    """`[rows] float32` of `[words, rows]` bits."""
    set_steps = np.zeros(bits.shape[1], np.int32)
    for plane, weight in zip(self._planes.T, _WEIGHTS, strict=True):
      counts = np.zeros(bits.shape[1], np.uint16)
      for word, of_query in zip(bits, plane, strict=True):
        if of_query:
          counts += np.bitwise_count(word & of_query)
      set_steps += np.int32(weight) * counts
    signed = (2 * set_steps - self._sum).astype(np.float32)
    return signed * factors * np.float32(self._step) + np.float32(self._offset)


def _packed(is_set: np.ndarray) -> np.ndarray:
  """`[words, rows] uint64` of `[rows, features] bool`."""
  rows, features = is_set.shape
  octets = np.zeros((rows, -(-features // _WORD) * _WORD // 8), np.uint8)
  packed = np.packbits(is_set, axis=1)
  octets[:, : packed.shape[1]] = packed
  return np.ascontiguousarray(octets.view(np.uint64).T)
