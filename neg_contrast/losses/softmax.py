"""The softmax: a positive against all its candidates at once. Pure."""

import dataclasses

import jax
from jaxtyping import Array, Float

from neg_contrast.losses import batch_scores, candidate_loss, own_candidates


@dataclasses.dataclass(frozen=True)
class SoftmaxLoss(candidate_loss.CandidateLoss):
  """Cross-entropy of the positive among the candidates.

  With `candidates=batch` it is the batch softmax (Lu et al., section 3,
  equations 1 to 3), or in one direction DPR's negative log-likelihood
  (Karpukhin et al., 2020, equation 2) and InfoNCE (van den Oord et al., 2018)
  at the temperature τ = 1 / scale. With `candidates=own` it is hard-negative
  NCE (Zhang and Stratos, equation 11); with `adjusted` the score-adjusted loss
  (equation 10). The default: it weighs all negatives by how hard they are.
  """

  adjusts = True

  def per_query(self, scores):
    """See `softmax`."""
    return softmax(scores)

  def adjust(self, scores, batch):
    """The scores less the logarithm of how often each negative is drawn."""
    if not self.adjusted:
      return scores
    return dataclasses.replace(scores, scores=own_candidates.adjusted_scores(
        scores.scores, batch.log_proposal, scores.is_candidate
    ))


def softmax(scores: batch_scores.BatchScores) -> Float[Array, ' batch']:
  """Cross-entropy of each query's positive among its candidates.

    loss_i = logsumexp_{j candidate of i} s_ij - s_i+

  Lu et al., section 3, equations 1 and 2; the hard negatives of section 4.3
  (each counts for every query of the batch, and none in the backward
  direction). Deviations: the scale, which the paper does not give, and the
  masks, by which known positives of a query are not its negatives, and score
  functions other than the dot product.

  Args:
    scores: of the batch; `BatchScores.backward` gives the other direction.

  Returns:
    `[batch] float32`, in nats, at least 0.
  """
  return jax.nn.logsumexp(scores.candidate_scores, axis=1) - scores.positive
