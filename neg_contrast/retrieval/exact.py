"""Exact best passages by any score function, streamed over the mesh."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int

from neg_contrast import scoring
from neg_contrast.retrieval import hits, vector_table

_QUERIES_AT_ONCE = 1024
_KEPT_BYTES = 2**28


class ExactIndex:
  """Scores every passage; keeps the best.

  Blocks of `block_rows` passages a device are scored in turn and merged into
  the best so far, so that device memory holds one block of vectors and
  1024 x `block_rows` scores, whatever the corpus; a corpus of less than 256 MiB
  stays there between searches. Ties go to the larger id, as
  everywhere (float32 score descending, then id bytes descending), at the
  boundary too.
  """

  def __init__(
      self,
      passage_vecs: vector_table.Rows,
      tie_ranks: Int[np.ndarray, ' passages'],
      mesh: Mesh,
      block_rows: int = 16384,
      score: scoring.ScoreFunction = scoring.DUAL,
  ):
    """Keeps a reference to the vectors, which may lie on disk.

    Args:
      passage_vecs: `[passages, features] float32`, read a block at a time.
      tie_ranks: `[passages] int32`, see `hits.tie_ranks`.
      mesh: blocks are spread over its `data` axis.
      block_rows: passages a device scores at once; fewer where a passage has so
        many vectors that the block would take more than 256 MiB.
      score: of a query's vectors and a passage's.
    """
    self._vecs = passage_vecs
    self._ranks = tie_ranks
    self._devices = mesh.shape['data']
    self._rows = max(1, min(
        block_rows, len(passage_vecs),
        _KEPT_BYTES // (4 * max(1, passage_vecs.shape[1])),
    ))
    self._keeps = 4 * math.prod(passage_vecs.shape) < _KEPT_BYTES
    self._split = NamedSharding(mesh, PartitionSpec('data'))
    self._whole = NamedSharding(mesh, PartitionSpec())
    self._step = jax.jit(
        functools.partial(_merge_block, score), donate_argnums=0
    )
    self._kept: dict[int, tuple[Array, Array, Array]] = {}

  def search(
      self, queries: Float[np.ndarray, 'queries features'], depth: int
  ) -> hits.Hits:
    """The `depth` best passages of each query.

    Args:
      queries: `[queries, features] float32`.
      depth: passages wanted; fewer exist in a smaller corpus.

    Raises:
      ValueError: a vector is not finite.
    """
    vector_table.check_finite(queries, 'query')
    if not len(queries):
      scores, _, rows = _nothing(0, depth)
      return hits.Hits(rows, scores)
    parts = [self._search_some(queries[i : i + _QUERIES_AT_ONCE], depth)
             for i in range(0, len(queries), _QUERIES_AT_ONCE)]
    return hits.Hits(
        np.concatenate([p.rows for p in parts]),
        np.concatenate([p.scores for p in parts]),
    )

  def _search_some(self, queries, depth):
    count = len(queries)
    padded = np.zeros((min(_QUERIES_AT_ONCE, 1 << (count - 1).bit_length()),
                       queries.shape[1]), np.float32)
    padded[:count] = queries
    best = jax.device_put(_nothing(len(padded), depth), self._whole)
    query_vecs = jax.device_put(padded, self._whole)
    stride = self._rows * self._devices
    for start in range(0, len(self._vecs), stride):
      block = self._kept.get(start) or jax.device_put(
          self._block(start, stride), self._split
      )
      if self._keeps:
        self._kept[start] = block
      best = self._step(best, query_vecs, *block)
      jax.block_until_ready(best)
    scores, _, rows = (np.asarray(a)[:count] for a in best)
    return hits.Hits(np.where(np.isneginf(scores), -1, rows), scores)

  def _block(self, start, stride):
    """Vectors, tie ranks and rows of a block, `[devices, block_rows, ...]`.

    Within a device's part the rows stand in the order of their tie ranks, since
    `top_k` prefers the first of equals. Padding has rank and row -1.
    """
    shape = (self._devices, self._rows)
    vecs = np.zeros((stride, self._vecs.shape[1]), np.float32)
    ranks = np.full(stride, -1, np.int32)
    rows = np.full(stride, -1, np.int32)
    for first in range(start, min(start + stride, len(self._vecs)), self._rows):
      stop = min(first + self._rows, len(self._vecs))
      order = np.argsort(self._ranks[first:stop])
      at = slice(first - start, stop - start)
      vecs[at], rows[at] = self._vecs[first:stop][order], first + order
      ranks[at] = self._ranks[first:stop][order]
    vector_table.check_finite(vecs, 'passage')
    return (vecs.reshape(*shape, -1), ranks.reshape(shape), rows.reshape(shape))


def _nothing(queries, depth):
  """Best so far, before any block: (scores, ranks, rows)."""
  shape = (queries, depth)
  return (np.full(shape, -np.inf, np.float32),
          np.full(shape, np.iinfo(np.int32).max, np.int32),
          np.full(shape, -1, np.int32))


def _merge_block(
    score: scoring.ScoreFunction,
    best: tuple[Array, Array, Array],
    query_vecs: Float[Array, 'queries query_features'],
    vecs: Float[Array, 'devices block features'],
    ranks: Int[Array, 'devices block'],
    rows: Int[Array, 'devices block'],
) -> tuple[Array, Array, Array]:
  """The best of a block and of what was found before."""
  depth = best[0].shape[1]

  def of_device(vecs, ranks, rows):
    scores = jnp.where(
        rows >= 0, score(query_vecs, vecs), -jnp.inf
    )
    scores, at = jax.lax.top_k(scores, min(depth, scores.shape[1]))
    return scores, ranks[at], rows[at]

  found = jax.vmap(of_device)(vecs, ranks, rows)  # [devices, queries, k]
  found = [jnp.moveaxis(a, 0, 1).reshape(len(query_vecs), -1) for a in found]
  scores, ranks, rows = (
      jnp.concatenate(pair, axis=1) for pair in zip(best, found, strict=True)
  )
  descending, ranks, rows = jax.lax.sort((-scores, ranks, rows), num_keys=2)
  return -descending[:, :depth], ranks[:, :depth], rows[:, :depth]
