"""The batch softmax: a positive against all passages of the batch. Pure."""

import dataclasses

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from neg_contrast.batches.packed import AnyArray
from neg_contrast.losses import batch_scores, contrast, dual_encoder_loss


@dataclasses.dataclass(frozen=True)
class BatchSoftmaxLoss(dual_encoder_loss.DualEncoderLoss):
  """The batch softmax in both directions (Lu et al., section 3), or in one.

  Metrics: `forward_loss` (query to passage), `backward_loss`, `accuracy` (part
  of the queries whose positive scores best) and `contrast`.
  """

  directions = (True, False)

  @property
  def needs(self):
    """Nothing: the other rows are negatives already."""
    return ()

  def __call__(self, vectors, batch, scale, score, sources):
    """The mean of both directions, or of query to passage alone."""
    scores = batch_scores.score_batch(vectors, batch, scale, score, sources)
    terms = batch_softmax(scores, batch.backward_mask)
    loss = terms.loss if self.bidirectional else jnp.mean(terms.forward)
    return loss, {
        'forward_loss': jnp.mean(terms.forward),
        'backward_loss': jnp.mean(terms.backward),
        'accuracy': jnp.mean(terms.correct.astype(jnp.float32)),
        'contrast': contrast.of_batch(scores, scale),
    }


@flax.struct.dataclass
class BatchSoftmax:
  """Per-query terms of the bidirectional batch softmax.

  Attributes:
    forward: `[batch] float32`, query to passage.
    backward: `[batch] float32`, passage to query.
    correct: `[batch] bool`, the positive scores above every other candidate.
  """

  forward: Float[Array, ' batch']
  backward: Float[Array, ' batch']
  correct: Bool[Array, ' batch']

  @property
  def loss(self) -> Float[Array, '']:
    """Unweighted mean of both directions (equation 3)."""
    return 0.5 * (jnp.mean(self.forward) + jnp.mean(self.backward))


def batch_softmax(
    scores: batch_scores.BatchScores,
    backward_mask: Bool[AnyArray, 'batch batch'],
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
    scores: of the batch; the scale is the same in both directions.
    backward_mask: `[batch, batch] bool`; row i says which queries are
      candidates of positive i. The diagonal must be True.

  Returns:
    The per-query terms; their means make the loss.
  """
  own_scores, candidate_scores = scores.positive, scores.candidate_scores
  query_scores = jnp.where(backward_mask, scores.by_row.T, -jnp.inf)
  others = jnp.where(scores.is_positive, -jnp.inf, candidate_scores)
  return BatchSoftmax(
      forward=jax.nn.logsumexp(candidate_scores, axis=1) - own_scores,
      backward=jax.nn.logsumexp(query_scores, axis=1) - own_scores,
      correct=own_scores > jnp.max(others, axis=1),
  )
