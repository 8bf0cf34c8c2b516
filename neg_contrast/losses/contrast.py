"""What the positives of a batch are up against, by source. Pure."""

import types
from collections.abc import Mapping, Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from neg_contrast.batches.packed import AnyArray


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


def by_source(
    scores: Float[Array, 'batch candidates'],
    negative_sources: Int[AnyArray, 'batch negatives'],
    scale: Float[Array, ''] | float,
    names: Sequence[str],
    shared: Mapping[str, int] = types.MappingProxyType({}),
) -> dict[str, Contrast]:
  """Splits the forward softmax by where a query's negatives come from.

  Args:
    scores: `BatchSoftmax.scores`.
    negative_sources: `[batch, negatives] int32`, places in `names`; -1: none.
    scale: the factor in the scores.
    names: of the sources of hard negatives.
    shared: name -> candidates that all queries share, in the order of the last
      columns.

  Returns:
    `batch` (the other rows: their positives and their hard negatives), each of
    `names` (the query's own hard negatives), and each of `shared`, as
    `shared_NAME`, that has any.
  """
  batch, negatives = negative_sources.shape
  mass = jax.nn.softmax(scores, axis=1)
  own_columns = batch + jnp.arange(batch * negatives).reshape(batch, negatives)
  rows = jnp.arange(batch)[:, None]
  own, own_mass = scores[rows, own_columns], mass[rows, own_columns]
  positive = jnp.diagonal(scores)
  is_other = jnp.isfinite(scores).at[rows, own_columns].set(False)
  is_other &= ~jnp.eye(batch, scores.shape[1], dtype=bool)
  kinds, begin = {}, batch * (1 + negatives)
  for name, count in shared.items():
    if count:
      columns = slice(begin, begin + count)
      kinds[f'shared_{name}'] = (
          scores[:, columns], mass[:, columns], is_other[:, columns]
      )
      begin = columns.stop
  kinds['batch'] = (
      scores, mass, is_other.at[:, batch * (1 + negatives):].set(False)
  )
  return _contrasts(positive, scale, {
      **kinds, **_split(own, own_mass, negative_sources, names),
  })


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
  return _contrasts(scores[:, 0], scale, _split(
      scores[:, 1:], mass[:, 1:], negative_sources, names
  ))


def _split(own, own_mass, negative_sources, names):
  """Scores, mass and which of them count, by name."""
  return {
      name: (own, own_mass, (negative_sources == number) & jnp.isfinite(own))
      for number, name in enumerate(names)
  }


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
