"""What the positives of a batch are up against, by source. Pure."""

from collections.abc import Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from neg_contrast.batches.packed import AnyArray
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
  """

  score: Any
  mass: Any
  accuracy: Any


def of_batch(
    scores: batch_scores.BatchScores, scale: Float[Array, ''] | float
) -> dict[str, Contrast]:
  """Splits the forward softmax by where a query's negatives come from.

  Args:
    scores: of the batch.
    scale: the factor in the scores.

  Returns:
    Each of `scores.names`: `batch` (the other rows: their positives and their
    hard negatives), the sources of the query's own hard negatives, and what all
    queries share.
  """
  values = scores.candidate_scores
  mass = jax.nn.softmax(values, axis=1)
  rows = jnp.arange(len(values))[:, None]
  own = tuple(array[rows, scores.own_columns]
              for array in (values, mass, scores.sources))
  kinds = {}
  for number, name in enumerate(scores.names):
    value, share, source = (
        (values, mass, scores.sources)
        if name in (batch_scores.OTHER_ROWS, *batch_scores.SHARED) else own
    )
    kinds[name] = value, share, (source == number) & jnp.isfinite(value)
  return _contrasts(scores.positive, scale, kinds)


def of_candidates(
    scores: Float[Array, 'batch candidates'],
    negative_sources: Int[AnyArray, 'batch negatives'],
    scale: Float[Array, ''] | float,
    names: Sequence[str],
) -> dict[str, Contrast]:
  """The same where a query has candidates of its own alone.

  Args:
    scores: `[batch, 1 + negatives] float32`, scaled; the positive in column 0;
      -inf where there is none.
    negative_sources: `[batch, negatives] int32`, places in `names`; -1: none.
    scale: the factor in the scores.
    names: of the sources.

  Returns:
    Each of `names`.
  """
  mass = jax.nn.softmax(scores, axis=1)
  own, own_mass = scores[:, 1:], mass[:, 1:]
  return _contrasts(scores[:, 0], scale, {
      name: (own, own_mass, (negative_sources == number) & jnp.isfinite(own))
      for number, name in enumerate(names)
  })


def _contrasts(positive, scale, kinds):
  batch, result = len(positive), {}
  for name, (values, share, chosen) in kinds.items():
    has_some = chosen.any(axis=1)
    hardest = jnp.max(values, axis=1, where=chosen, initial=-jnp.inf)
    result[name] = Contrast(
        score=jnp.sum(values, where=chosen)
        / jnp.maximum(1, chosen.sum()) / scale,
        mass=jnp.sum(share, where=chosen) / batch,
        accuracy=1 - jnp.sum(has_some & (positive <= hardest))
        / jnp.maximum(1, has_some.sum()),
    )
  return result
