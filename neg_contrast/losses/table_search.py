"""The nearest of all passages of a corpus, found within a training step. Pure.

Zhan et al., "Learning To Retrieve: How to Train a Dense Retrieval Model
Effectively and Efficiently", 2020 (LTRe): where the vectors of passages do not
change, each step can search all of them for its queries, and train the queries
against what they really find.
"""

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from neg_contrast import scoring


@flax.struct.dataclass
class Table:
  """The vectors of a corpus, cut into blocks that devices share.

  Row r of the corpus is `(r // (blocks * rows), r // rows % blocks, r % rows)`.

  Attributes:
    vecs: `[shards, blocks, rows, features]`, float32 or bfloat16.
    groups: `[shards, blocks, rows] int32`, equal for passages of the same text;
      -1 beyond the corpus.
  """

  vecs: Any
  groups: Any

  def take(self, rows: Int[Array, '*some']) -> Float[Array, '*some features']:
    """`[..., features] float32`, vectors of rows of the corpus."""
    flat = self.vecs.reshape(-1, self.vecs.shape[-1])
    return flat[rows].astype(jnp.float32)


def nearest(
    queries: Float[Array, 'batch features'],
    table: Table,
    excluded: Int[Array, 'batch groups'],
    count: int,
    score: scoring.ScoreFunction = scoring.DUAL,
) -> tuple[Int[Array, 'batch count'], Int[Array, 'batch count']]:
  """The best passages of each query that are none of its positives.

  Every shard keeps the best of its blocks, one after the other, so that scores
  of one block exist at once; only these meet.

  Args:
    queries: `[batch, features] float32`.
    table: of the corpus.
    excluded: `[batch, groups] int32`, what may not be found; -1 pads.
    count: passages wanted of each.
    score: of a query and a passage.

  Returns:
    `[batch, count] int32` rows of the corpus, best first; and `[batch, count]
    int32`, 0 for each that was found, -1 where the corpus has too few, as
    `Batch.negative_sources` has it.
  """
  shards, blocks, rows, _ = table.vecs.shape
  queries = jax.lax.stop_gradient(queries)
  first = jnp.arange(shards)[:, None] * blocks * rows + jnp.arange(rows)

  def add_block(best, block):
    vecs = table.vecs[:, block].astype(jnp.float32)
    groups = table.groups[:, block]
    scores = jax.vmap(lambda some: score(queries, some), out_axes=1)(vecs)
    hidden = (groups[None] < 0) | jnp.any(
        groups[None, ..., None] == excluded[:, None, None], axis=-1
    )
    scores = jnp.where(hidden, -jnp.inf, scores)
    places = jnp.broadcast_to(first + block * rows, scores.shape)
    return _best(
        jnp.concatenate([best[0], scores], axis=2),
        jnp.concatenate([best[1], places], axis=2), count,
    ), None

  shape = len(queries), shards, count
  nothing = jnp.full(shape, -jnp.inf), jnp.zeros(shape, jnp.int32)
  (scores, places), _ = jax.lax.scan(add_block, nothing, jnp.arange(blocks))
  scores, places = _best(
      scores.reshape(len(queries), -1), places.reshape(len(queries), -1), count
  )
  is_there = jnp.isfinite(scores)
  return jnp.where(is_there, places, 0), jnp.where(is_there, 0, -1)


def _best(scores, places, count):
  """The highest of the last axis, and their places."""
  scores, at = jax.lax.top_k(scores, count)
  return scores, jnp.take_along_axis(places, at, axis=-1)
