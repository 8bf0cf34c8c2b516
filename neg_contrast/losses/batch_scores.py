"""Scores of the queries of a batch with all its candidates. Pure.

Every loss over the batch reads this one structure: a candidate that is added
here, with its mask and its source, counts in all of them.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from neg_contrast import scoring
from neg_contrast.batches.packed import AnyArray
from neg_contrast.losses import dual_encoder_loss

# (`[queries, query_features]`, `[passages, features]`) -> all their scores.
Similarity = Callable[[Any, Any], Any]

OTHER_ROWS = 'batch'
"""The source of candidates that belong to other rows of the batch."""
SHARED = 'shared_corpus', 'shared_queue'
"""Sources of candidates that belong to no row."""


@flax.struct.dataclass
class BatchScores:
  """The queries of a batch against its candidates.

  Columns: the positive of each row, then the hard negatives of each row (column
  `batch + i * negatives + n` is hard negative n of row i), then passages of the
  corpus and of the queue, which belong to no row. Where a query has candidates
  of its own alone: its positive, then its hard negatives.

  Attributes:
    scores: `[batch, candidates] float32`, scaled; finite, and meaningless where
      there is no candidate.
    is_candidate: `[batch, candidates] bool`, True on a query's own positive.
    sources: `[batch, candidates] int32`, places in `names`; -1 for the query's
      own positive and where there is no candidate.
    own_columns: `[batch, negatives] int32`, columns of a query's own hard
      negatives.
    scale: factor in the scores.
    names: of the sources: `OTHER_ROWS`, those of hard negatives, and those of
      `SHARED` that there are; of a query's own candidates the second alone.
    is_own: each query has candidates of its own alone.
  """

  scores: Float[Array, 'batch candidates']
  is_candidate: Bool[AnyArray, 'batch candidates']
  sources: Int[AnyArray, 'batch candidates']
  own_columns: Int[AnyArray, 'batch negatives']
  scale: Float[AnyArray, ''] | float
  names: tuple[str, ...] = flax.struct.field(pytree_node=False)
  is_own: bool = flax.struct.field(pytree_node=False, default=False)

  @property
  def is_positive(self) -> Bool[Array, 'batch candidates']:
    """True on the column of a query's own positive."""
    rows, columns = self.scores.shape
    if self.is_own:
      return jnp.zeros((rows, columns), bool).at[:, 0].set(True)
    return jnp.eye(rows, columns, dtype=bool)

  @property
  def is_negative(self) -> Bool[Array, 'batch candidates']:
    """True on the candidates that are not the query's own positive."""
    return jnp.asarray(self.is_candidate) & ~self.is_positive

  @property
  def positive(self) -> Float[Array, ' batch']:
    """`[batch] float32`, scores of the queries' own positives."""
    return self.scores[:, 0] if self.is_own else jnp.diagonal(self.scores)

  @property
  def candidate_scores(self) -> Float[Array, 'batch candidates']:
    """The scores, -inf where there is no candidate."""
    return jnp.where(self.is_candidate, self.scores, -jnp.inf)

  @property
  def is_best(self) -> Bool[Array, ' batch']:
    """`[batch] bool`, the positive scores above every other candidate."""
    others = jnp.where(self.is_positive, -jnp.inf, self.candidate_scores)
    return self.positive > jnp.max(others, axis=1)

  @property
  def by_row(self) -> Float[Array, 'batch batch']:
    """`[batch, batch] float32`, the queries against the rows' positives."""
    return self.scores[:, :len(self.scores)]

  def mean_of_negatives(
      self, values: Float[Array, 'batch candidates']
  ) -> Float[Array, ' batch']:
    """`[batch] float32`, mean over a query's negatives; 0 if it has none."""
    total = jnp.sum(values, axis=1, where=self.is_negative)
    return total / jnp.maximum(1, jnp.sum(self.is_negative, axis=1))

  def hardest(self, count: int) -> 'BatchScores':
    """The same with the negatives that score highest alone.

    Of equal scores the first columns stay. No gradient passes the choice.

    Args:
      count: negatives that a query keeps, if it has as many; 0: all.
    """
    if not 0 < count < self.scores.shape[1]:
      return self
    _, columns = jax.lax.top_k(jax.lax.stop_gradient(
        jnp.where(self.is_negative, self.scores, -jnp.inf)
    ), count)
    rows = jnp.arange(len(self.scores))[:, None]
    chosen = self.is_positive.at[rows, columns].set(True)
    kept = jnp.asarray(self.is_candidate) & chosen
    return dataclasses.replace(
        self, is_candidate=kept, sources=jnp.where(kept, self.sources, -1)
    )

  def backward(
      self, backward_mask: Bool[AnyArray, 'batch batch']
  ) -> 'BatchScores':
    """The passages of the rows against the queries of the batch.

    Args:
      backward_mask: `[batch, batch] bool`; row i says which queries are
        candidates of positive i. The diagonal must be True.
    """
    is_self = jnp.eye(len(self.scores), dtype=bool)
    return BatchScores(
        scores=self.by_row.T,
        is_candidate=backward_mask,
        sources=jnp.where(jnp.asarray(backward_mask) & ~is_self, 0, -1),
        own_columns=jnp.zeros((len(self.scores), 0), jnp.int32),
        scale=self.scale,
        names=(OTHER_ROWS,),
    )


def score_batch(
    vectors: dual_encoder_loss.Vectors,
    batch: Any,
    scale: Float[Array, ''] | float,
    score: Similarity = scoring.DUAL,
    sources: Sequence[str] = (),
) -> BatchScores:
  """Scores all candidates of a batch for all its queries.

  Args:
    vectors: of the batch; masked slots may hold anything finite.
    batch: a `batcher.Batch`; its forward mask, `[batch, batch * (1 +
      negatives) + corpus + queue] bool`, says which candidates count for which
      query, and must be True on a query's own positive.
    scale: factor on the scores.
    score: of a query and a candidate.
    sources: names of the sources of hard negatives, by number.
  """
  size, negatives, features = vectors.negatives.shape
  candidate_vecs = jnp.concatenate([
      vectors.positives,
      vectors.negatives.reshape(size * negatives, features),
      vectors.corpus, vectors.queue,
  ])
  shared = {name: len(some) for name, some in zip(
      SHARED, (vectors.corpus, vectors.queue), strict=True
  ) if len(some)}
  own_columns = size + jnp.arange(size * negatives).reshape(size, negatives)
  return BatchScores(
      scores=scale * score(vectors.queries, candidate_vecs),
      is_candidate=batch.forward_mask,
      sources=_sources(
          batch.forward_mask, batch.negative_sources, 1 + len(sources),
          shared.values(),
      ),
      own_columns=own_columns,
      scale=scale,
      names=(OTHER_ROWS, *sources, *shared),
  )


def _sources(is_candidate, negative_sources, first, shared):
  """`BatchScores.sources` of a mask and the sources of own hard negatives.

  Those of candidates that belong to no row, so many of each, are numbered from
  `first` on.
  """
  size, negatives = negative_sources.shape
  is_own = jnp.eye(size, dtype=bool)
  origins = jnp.where(negative_sources < 0, -1, negative_sources + 1)
  hard = jnp.where(is_own[:, :, None], origins[:, None], 0)
  return jnp.where(is_candidate, jnp.concatenate([
      jnp.where(is_own, -1, 0), hard.reshape(size, size * negatives),
      *(jnp.full((size, count), first + number)
        for number, count in enumerate(shared)),
  ], axis=1), -1)
