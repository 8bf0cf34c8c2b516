"""The triplet loss: a positive nearer than each negative, by a margin. Pure."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from neg_contrast.losses import candidate_loss, dual_encoder_loss, hinge


@dataclasses.dataclass(frozen=True)
class TripletLoss(candidate_loss.CandidateLoss):
  """max(0, D(q, d+) - D(q, d-) + margin), the mean over a query's negatives.

  The survey's triplet loss (Huang et al., 2020, section 2.2; Schroff et al.,
  2015). It has no scale. With `hardest=1` it is that of the hardest of the
  batch.

  Attributes:
    margin: m, in units of the distance.
    distance: D: `cosine`, 1 less the cosine; `euclidean`; or `dot`, minus the
      score.
  """

  has_scale = False
  compares_scores = False

  margin: float = 1.0
  distance: str = 'cosine'

  @property
  def needs(self):
    """One vector of each text, for distances of vectors."""
    one = () if self.distance == 'dot' else (dual_encoder_loss.ONE_VECTOR,)
    return (*super().needs, *one)

  def similarity(self, score):
    """Minus the distance, but for a constant."""
    return {'cosine': cosine, 'euclidean': nearness, 'dot': score}[
        self.distance
    ]

  def per_query(self, scores):
    """See `hinge.hinge`: distances are negative scores."""
    return hinge.hinge(scores, self.margin)


def cosine(
    queries: Float[Array, 'queries features'],
    passages: Float[Array, 'passages features'],
) -> Float[Array, 'queries passages']:
  """Cosines; 0 with a vector of zeros.

  Args:
    queries: `[queries, features] float32`.
    passages: `[passages, features] float32`.
  """
  unit = lambda vecs: vecs / jnp.sqrt(jnp.maximum(
      jnp.sum(jnp.square(vecs), axis=1, keepdims=True), _LEAST
  ))
  return _dots(unit(queries), unit(passages))


def nearness(
    queries: Float[Array, 'queries features'],
    passages: Float[Array, 'passages features'],
) -> Float[Array, 'queries passages']:
  """Minus Euclidean distances; those of equal vectors have no gradient.

  Args:
    queries: `[queries, features] float32`.
    passages: `[passages, features] float32`.
  """
  squares = lambda vecs: jnp.sum(jnp.square(vecs), axis=1)
  squared = (squares(queries)[:, None] + squares(passages)
             - 2 * _dots(queries, passages))
  return -jnp.sqrt(jnp.maximum(squared, _LEAST))


_LEAST = 1e-12  # Of a square whose root is taken.


def _dots(queries, passages):
  return jnp.einsum('qd,pd->qp', queries, passages, precision='highest')
