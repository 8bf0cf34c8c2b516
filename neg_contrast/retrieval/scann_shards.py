"""One ScaNN searcher for some rows of a corpus: built, asked for candidates.

What is chosen from the size of a shard (rules of thumb of ScaNN's
docs/algorithms.md, unless said otherwise):

* leaves: the square root of the rows.
* dimensions per block: 2, hence 4 bits for 2 dimensions; 3 or more where 2
  would make over 256 blocks, beyond which ScaNN has no fast selection
  (`use_global_topn` in scann_builder.py).
* anisotropic threshold T: such that an error along a passage weighs 4.1 times
  one across it, (d - 1) T^2 / (1 - T^2) = 4.1 (theorem 3.4 of Guo et al., ICML
  2020) for d features. That is 0.2 at the 100 features of the paper's
  Glove1.2M, where 0.2 is from, and 0.1 at 384 features, where 0.2 finds less
  than no threshold (recall@100 in 200 candidates of 30,000 clustered vectors:
  0.832, 0.814 and 0.825).
* training: up to 100,000 rows, ScaNN's default.
* below 1,000 rows: no quantisation, ScaNN scores them all.

All cores train and quantise, and the bytes are the same for any number of
threads from 2 on (launch/benchmarks/benchmark_scann_threads.py). ScaNN's pool
has one thread less than it is given, and where there is a pool, centres are
sums of four fixed quarters of the rows (`RecomputeCentroidsSimple` in its
gmm_utils.cc): so one core gets two threads too. With `random_init=True` two
builds differ, for the order of the first centres is that of a hash table.
"""

import dataclasses
import math
from typing import Any

import numpy as np
from jaxtyping import Float32, Int32

from neg_contrast import errors

_BRUTE_FORCE_BELOW = 1_000
_BLOCKS = 256
_ANISOTROPY = 4.1
_TRAINING_ROWS = 100_000
_NORM_ROWS = 4_096  # Of a shard, for their mean norm.
_LEAST_THREADS = 2  # See above.


@dataclasses.dataclass(frozen=True)
class Shard:
  """Rows `first` to `last` of the corpus, under one ScaNN searcher.

  Attributes:
    first: row of the corpus.
    last: the row after its last.
    leaves: partitions of its tree.
    searcher: ScaNN's.
  """

  first: int
  last: int
  leaves: int
  searcher: Any

  @property
  def rows(self) -> int:
    """How many there are."""
    return self.last - self.first


def load_library() -> Any:
  """ScaNN's numpy interface.

  Raises:
    UserError: it can't be imported.
  """
  try:
    from scann import scann_ops_pybind
  except Exception as e:  # A library that does not fit raises what it likes.
    raise errors.UserError(
        f'the package scann cannot be imported here ({e}). It exists for Linux '
        'and Python up to 3.13, and a TensorFlow beside it must be 2.20: '
        'pip install scann; or search exactly with '
        f'--{errors.key("index.kind")}=exact'
    ) from e
  return scann_ops_pybind


def build_shard(
    library: Any,
    vecs: Float32[np.ndarray, 'rows features'],
    first: int,
    threads: int,
) -> Shard:
  """Builds the searcher of some rows; the same with any number of threads.

  Args:
    library: of `load_library`.
    vecs: `[rows, features] float32`, those of the shard, finite.
    first: row of the corpus that is its first.
    threads: that build.
  """
  rows, features = vecs.shape
  builder = library.builder(vecs, 1, 'dot_product').set_n_training_threads(
      max(_LEAST_THREADS, threads)
  )
  leaves = 1
  if rows < _BRUTE_FORCE_BELOW:
    builder = builder.score_brute_force()
  else:
    leaves = round(math.sqrt(rows))
    builder = builder.tree(
        leaves, 1, training_sample_size=_TRAINING_ROWS, random_init=False
    ).score_ah(
        max(2, -(-features // _BLOCKS)),
        anisotropic_quantization_threshold=_threshold(vecs),
        training_sample_size=_TRAINING_ROWS,
    )
  return Shard(first, first + rows, leaves, builder.build())


def propose(
    shards: list[Shard],
    queries: Float32[np.ndarray, 'queries features'],
    leaves: int,
    count: int,
) -> tuple[Int32[np.ndarray, 'queries found'],
           Float32[np.ndarray, 'queries found']]:
  """The best passages by ScaNN's approximate score, best first.

  Scores of all shards estimate the same dot products and are compared, so that
  the number of candidates does not grow with the shards.

  Args:
    shards: of the corpus.
    queries: `[queries, features] float32`.
    leaves: partitions of each shard to search.
    count: candidates wanted.

  Returns:
    Rows, -1 where there are fewer, and approximate scores; found <= count.
  """
  if not shards:
    empty = np.zeros((len(queries), 0))
    return empty.astype(np.int32), empty.astype(np.float32)
  parts = []
  for shard in shards:
    size = min(count, shard.rows)
    rows, scores = shard.searcher.search_batched_parallel(
        queries, size, size, min(leaves, shard.leaves), batch_size=64
    )
    missing = np.isnan(scores)  # ScaNN's padding.
    rows = rows.astype(np.int32) + np.int32(shard.first)
    rows[missing], scores[missing] = -1, -np.inf
    parts.append((rows, scores))
  if len(parts) == 1:
    return parts[0]
  rows = np.concatenate([p[0] for p in parts], axis=1)
  scores = np.concatenate([p[1] for p in parts], axis=1)
  order = np.argsort(-scores, axis=1, kind='stable')[:, :count]
  return (np.take_along_axis(rows, order, 1),
          np.take_along_axis(scores, order, 1))


def _threshold(vecs: Float32[np.ndarray, 'rows features']) -> float:
  """The anisotropic threshold, for ScaNN takes it absolute: T times a norm."""
  features = vecs.shape[1]
  some = vecs[:: max(1, len(vecs) // _NORM_ROWS)]
  norm = math.sqrt(np.mean(np.sum(some * some, axis=1)))
  return norm * math.sqrt(_ANISOTROPY / (features - 1 + _ANISOTROPY))
