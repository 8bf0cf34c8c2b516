"""Noise contrastive estimation: a positive against its own negatives. Pure."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from neg_contrast.batches.packed import AnyArray
from neg_contrast.losses import candidate_softmax as candidates_lib
from neg_contrast.losses import dual_encoder_loss


@dataclasses.dataclass(frozen=True)
class OwnCandidatesLoss(dual_encoder_loss.DualEncoderLoss):
  """Hard-negative NCE: each query's positive among its own negatives alone.

  Zhang and Stratos, equation 11; with `adjusted` the score-adjusted loss,
  equation 10. Metrics: `forward_loss`, `accuracy`, `effective_negatives` and
  `contrast`.
  """

  directions = (False,)
  shares = False
  adjusts = True

  @property
  def needs(self):
    """Hard negatives; and with what chance they are drawn, to adjust."""
    if self.adjusted:
      return (dual_encoder_loss.HARD_NEGATIVES, dual_encoder_loss.LOG_PROPOSAL)
    return (dual_encoder_loss.HARD_NEGATIVES,)

  def __call__(self, vectors, batch, scale, score, sources):
    """The mean cross-entropy of the positives among their candidates."""
    candidates = jnp.concatenate(
        [vectors.positives[:, None], vectors.negatives], axis=1
    )
    scores = scale * jax.vmap(
        lambda query, own: score(query[None], own)[0]
    )(vectors.queries, candidates)
    is_candidate = jnp.pad(
        batch.negative_sources >= 0, ((0, 0), (1, 0)), constant_values=True
    )
    used = scores
    if self.adjusted:
      used = adjusted_scores(scores, batch.log_proposal, is_candidate)
    loss = jnp.mean(candidates_lib.candidate_softmax(used, is_candidate))
    return loss, {
        'forward_loss': loss,
        **candidates_lib.metrics_of(
            scores, is_candidate, batch.negative_sources, scale, sources
        ),
    }


def adjusted_scores(
    scores: Float[Array, 'queries candidates'],
    log_proposal: Float[Array, 'queries negatives'],
    is_candidate: Bool[AnyArray, 'queries candidates'],
) -> Float[Array, 'queries candidates']:
  """Scores whose `candidate_softmax` is the score-adjusted loss.

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
