"""Means over the examples of a batch, by their weights. Pure."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from neg_contrast.batches.packed import AnyArray

Weights = Float[AnyArray, ' batch'] | None
"""`[batch] float32`, finite, at least 0 and above 0 somewhere; None: the
examples count alike."""


def mean(values: Float[Array, ' batch'], weights: Weights) -> Float[Array, '']:
  """Σ w_i v_i / Σ w_i over the batch.

  A common factor of all weights changes nothing, and an example of weight 2
  counts as if it stood in the batch twice, but for what it is to others: a
  passage is as hard a negative of another query whatever its weight.

  Args:
    values: `[batch] float32`, one of each example.
    weights: of the examples.

  Returns:
    `[] float32`; without weights `jnp.mean`, to the last bit.
  """
  if weights is None:
    return jnp.mean(values)
  return jnp.sum(weights * values) / jnp.sum(jnp.asarray(weights))


def mean_where(
    values: Float[Array, '*batch'], counts: Bool[Array, '*batch'],
    weights: Weights,
) -> Float[Array, '']:
  """The same over the values that count; 0 where none does.

  Args:
    values: `[batch, ...] float32`, finite.
    counts: of the same shape.
    weights: of the examples, the first axis; each value has its example's.
  """
  if weights is None:
    return jnp.sum(values, where=counts) / jnp.maximum(1, counts.sum())
  by_value = jnp.broadcast_to(
      jnp.reshape(weights, (-1,) + (1,) * (values.ndim - 1)), values.shape
  )
  total = jnp.sum(by_value, where=counts)
  weighted = jnp.sum(by_value * values, where=counts)
  return weighted / jnp.where(total > 0, total, 1)
