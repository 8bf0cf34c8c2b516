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

import math
import pathlib
from typing import Any

import numpy as np
from jaxtyping import Float32

from neg_contrast import errors
from neg_contrast.retrieval import quantized_shard

_BRUTE_FORCE_BELOW = 1_000
_BLOCKS = 256
_ANISOTROPY = 4.1
_TRAINING_ROWS = 100_000
_NORM_ROWS = 4_096  # Of a shard, for their mean norm.
_LEAST_THREADS = 2  # See above.
_SEARCHER = 'searcher'


class ScannShard(quantized_shard.Shard):
  """Rows under one ScaNN searcher.

  Attributes:
    searcher: ScaNN's.
  """

  def __init__(self, first: int, last: int, leaves: int, searcher: Any):
    """Takes a searcher of as many rows."""
    super().__init__(first, last, leaves)
    self.searcher = searcher

  def use_threads(self, count: int) -> None:
    """ScaNN's own."""
    self.searcher.set_num_threads(count)

  def best(
      self,
      queries: Float32[np.ndarray, 'queries features'],
      leaves: int,
      count: int,
  ) -> tuple[np.ndarray, np.ndarray]:
    """By quantised products; see `quantized_shard.Shard.best`."""
    rows, scores = self.searcher.search_batched_parallel(
        queries, count, count, leaves, batch_size=64
    )
    missing = np.isnan(scores)  # ScaNN's padding.
    rows = rows.astype(np.int32)
    rows[missing], scores[missing] = -1, -np.inf
    return rows, scores

  def write(self, folder: pathlib.Path) -> None:
    """Writes the searcher."""
    (folder / _SEARCHER).mkdir()
    # The default is absolute paths, of the scratch folder at that.
    self.searcher.serialize(str(folder / _SEARCHER), relative_path=True)


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
) -> ScannShard:
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
  return ScannShard(first, first + rows, leaves, builder.build())


def _read(
    library: Any, folder: pathlib.Path, first: int, last: int, leaves: int
) -> ScannShard:
  return ScannShard(first, last, leaves, library.load_searcher(
      str(folder / _SEARCHER), assets_backcompat_shim=False
  ))


def _threshold(vecs: Float32[np.ndarray, 'rows features']) -> float:
  """The anisotropic threshold, for ScaNN takes it absolute: T times a norm."""
  features = vecs.shape[1]
  some = vecs[:: max(1, len(vecs) // _NORM_ROWS)]
  norm = math.sqrt(np.mean(np.sum(some * some, axis=1)))
  return norm * math.sqrt(_ANISOTROPY / (features - 1 + _ANISOTROPY))


SCANN = quantized_shard.Quantizer(
    'scann', load_library, build_shard, _read, ('scann',)
)
