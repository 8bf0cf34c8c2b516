"""Training losses for the global batch. Pure, without collectives."""

from collections.abc import Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from neg_contrast import scoring
from neg_contrast.batches.packed import AnyArray


@flax.struct.dataclass
class BatchSoftmax:
  """Per-query terms of the bidirectional batch softmax.

  Attributes:
    forward: `[batch] float32`, query to passage.
    backward: `[batch] float32`, passage to query.
    correct: `[batch] bool`, the positive scores above every other candidate.
    scores: `[batch, batch * (1 + negatives)] float32`, scaled; -inf where
      masked.
  """

  forward: Float[Array, ' batch']
  backward: Float[Array, ' batch']
  correct: Bool[Array, ' batch']
  scores: Float[Array, 'batch candidates']

  @property
  def loss(self) -> Float[Array, '']:
    """Unweighted mean of both directions (equation 3)."""
    return 0.5 * (jnp.mean(self.forward) + jnp.mean(self.backward))


def batch_softmax(
    query_vecs: Float[Array, 'batch query_features'],
    positive_vecs: Float[Array, 'batch features'],
    negative_vecs: Float[Array, 'batch negatives features'],
    scale: Float[Array, ''] | float,
    forward_mask: Bool[AnyArray, 'batch candidates'],
    backward_mask: Bool[AnyArray, 'batch batch'],
    score: scoring.ScoreFunction = scoring.DUAL,
) -> BatchSoftmax:
  """Bidirectional batch softmax with hard negatives in the forward direction.

  With s_ij the scaled score of query i and candidate j, where candidates are
  the positives of the whole batch followed by the hard negatives of the whole
  batch:

    forward_i = logsumexp_{j kept} s_ij - s_ii
    backward_i = logsumexp_{n kept} s_ni - s_ii

  Lu et al., section 3, equations 1 and 2; the hard negatives of section 4.3
  (each counts for every query of the batch, and none in the backward
  direction). Deviations: the scale, which the paper does not give, and the
  masks, by which known positives of a query are not its negatives, and score
  functions other than the dot product. Where each query's mask admits its own
  hard negatives alone, forward is hard-negative NCE (Zhang and Stratos,
  equation 11).

  Args:
    query_vecs: `[batch, features] float32`.
    positive_vecs: `[batch, features] float32`; row i answers query i.
    negative_vecs: `[batch, negatives, features] float32`; `negatives` may be 0;
      masked slots may hold anything finite.
    scale: factor on scores, the same in both directions.
    forward_mask: `[batch, batch * (1 + negatives)] bool`, True = candidate;
      column `batch + i * negatives + n` is hard negative n of row i. The
      diagonal of the first `batch` columns must be True.
    backward_mask: `[batch, batch] bool`; row i says which queries are
      candidates of positive i. The diagonal must be True.
    score: of a query and a candidate; its vectors lie side by side in features.

  Returns:
    The per-query terms; their means make the loss.
  """
  batch, negatives, features = negative_vecs.shape
  candidate_vecs = jnp.concatenate(
      [positive_vecs, negative_vecs.reshape(batch * negatives, features)]
  )
  scores = scale * score(query_vecs, candidate_vecs)
  own_scores = jnp.diagonal(scores)
  candidate_scores = jnp.where(forward_mask, scores, -jnp.inf)
  query_scores = jnp.where(backward_mask, scores[:, :batch].T, -jnp.inf)
  others = jnp.where(
      jnp.eye(batch, scores.shape[1], dtype=bool), -jnp.inf, candidate_scores
  )
  return BatchSoftmax(
      forward=jax.nn.logsumexp(candidate_scores, axis=1) - own_scores,
      backward=jax.nn.logsumexp(query_scores, axis=1) - own_scores,
      correct=own_scores > jnp.max(others, axis=1),
      scores=candidate_scores,
  )


def candidate_softmax(
    scores: Float[Array, 'queries candidates'],
    is_candidate: Bool[AnyArray, 'queries candidates'],
) -> Float[Array, ' queries']:
  """Cross-entropy of the gold among a query's own candidates.

    loss_i = logsumexp_{k real} s_ik - s_i0

  Zhang and Stratos (2021), equation 11: what hard-negative NCE minimises. Over
  all labels it is the cross-entropy (equation 2).

  Args:
    scores: `[queries, candidates] float32`, scaled; the gold in column 0, its
      negatives behind it; what is no candidate may hold anything.
    is_candidate: `[queries, candidates] bool`; column 0 must be True.

  Returns:
    `[queries] float32`, in nats, at least 0.
  """
  kept = jnp.where(is_candidate, scores, -jnp.inf)
  return jax.nn.logsumexp(kept, axis=1) - scores[:, 0]


