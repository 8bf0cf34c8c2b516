"""Large corpora of texts with several vectors: candidates, then exact scores.

Each vector of a query finds the passages' vectors nearest to it, in an index of
single vectors; the passages that these belong to are scored exactly with all of
their vectors (Khattab and Zaharia, "ColBERT", section 3.6). What has no vector
near any of the query's is missed; what is found has its exact score.

Memory: the index of single vectors (ScaNN's is some bits a feature, see
`quantized_index`), a number of 8 bytes for every vector, and the vectors
themselves where `Rows` keeps them: 4 bytes a feature, `passage_vectors *
features` of them for a passage, whose missing vectors are zeros.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from neg_contrast import scoring
from neg_contrast.retrieval import hits, vector_table

_ROWS_AT_ONCE = 4096
_PRODUCTS_AT_ONCE = 2**23  # 32 MiB.


class SingleVectors:
  """The vectors of a table of texts with several, one a row.

  Vectors of zeros, which stand for none, are left out.
  """

  def __init__(self, vecs: vector_table.Rows, features: int):
    """Reads all vectors once, to see which there are.

    Args:
      vecs: `[passages, vectors * features] float32`.
      features: of a vector.
    """
    self._vecs, self._features = vecs, features
    self._each = vecs.shape[1] // features
    there = [
        np.flatnonzero(np.any(np.asarray(
            vecs[start : start + _ROWS_AT_ONCE]
        ).reshape(-1, features), axis=1)) + start * self._each
        for start in range(0, len(vecs), _ROWS_AT_ONCE)
    ]
    self._numbers = np.concatenate([np.zeros(0, np.int64), *there])

  @property
  def shape(self) -> tuple[int, int]:
    """(vectors, features)."""
    return len(self._numbers), self._features

  @property
  def nbytes(self) -> int:
    """What they take as float32."""
    return 4 * len(self) * self._features

  def __len__(self) -> int:
    return len(self._numbers)

  def owners(
      self, rows: Int[np.ndarray, '*shape']
  ) -> Int[np.ndarray, '*shape']:
    """The passages that vectors belong to."""
    return self._numbers[rows] // self._each

  def __getitem__(self, rows: Any, /) -> Any:
    numbers = self._numbers[rows]
    flat = np.atleast_1d(numbers).reshape(-1)
    passages, places = np.unique(flat // self._each, return_inverse=True)
    table = np.asarray(self._vecs[passages], np.float32)
    table = table.reshape(len(passages), self._each, self._features)
    vecs = table[places, flat % self._each]
    return vecs.reshape(*np.shape(numbers), self._features)


class CandidateIndex:
  """Finds candidates by single vectors; keeps the best by the whole score.

  Attributes:
    kind: of the index of single vectors.
  """

  def __init__(
      self,
      passage_vecs: vector_table.Rows,
      tie_ranks: Int[np.ndarray, ' passages'],
      score: scoring.ScoreFunction,
      singles: SingleVectors,
      index: hits.Index,
      kind: str = 'scann',
  ):
    """Takes what is searched.

    Args:
      passage_vecs: `[passages, vectors * features] float32`.
      tie_ranks: `[passages] int32`, see `hits.tie_ranks`.
      score: of a query's vectors and a passage's.
      singles: the vectors of `passage_vecs`.
      index: of these.
      kind: of the index.
    """
    self._vecs, self._ranks, self._score = passage_vecs, tie_ranks, score
    self._singles, self._index, self.kind = singles, index, kind
    self._pairs = jax.jit(score.pairs)

  def search(
      self, queries: Float[np.ndarray, 'queries features'], depth: int
  ) -> hits.Hits:
    """The best passages of each query, of those that are candidates.

    A query's vectors find `depth` vectors each, and more where a query has
    fewer vectors than a passage: enough to fill `depth` if they were those of
    different passages for `multi-M`.

    Args:
      queries: `[queries, query_vectors * features] float32`.
      depth: passages wanted.
    """
    score = self._score
    features = self._singles.shape[1]
    each = max(depth, -(-depth * score.passage_vectors // score.query_vectors))
    found = hits.Hits(
        np.full((len(queries), depth), -1, np.int32),
        np.full((len(queries), depth), -np.inf, np.float32),
    )
    for line, query in enumerate(queries):
      vecs = query[: score.query_vectors * features].reshape(-1, features)
      vecs = vecs[np.any(vecs, axis=1)]
      near = self._index.search(vecs, min(each, len(self._singles))).rows
      rows = np.unique(self._singles.owners(near[near >= 0])).astype(np.int32)
      best = hits.top_k(self._score_of(query, rows), self._ranks[rows], depth)
      kept = best.rows >= 0
      found.rows[line, kept] = rows[best.rows[kept]]
      found.scores[line] = best.scores
    return found

  def _score_of(self, query, rows):
    """Exact scores of some passages, `[rows] float32`."""
    score = self._score
    at_once = max(1, _PRODUCTS_AT_ONCE // (
        score.query_vectors * score.passage_vectors
    ))
    at_once = min(at_once, 1 << max(0, len(rows) - 1).bit_length())
    scores = np.zeros(len(rows), np.float32)
    for start in range(0, len(rows), at_once):
      part = np.zeros(at_once, np.int32)  # Few shapes.
      some = rows[start : start + at_once]
      part[: len(some)] = some
      scores[start : start + len(some)] = self._pairs(
          jnp.broadcast_to(query, (at_once, len(query))),
          jnp.asarray(np.asarray(self._vecs[part])),
      )[: len(some)]
    return scores
