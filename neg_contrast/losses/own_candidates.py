"""Candidates of a query's own: its positive and its hard negatives. Pure.

What noise contrastive estimation compares (Zhang and Stratos, 2021).
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from neg_contrast import scoring
from neg_contrast.batches.packed import AnyArray
from neg_contrast.losses import batch_scores, dual_encoder_loss


def score_own(
    vectors: dual_encoder_loss.Vectors,
    batch: Any,
    scale: Float[Array, ''] | float,
    score: batch_scores.Similarity = scoring.DUAL,
    sources: Sequence[str] = (),
) -> batch_scores.BatchScores:
  """Scores each query with its own candidates, without those of other rows.

  Args:
    vectors: of the batch.
    batch: a `batcher.Batch`; where a hard negative has no source, there is
      none.
    scale: factor on the scores.
    score: of a query and a candidate.
    sources: names of the sources of hard negatives, by number.

  Returns:
    `[batch, 1 + negatives]` scores, the positive in column 0.
  """
  candidates = jnp.concatenate(
      [vectors.positives[:, None], vectors.negatives], axis=1
  )
  scores = scale * jax.vmap(
      lambda query, own: score(query[None], own)[0]
  )(vectors.queries, candidates)
  return of_scores(scores, batch.negative_sources, scale, sources)


def of_scores(
    scores: Float[Array, 'batch candidates'],
    negative_sources: Int[AnyArray, 'batch negatives'],
    scale: Float[Array, ''] | float,
    sources: Sequence[str],
) -> batch_scores.BatchScores:
  """The same of scores that are there already.

  Args:
    scores: `[batch, 1 + negatives] float32`, scaled; the positive in column 0.
    negative_sources: `[batch, negatives] int32`, places in `sources`; -1: there
      is none.
    scale: the factor in the scores.
    sources: names of the sources of hard negatives, by number.
  """
  size, negatives = negative_sources.shape
  return batch_scores.BatchScores(
      scores=scores,
      is_candidate=jnp.pad(
          negative_sources >= 0, ((0, 0), (1, 0)), constant_values=True
      ),
      sources=jnp.pad(
          jnp.maximum(negative_sources, -1), ((0, 0), (1, 0)),
          constant_values=-1,
      ),
      own_columns=jnp.tile(1 + jnp.arange(negatives), (size, 1)),
      scale=scale,
      names=tuple(sources),
      is_own=True,
  )


def adjusted_scores(
    scores: Float[Array, 'queries candidates'],
    log_proposal: Float[Array, 'queries negatives'],
    is_candidate: Bool[AnyArray, 'queries candidates'],
) -> Float[Array, 'queries candidates']:
  """Scores whose softmax is the score-adjusted loss.

  Equation 10 (Bengio and Senécal, 2008): the gold's score stays, a negative's
  loses log((K - 1) ν). Its negatives are drawn iid, with replacement, from ν
  over the labels without the positives. With ν ∝ exp(s) the gradient is that of
  the cross-entropy, on average (Blanc and Rendle, 2018). ν is a constant: it
  holds the scores by which was drawn, which may be those of an older model.

  Args:
    scores: `[queries, K] float32`, scaled; the gold in column 0.
    log_proposal: `[queries, K - 1] float32`, log ν of the negatives, as
      `IidRace.log_proposal` has it.
    is_candidate: `[queries, K] bool`; K counts the real ones.

  Returns:
    `[queries, K] float32`.
  """
  negatives = jnp.sum(is_candidate[:, 1:], axis=1, keepdims=True)
  shift = jnp.log(jnp.maximum(1, negatives)) + log_proposal
  return scores.at[:, 1:].add(
      -jnp.where(is_candidate[:, 1:], jax.lax.stop_gradient(shift), 0)
  )
