"""What the positives of a batch are up against, by source. Pure."""

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from neg_contrast.losses import batch_scores


@flax.struct.dataclass
class Contrast:
  """What the positives of a batch are up against, for one kind of negatives.

  Attributes:
    score: `[] float32`, mean score, unscaled; 0 where there are none.
    mass: `[] float32`, mean share of the softmax; with that of the positives
      those of all kinds add up to 1.
    accuracy: `[] float32`, part of the queries with such negatives whose
      positive scores above all of them; 1 where there are none.
    gradient: `[] float32`, mean norm of the gradient of a query's loss with
      respect to the unscaled score of such a negative; 0 where there are none.
      Where examples have weights, that of a query's loss times its weight, in
      units of the mean weight.
      Times the norm of the query it is that with respect to the negative's
      vector. Xiong et al. (2020, "ANCE", section 3) explain by it why negatives
      of the batch teach little: theirs is near zero.
  """

  score: Any
  mass: Any
  accuracy: Any
  gradient: Any


def of_batch(
    scores: batch_scores.BatchScores,
    slopes: Float[Array, 'batch candidates'],
) -> dict[str, Contrast]:
  """Splits a loss by where a query's negatives come from.

  Args:
    scores: of the batch.
    slopes: `[batch, candidates] float32`, gradient of the loss, a mean over the
      batch, with respect to the scaled scores.

  Returns:
    Each of `scores.names`: `batch` (the other rows: their positives and their
    hard negatives), the sources of the query's own hard negatives, and what all
    queries share.
  """
  values = scores.candidate_scores
  mass = jax.nn.softmax(values, axis=1)
  norms = jnp.abs(slopes) * (scores.scale * len(values))
  everything = values, mass, norms, scores.sources
  rows = jnp.arange(len(values))[:, None]
  own = tuple(array[rows, scores.own_columns] for array in everything)
  result = {}
  for number, name in enumerate(scores.names):
    value, share, norm, source = (
        everything if name in (batch_scores.OTHER_ROWS, *batch_scores.SHARED)
        else own
    )
    chosen = (source == number) & jnp.isfinite(value)
    result[name] = _contrast(
        scores.positive, scores.scale, value, share, norm, chosen
    )
  return result


def _contrast(positive, scale, values, share, norms, chosen):
  has_some = chosen.any(axis=1)
  hardest = jnp.max(values, axis=1, where=chosen, initial=-jnp.inf)
  count = jnp.maximum(1, chosen.sum())
  return Contrast(
      score=jnp.sum(values, where=chosen) / count / scale,
      mass=jnp.sum(share, where=chosen) / len(positive),
      accuracy=1 - jnp.sum(has_some & (positive <= hardest))
      / jnp.maximum(1, has_some.sum()),
      gradient=jnp.sum(norms, where=chosen) / count,
  )