@flax.struct.dataclass
class Contrast:
  """What the positives of a batch are up against, for one kind of negatives.

  Attributes:
    score: `[] float32`, mean score, unscaled; 0 where there are none.
    mass: `[] float32`, mean share of the softmax; with that of the positives
      those of all kinds add up to 1.
    accuracy: `[] float32`, part of the queries with such negatives whose
      positive scores above all of them; 1 where there are none.
  """

  score: Any
  mass: Any
  accuracy: Any


def contrast_by_source(
    scores: Float[Array, 'batch candidates'],
    negative_sources: Int[AnyArray, 'batch negatives'],
    scale: Float[Array, ''] | float,
    names: Sequence[str],
) -> dict[str, Contrast]:
  """Splits the forward softmax by where a query's negatives come from.

  Args:
    scores: `BatchSoftmax.scores`.
    negative_sources: `[batch, negatives] int32`, places in `names`; -1: none.
    scale: the factor in the scores.
    names: of the sources of hard negatives.

  Returns:
    `batch` (the other rows: their positives and their hard negatives) and each
    of `names` (the query's own hard negatives).
  """
  batch, negatives = negative_sources.shape
  mass = jax.nn.softmax(scores, axis=1)
  own_columns = batch + jnp.arange(batch * negatives).reshape(batch, negatives)
  rows = jnp.arange(batch)[:, None]
  own, own_mass = scores[rows, own_columns], mass[rows, own_columns]
  positive = jnp.diagonal(scores)
  is_other = jnp.isfinite(scores).at[rows, own_columns].set(False)
  is_other &= ~jnp.eye(batch, scores.shape[1], dtype=bool)
  return _contrasts(positive, scale, {
      'batch': (scores, mass, is_other),
      **_by_source(own, own_mass, negative_sources, names),
  })


def contrast_of_candidates(
    scores: Float[Array, 'batch candidates'],
    negative_sources: Int[AnyArray, 'batch negatives'],
    scale: Float[Array, ''] | float,
    names: Sequence[str],
) -> dict[str, Contrast]:
  """The same where a query has candidates of its own alone.

  Args:
    scores: `[batch, 1 + negatives] float32`, scaled; the positive in column 0;
      -inf where there is none.
    negative_sources: `[batch, negatives] int32`, places in `names`; -1: none.
    scale: the factor in the scores.
    names: of the sources.

  Returns:
    Each of `names`.
  """
  mass = jax.nn.softmax(scores, axis=1)
  return _contrasts(scores[:, 0], scale, _by_source(
      scores[:, 1:], mass[:, 1:], negative_sources, names
  ))


def _by_source(own, own_mass, negative_sources, names):
  """Scores, mass and which of them count, by name."""
  return {
      name: (own, own_mass, (negative_sources == number) & jnp.isfinite(own))
      for number, name in enumerate(names)
  }


def _contrasts(positive, scale, kinds):
  batch, result = len(positive), {}
  for name, (values, share, chosen) in kinds.items():
    has_some = chosen.any(axis=1)
    hardest = jnp.max(values, axis=1, where=chosen, initial=-jnp.inf)
    result[name] = Contrast(
        score=jnp.sum(values, where=chosen)
        / jnp.maximum(1, chosen.sum()) / scale,
        mass=jnp.sum(share, where=chosen) / batch,
        accuracy=1 - jnp.sum(has_some & (positive <= hardest))
        / jnp.maximum(1, has_some.sum()),
    )
  return result


def token_cross_entropy(
    logits: Float[Array, '*batch vocab'],
    target_ids: Int[AnyArray, '*batch'],
    is_target: Bool[AnyArray, '*batch'],
    label_smoothing: float = 0.0,
) -> tuple[Float[Array, ''], Float[Array, '']]:
  """Teacher forcing: how well each token of the targets is foretold.

  Args:
    logits: `[..., vocab] float32`.
    target_ids: `[...] int32`.
    is_target: `[...] bool`, False on padding.
    label_smoothing: part of the target's mass that is spread evenly over the
      vocabulary (Szegedy et al., 2016).

  Returns:
    Mean cross-entropy, in nats, and part of the tokens that score best.
  """
  log_sum = jax.nn.logsumexp(logits, axis=-1)
  own = jnp.take_along_axis(
      logits, jnp.asarray(target_ids)[..., None], axis=-1
  )[..., 0]
  loss = log_sum - (
      (1 - label_smoothing) * own + label_smoothing * jnp.mean(logits, axis=-1)
  )
  count = jnp.maximum(1, jnp.sum(is_target))
  correct = jnp.argmax(logits, axis=-1) == target_ids
  return (jnp.sum(loss, where=is_target) / count,
          jnp.sum(correct & is_target) / count)
