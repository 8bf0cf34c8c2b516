"""Vectors as bits, one a feature, and how many of them differ. Pure.

Yamada et al., 2021, "Efficient Passage Retrieval with Hashing for Open-domain
Question Answering" (BPR), section 3: candidates by Hamming distance, which are
scored again by the query's own vector.
"""

from concurrent import futures

import numpy as np
from jaxtyping import Float, Int, UInt16, UInt64

_BLOCK = 16_384  # Rows whose codes of 768 features take 1.5 MiB: a cache's.
_WORD = 64


def encode(
    vecs: Float[np.ndarray, 'rows features']
) -> UInt64[np.ndarray, 'words rows']:
  """Which features are above zero, 64 in a word, word by word.

  Args:
    vecs: `[rows, features]`.

  Returns:
    `[ceil(features / 64), rows] uint64`; bits past the features are 0.
  """
  rows, features = vecs.shape
  words = -(-features // _WORD)
  octets = np.zeros((rows, words * _WORD // 8), np.uint8)
  bits = np.packbits(vecs > 0, axis=1)
  octets[:, : bits.shape[1]] = bits
  return np.ascontiguousarray(octets.view(np.uint64).T)


def distances(
    codes: UInt64[np.ndarray, 'words rows'],
    queries: UInt64[np.ndarray, 'words queries'],
    threads: int = 1,
) -> UInt16[np.ndarray, 'queries rows']:
  """How many bits differ.

  Args:
    codes: of passages.
    queries: codes of queries.
    threads: that compute, each some rows.
  """
  count = codes.shape[1]
  found = np.zeros((queries.shape[1], count), np.uint16)
  starts = range(0, count, _BLOCK)

  def compute(start: int) -> None:
    span = slice(start, start + _BLOCK)
    for line in range(len(found)):
      part = found[line, span]
      for word, bits in zip(codes, queries[:, line], strict=True):
        part += np.bitwise_count(word[span] ^ bits)

  if threads == 1 or len(starts) < 2:
    for start in starts:
      compute(start)
  else:
    with futures.ThreadPoolExecutor(min(threads, len(starts))) as pool:
      list(pool.map(compute, starts))
  return found


def nearest(
    distance: UInt16[np.ndarray, ' rows'], count: int
) -> Int[np.ndarray, ' count']:
  """The rows with the smallest distances, nearest first, then by row.

  Args:
    distance: `[rows]`.
    count: rows wanted, not more than there are.
  """
  at_most = np.bincount(distance).cumsum()
  limit = int(np.searchsorted(at_most, count))
  rows = np.flatnonzero(distance <= limit)
  order = np.argsort(distance[rows], kind='stable')
  return rows[order[:count]]

