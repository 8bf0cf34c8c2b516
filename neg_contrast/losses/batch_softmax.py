"""The batch softmax: a positive against all passages of the batch. Pure."""

import dataclasses

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from neg_contrast import scoring
from neg_contrast.batches.packed import AnyArray
from neg_contrast.losses import contrast, dual_encoder_loss


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
    terms = batch_softmax(
        vectors.queries, vectors.positives, vectors.negatives, scale,
        batch.forward_mask, batch.backward_mask, score,
        jnp.concatenate([vectors.corpus, vectors.queue]),
    )
    loss = terms.loss if self.bidirectional else jnp.mean(terms.forward)
    return loss, {
        'forward_loss': jnp.mean(terms.forward),
        'backward_loss': jnp.mean(terms.backward),
        'accuracy': jnp.mean(terms.correct.astype(jnp.float32)),
        'contrast': contrast.by_source(
            terms.scores, batch.negative_sources, scale, sources,
            {'corpus': len(vectors.corpus), 'queue': len(vectors.queue)},
        ),
    }


@flax.struct.dataclass
class BatchSoftmax:
  """Per-query terms of the bidirectional batch softmax.

  Attributes:
    forward: `[batch] float32`, query to passage.
    backward: `[batch] float32`, passage to query.
    correct: `[batch] bool`, the positive scores above every other candidate.
    scores: `[batch, batch * (1 + negatives) + shared] float32`, scaled; -inf
      where masked.
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
    shared_vecs: Float[Array, 'shared features'] | None = None,
) -> BatchSoftmax:
  """Bidirectional batch softmax with hard negatives in the forward direction.

  With s_ij the scaled score of query i and candidate j, where candidates are
  the positives of the whole batch followed by the hard negatives of the whole
  batch, and by others that all queries share:

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
    forward_mask: `[batch, batch * (1 + negatives) + shared] bool`, True =
      candidate; column `batch + i * negatives + n` is hard negative n of row i.
      The diagonal of the first `batch` columns must be True.
    backward_mask: `[batch, batch] bool`; row i says which queries are
      candidates of positive i. The diagonal must be True.
    score: of a query and a candidate; its vectors lie side by side in features.
    shared_vecs: `[shared, features] float32`, other passages that all queries
      have as candidates, in the forward direction; None: there are none.

  Returns:
    The per-query terms; their means make the loss.
  """
  batch, negatives, features = negative_vecs.shape
  candidate_vecs = jnp.concatenate([
      positive_vecs, negative_vecs.reshape(batch * negatives, features),
      *([] if shared_vecs is None else [shared_vecs]),
  ])
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
