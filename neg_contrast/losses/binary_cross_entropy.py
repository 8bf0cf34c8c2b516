"""BCE: whether each candidate answers, by itself. Pure."""

import dataclasses

import jax
from jaxtyping import Array, Float

from neg_contrast.losses import batch_scores, candidate_loss


@dataclasses.dataclass(frozen=True)
class BinaryCrossEntropyLoss(candidate_loss.CandidateLoss):
  """Binary cross-entropy of the logistic function of each scaled score.

  One of the three losses that the survey names. Scores count by themselves, not
  beside others: they become probabilities that can be compared over queries.
  Among very many negatives the positive needs a weight, and scores that are far
  from 0 for any pair, as plain dot products are, an offset (as in SigLIP, Zhai
  et al., 2023, where it is learned): without one a model first learns to lower
  all scores, and forgets the rest.

  Attributes:
    positive_weight: of the positive, in units of a negative's.
    offset: score of probability 1/2.
  """

  positive_weight: float = 1.0
  offset: float = 0.0

  def per_query(self, scores):
    """See `binary_cross_entropy`."""
    return binary_cross_entropy(scores, self.positive_weight, self.offset)


def binary_cross_entropy(
    scores: batch_scores.BatchScores, positive_weight: float,
    offset: float = 0.0,
) -> Float[Array, ' batch']:
  """Binary cross-entropy over a query's candidates.

    loss_i = mean_{j candidate of i} -w_ij log σ(±(s_ij - offset))

  with + and w = positive_weight for the positive, - and w = 1 for negatives.

  Args:
    scores: of the batch.
    positive_weight: of the positive.
    offset: score of probability 1/2.

  Returns:
    `[batch] float32`, in nats.
  """
  count = scores.is_negative.sum(axis=1)
  negatives = count * scores.mean_of_negatives(jax.nn.softplus(
      scores.scores - offset
  ))
  positive = positive_weight * jax.nn.softplus(offset - scores.positive)
  return (positive + negatives) / (1 + count)
