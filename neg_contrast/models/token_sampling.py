"""Draws tokens by temperature, top k and nucleus. Pure.

Holtzman et al., "The Curious Case of Neural Text Degeneration".
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

_BLOCK = 256


def candidates(
    logits: Float[Array, '*batch vocab'],
    temperature: float,
    top_k: int,
    top_p: float,
) -> tuple[Float[Array, '*batch count'], Int[Array, '*batch count'] | None]:
  """What may be drawn: temperature, then the top k, then the nucleus.

  Tokens that are exactly as likely as the last of the nucleus belong to it.

  Args:
    logits: `[..., vocab] float32`.
    temperature: logits are divided by it.
    top_k: the likeliest so many tokens; 0: all.
    top_p: of these the fewest whose probabilities add up to it; 1: all.

  Returns:
    `[..., count] float32` weights, in proportion to probabilities, 0 of what
    may not be drawn; and the tokens they are of, None for `0, 1, ...`.
  """
  logits, ids = logits / temperature, None
  if 0 < top_k < logits.shape[-1]:
    logits, ids = jax.lax.top_k(logits, top_k)
  weights = jnp.exp(logits - logits.max(-1, keepdims=True))
  if top_p < 1:
    weights = _nucleus(weights, top_p)
  return weights, ids


def _nucleus(weights: Array, top_p: float) -> Array:
  """Zeroes what is outside of the nucleus.

  A weight stays if those above it add up to less than `top_p`. The least that
  stays is found by bisection, over the bit patterns of positive floats, which
  are ordered as they are: 31 sums, where sorting a vocabulary takes ten times
  as long on CPU.
  """
  bits = jax.lax.bitcast_convert_type(weights, jnp.int32)
  enough = top_p * weights.sum(-1, keepdims=True)

  def halve(_, bounds):
    low, high = bounds  # Above `low` there is enough, above `high` there isn't.
    middle = low + (high - low) // 2
    above = jnp.where(bits > middle, weights, 0).sum(-1, keepdims=True)
    return (jnp.where(above < enough, low, middle),
            jnp.where(above < enough, middle, high))

  highest = bits.max(-1, keepdims=True)
  _, least = jax.lax.fori_loop(
      0, 31, halve, (jnp.full_like(highest, -1), highest)
  )
  return jnp.where(bits >= least, weights, 0)


def draw(
    weights: Float[Array, '*batch count'], uniforms: Float[Array, '*batch 2']
) -> Int[Array, '*batch']:
  """Draws a place in proportion to its weight.

  First a block of places by its sum, then a place within: two uniform numbers,
  where the usual Gumbel noise takes one for every token of the vocabulary.

  Args:
    weights: `[..., count] float32`, at least 0 and not all 0.
    uniforms: `[..., 2] float32`, at least 0 and below 1.
  """
  *batch, count = weights.shape
  blocks = jnp.pad(
      weights, [(0, 0)] * len(batch) + [(0, -count % _BLOCK)]
  ).reshape(*batch, -1, _BLOCK)
  block = _pick(blocks.sum(-1), uniforms[..., 0])
  inside = jnp.take_along_axis(blocks, block[..., None, None], -2)[..., 0, :]
  return block * _BLOCK + _pick(inside, uniforms[..., 1])


def _pick(weights: Array, uniform: Array) -> Array:
  """The first place whose running sum is above `uniform` of the whole.

  Never a weight of 0, however sums are rounded: `uniform * total` stays below
  `total` in floats, and that is the sum at some weight above 0.
  """
  sums = jnp.where(weights > 0, jnp.cumsum(weights, -1), 0)
  total = sums.max(-1)
  return jnp.argmax(sums > (uniform * total)[..., None], -1)
