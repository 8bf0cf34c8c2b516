"""LambdaRank: pairs by what their exchange is worth. Pure."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from neg_contrast.losses import batch_scores, candidate_loss


@dataclasses.dataclass(frozen=True)
class LambdaRankLoss(candidate_loss.CandidateLoss):
  """Pairwise logistic loss of scaled scores, by the change of reciprocal rank.

  LambdaRank (Burges, 2010, From RankNet to LambdaRank to LambdaMART), which
  LTRe (Zhan et al., 2020, Learning to retrieve) trains with. A positive that
  stands low is weighed against the first places, and one that is first against
  all.
  """

  def per_query(self, scores):
    """See `lambda_rank`."""
    return lambda_rank(scores)


def lambda_rank(scores: batch_scores.BatchScores) -> Float[Array, ' batch']:
  """The loss of each query.

    loss_i = sum_{j negative of i}
        |1 / r_i+ - 1 / r_ij| log(1 + exp(s_ij - s_i+))

  Ranks r count from 1 among a query's candidates, of equal scores the first
  columns first. No gradient passes them. The factor is by how much the
  reciprocal rank changes where positive and negative change places.

  Args:
    scores: of the batch.

  Returns:
    `[batch] float32`; 0 where there is no negative.
  """
  order = jnp.argsort(
      jax.lax.stop_gradient(scores.candidate_scores), axis=1, descending=True
  )
  worth = 1 / (1 + jnp.argsort(order, axis=1))  # Of the place of each.
  own = jnp.sum(worth, axis=1, where=scores.is_positive)
  pairs = jnp.abs(own[:, None] - worth) * jax.nn.softplus(
      scores.scores - scores.positive[:, None]
  )
  return jnp.sum(pairs, axis=1, where=scores.is_negative)
