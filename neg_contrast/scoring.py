"""Scores of queries against passages. Pure."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def dot_scores(
    query_vecs: Float[Array, 'queries features'],
    passage_vecs: Float[Array, 'passages features'],
) -> Float[Array, 'queries passages']:
  """Dot products in full float32 precision.

  TPUs round the operands of a product to bfloat16 unless told otherwise, which
  makes distinct passages tie.

  Args:
    query_vecs: `[queries, features] float32`.
    passage_vecs: `[passages, features] float32`.

  Returns:
    `[queries, passages] float32`.
  """
  return jnp.einsum(
      'qd,pd->qp',
      query_vecs,
      passage_vecs,
      precision=jax.lax.Precision.HIGHEST,
      preferred_element_type=jnp.float32,
  )
