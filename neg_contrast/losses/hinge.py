"""The hinge loss: a positive ahead of each candidate by a margin. Pure."""

import dataclasses

import jax
from jaxtyping import Array, Float

from neg_contrast.losses import batch_scores, candidate_loss


@dataclasses.dataclass(frozen=True)
class HingeLoss(candidate_loss.CandidateLoss):
  """Pairwise hinge loss of scaled scores, the mean over a query's negatives.

  As of ranking machines (Herbrich et al., 2000), which the survey names beside
  BCE and negative log-likelihood. Negatives beyond the margin teach nothing:
  set `hardest` where most of them are.

  Attributes:
    margin: that the positive has to be ahead by, in units of scaled scores.
  """

  margin: float = 1.0

  def per_query(self, scores):
    """See `hinge`."""
    return hinge(scores, self.margin)


def hinge(
    scores: batch_scores.BatchScores, margin: float
) -> Float[Array, ' batch']:
  """How far negatives are within the margin of the positive, on average.

    loss_i = mean_{j negative of i} max(0, margin - s_i+ + s_ij)

  Args:
    scores: of the batch.
    margin: in units of the scores.

  Returns:
    `[batch] float32`; 0 where there is no negative.
  """
  return scores.mean_of_negatives(
      jax.nn.relu(margin - scores.positive[:, None] + scores.scores)
  )
