"""The best passages of queries, as devices find them.

A fold of `device_scan.py`. Of a query's best, ties go to the lower rank.
"""

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from neg_contrast import scoring
from neg_contrast.retrieval import best_keys, device_scan

_QUERIES_AT_ONCE = 1024


@flax.struct.dataclass
class Best:
  """A `device_scan.Fold`: the k highest scores, and the ranks of theirs.

  What is kept: `[queries, k] float32`, descending, and `[queries, k] int32`.

  Attributes:
    k: passages wanted of each.
    score: of a query's vectors and a passage's.
    recall: part of the best of every block that has to be found; None: all.
  """

  k: int = flax.struct.field(pytree_node=False)
  score: scoring.ScoreFunction = flax.struct.field(
      pytree_node=False, default=scoring.DUAL)
  recall: float | None = flax.struct.field(pytree_node=False, default=None)

  def start(self, queries: int) -> tuple[np.ndarray, np.ndarray]:
    """Nothing."""
    shape = queries, self.k
    return (np.full(shape, -np.inf, np.float32),
            np.full(shape, device_scan.PAD, np.int32))

  def add(self, kept: Any, queries: Any, block: Any) -> tuple[Any, None]:
    """The best of a block and of what was found before."""
    vecs, (ranks,) = block
    scores = jnp.where(
        ranks != device_scan.PAD, _scores(self.score, queries, vecs), -jnp.inf
    )

    def join(kept):
      found, at = self._pick(scores)
      own = jnp.where(found > -jnp.inf, ranks[at], device_scan.PAD)
      return _first(jnp.concatenate([kept[0], found], axis=1),
                    jnp.concatenate([kept[1], own], axis=1), self.k)

    is_any_better = jnp.any(scores.max(axis=1) >= kept[0][:, -1])
    return jax.lax.cond(is_any_better, join, lambda kept: kept, kept), None

  def join(self, kept: Any) -> tuple[Array, Array]:
    """The best of all devices."""
    scores, ranks = (jnp.moveaxis(array, 0, 1).reshape(array.shape[1], -1)
                     for array in kept)
    return _first(scores, ranks, self.k)

  def _pick(self, scores):
    """The highest of a block, and where they are."""
    k = min(self.k, scores.shape[1])
    if self.recall is None:
      return jax.lax.top_k(scores, k)
    return jax.lax.approx_max_k(scores, k, recall_target=self.recall)


def search(
    scan: device_scan.DeviceScan,
    fold: Best,
    query_vecs: Float[np.ndarray, 'queries features'],
) -> np.ndarray:
  """The keys of the best; see `best_keys`.

  The processes of all devices come here.

  Args:
    scan: of the corpus, with no column but ranks.
    fold: how many, by which score.
    query_vecs: `[queries, features] float32`.

  Returns:
    `[queries, k] int64`, descending.

  Raises:
    ValueError: a vector is not finite.
  """
  (scores, ranks), _ = scan.fold(fold, query_vecs, _QUERIES_AT_ONCE)
  return np.where(
      ranks == device_scan.PAD, best_keys.NOTHING,
      best_keys.keys_of(scores, np.minimum(ranks, device_scan.PAD - 1)),
  )


def _first(
    scores: Float[Array, 'queries some'], ranks: Int[Array, 'queries some'],
    k: int,
) -> tuple[Array, Array]:
  """The k highest scores; of equal ones those of the lowest ranks."""
  descending, ranks = jax.lax.sort((-scores, ranks), num_keys=2)
  return -descending[:, :k], ranks[:, :k]


def _scores(
    score: scoring.ScoreFunction,
    queries: Float[Array, 'queries query_features'],
    vecs: Array,
) -> Float[Array, 'queries passages']:
  """In full float32 precision, of passages in float32 or bfloat16.

  A float32 is the sum of three bfloat16, so the products with a bfloat16 take
  three passes of a matrix unit, and not the six of two float32.
  """
  if vecs.dtype != jnp.bfloat16:
    return score(queries, vecs)
  if not score.is_dot:
    return score(queries, vecs.astype(jnp.float32))
  total: Any = 0.0
  for _ in range(3):
    part = jax.lax.reduce_precision(queries, exponent_bits=8, mantissa_bits=7)
    queries = queries - part
    total = total + jnp.einsum(
        'qd,pd->qp', part.astype(jnp.bfloat16), vecs,
        preferred_element_type=jnp.float32,
    )
  return total
