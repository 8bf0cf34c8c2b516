"""Rotary position embeddings. Pure.

Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding",
equation 34, with the features of a pair half a head apart, as transformers has
them.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from neg_contrast.batches import packed


def rotate(
    heads: Float[Array, 'rows length heads features'],
    positions: Int[packed.AnyArray, 'rows length'],
    base: float,
) -> Float[Array, 'rows length heads features']:
  """Queries or keys, turned by angles that grow with their positions.

  Args:
    heads: `[rows, length, heads, features]`; features are even.
    positions: `[rows, length] int32`, from 0 in each text.
    base: pair i of n turns by `base ** (-i / n)` radians a position.

  Returns:
    Like `heads`; sines and cosines are float32.
  """
  pairs = heads.shape[-1] // 2
  rates = base ** (-jnp.arange(pairs, dtype=jnp.float32) / pairs)
  angles = positions[:, :, None, None].astype(jnp.float32) * rates
  cos, sin = jnp.cos(angles), jnp.sin(angles)
  first, second = jnp.split(heads.astype(jnp.float32), 2, axis=-1)
  return jnp.concatenate(
      [first * cos - second * sin, second * cos + first * sin], axis=-1
  ).astype(heads.dtype)
