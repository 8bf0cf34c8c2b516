"""What a student learns of a teacher, beside or instead of contrasting. Pure.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from neg_contrast.batches.packed import AnyArray
from neg_contrast.losses import (
  batch_scores,
  dual_encoder_loss,
  own_candidates,
  weighted,
)


@dataclasses.dataclass(frozen=True)
class Distillation:
  """A part of the loss that compares scores with a teacher's.

  Attributes:
    compare: (scores, teacher's, which count, weights) -> loss, such as
      `margin_mse`.
    weight: part of the whole, above 0; 1: all of it.
  """

  compare: Callable[..., Float[Array, '']]
  weight: float

  def add(
      self,
      loss: Float[Array, ''],
      own: batch_scores.BatchScores,
      teacher: Float[AnyArray, 'batch candidates'],
      weights: weighted.Weights = None,
  ) -> tuple[Float[Array, ''], dict[str, Float[Array, '']]]:
    """(1 - weight) · loss + weight · what the teacher says.

    Args:
      loss: the contrastive one.
      own: scores of each query with candidates of its own.
      teacher: `[batch, candidates] float32` of the same; nan: the teacher has
        not scored it.
      weights: of the examples, which count in both parts.

    Returns:
      The whole, and `contrastive_loss`, `distil_loss` and `distilled` (the part
      of the candidates that has a teacher's score).
    """
    is_taught = jnp.isfinite(teacher) & own.is_candidate
    taught = self.compare(
        own.scores, jnp.where(is_taught, teacher, 0), is_taught, weights
    )
    return (1 - self.weight) * loss + self.weight * taught, {
        'contrastive_loss': loss,
        'distil_loss': taught,
        'distilled': jnp.mean(
            is_taught.astype(jnp.float32), where=own.is_candidate
        ),
    }


@dataclasses.dataclass(frozen=True)
class DistilledLoss(dual_encoder_loss.DualEncoderLoss):
  """A loss of dual encoders, and a teacher's of each query's own candidates.

  Attributes:
    contrastive: the loss that it is added to.
    distillation: what is added, and how much.
  """

  contrastive: dual_encoder_loss.DualEncoderLoss = dataclasses.field(
      kw_only=True
  )
  distillation: Distillation = dataclasses.field(kw_only=True)

  @property
  def needs(self) -> tuple[str, ...]:
    """Hard negatives, and a teacher's scores of them."""
    return tuple(dict.fromkeys((
        *self.contrastive.needs, dual_encoder_loss.HARD_NEGATIVES,
        dual_encoder_loss.TEACHER,
    )))

  def __call__(self, vectors, batch, scale, score, sources):
    """Both, by the scores of the model as they are."""
    loss, metrics = self.contrastive(vectors, batch, scale, score, sources)
    whole, more = self.distillation.add(loss, own_candidates.score_own(
        vectors, batch, scale, score, sources
    ), batch.teacher_scores, batch.weights)
    return whole, {**metrics, **more}


def of_loss(
    contrastive: dual_encoder_loss.DualEncoderLoss, distillation: Distillation
) -> DistilledLoss:
  """A loss with a teacher's added."""
  given: dict[str, Any] = {
      field.name: getattr(contrastive, field.name)
      for field in dataclasses.fields(dual_encoder_loss.DualEncoderLoss)
  }
  return DistilledLoss(
      **given, contrastive=contrastive, distillation=distillation
  )
