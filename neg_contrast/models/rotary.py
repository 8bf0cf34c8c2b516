"""Rotary position embeddings. Pure.

Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding",
equation 34, with the features of a pair half a head apart, as transformers has
them.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from neg_contrast.batches import packed


def rates(base: float, features: int) -> Float[np.ndarray, ' pairs']:
  """Radians that each pair of features turns by a position.

  Args:
    base: pair i of n turns by `base ** (-i / n)`.
    features: of a head, even; two make a pair.
  """
  pairs = features // 2
  return (base ** (-np.arange(pairs) / pairs)).astype(np.float32)


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
  return turn(heads, positions, rates(base, heads.shape[-1]))


def turn(
    heads: Float[Array, 'rows length heads features'],
    positions: Int[packed.AnyArray, 'rows length'],
    rates: Float[packed.AnyArray, ' pairs'],
) -> Float[Array, 'rows length heads features']:
  """`rotate` by rates that may differ from layer to layer of a loop.

  Args:
    heads: `[rows, length, heads, features]`; features are even.
    positions: `[rows, length] int32`, from 0 in each text.
    rates: `[pairs] float32`, as `rates` gives them.

  Returns:
    Like `heads`; sines and cosines are float32.
  """
  angles = positions[:, :, None, None].astype(jnp.float32) * rates
  cos, sin = jnp.cos(angles), jnp.sin(angles)
  first, second = jnp.split(heads.astype(jnp.float32), 2, axis=-1)
  return jnp.concatenate(
      [first * cos - second * sin, second * cos + first * sin], axis=-1
  ).astype(heads.dtype)
