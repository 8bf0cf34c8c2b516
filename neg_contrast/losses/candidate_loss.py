"""Losses of the scores of queries with their candidates. Pure."""

import abc
import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from neg_contrast import scoring
from neg_contrast.losses import (
  batch_scores,
  candidate_softmax,
  contrast,
  dual_encoder_loss,
  own_candidates,
  weighted,
)


@dataclasses.dataclass(frozen=True)
class CandidateLoss(dual_encoder_loss.DualEncoderLoss):
  """A loss that is a mean over queries, each against its candidates.

  In both directions it is the mean of that and of the same with passages for
  queries, each against the queries of the batch.

  Where the examples have weights w, both are weighted means over the batch (see
  `weighted.mean`): Σ w_i forward_i / Σ w_i, and Σ w_i backward_i / Σ w_i, where
  backward_i ranks the queries for the positive of example i. So an example has
  one weight in both directions. What the others of the batch are to it, as its
  negatives, has no weight.

  Metrics: `forward_loss` (query to passage), with `candidates=batch`
  `backward_loss`, with `candidates=own` `effective_negatives`; `accuracy` (part
  of the queries whose positive scores best) and `contrast`.
  """

  directions = (True, False)
  compares_scores: ClassVar[bool] = True  # Whether any scores do, not vectors'.

  @abc.abstractmethod
  def per_query(
      self, scores: batch_scores.BatchScores
  ) -> Float[Array, ' batch']:
    """The loss of each query, from its scores with its candidates alone."""

  def similarity(
      self, score: scoring.ScoreFunction
  ) -> batch_scores.Similarity:
    """What a query and a candidate are compared by, before the scale."""
    return score

  def adjust(self, scores, batch):
    """The scores that the loss takes; metrics are of those it is given."""
    del batch
    return scores

  def __call__(self, vectors, batch, scale, score, sources):
    """The mean of both directions, or of query to passage alone."""
    score_all = (batch_scores.score_batch if self.shares
                 else own_candidates.score_own)
    scores = score_all(
        vectors, batch, scale if self.has_scale else 1.0,
        self.similarity(score), sources,
    ).hardest(self.hardest)
    loss, metrics = self.of_scores(scores, batch)
    held = jax.tree.map(jax.lax.stop_gradient, scores)
    slopes = jax.grad(lambda values: self.of_scores(
        dataclasses.replace(held, scores=values), batch
    )[0])(held.scores)
    return loss, {
        **metrics,
        'accuracy': jnp.mean(scores.is_best.astype(jnp.float32)),
        'contrast': contrast.of_batch(scores, slopes),
    }

  def of_scores(
      self, scores: batch_scores.BatchScores, batch
  ) -> tuple[Float[Array, ''], dict[str, Float[Array, '']]]:
    """The loss, and what it is made of.

    Args:
      scores: of the batch.
      batch: a `batcher.Batch`; its backward mask, and weights of examples.
    """
    forward = weighted.mean(
        self.per_query(self.adjust(scores, batch)), batch.weights
    )
    if not self.shares:
      return forward, {
          'forward_loss': forward,
          'effective_negatives': candidate_softmax.mean_effective_negatives(
              scores.candidate_scores, scores.is_candidate
          ),
      }
    backward = weighted.mean(self.per_query(
        scores.backward(batch.backward_mask).hardest(self.hardest)
    ), batch.weights)
    loss = 0.5 * (forward + backward) if self.bidirectional else forward
    return loss, {'forward_loss': forward, 'backward_loss': backward}
