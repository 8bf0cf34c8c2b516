"""Encoders with rotary positions and gated blocks: what they share. Pure."""

import dataclasses
import functools
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from jaxtyping import Float

from neg_contrast.models import (
  bert,
  blockwise,
  flash_attention,
  layers,
  rotary,
  row_attention,
  shape,
)
from neg_contrast.models import pattern as pattern_lib


@dataclasses.dataclass(frozen=True, kw_only=True)
class GatedShape(shape.Shape):
  """Shapes of an encoder with rotary positions and gated feed-forward blocks.

  A gated block is `output(activation(gate(x)) * intermediate(x))` (Shazeer,
  "GLU Variants Improve Transformer", equation 6).

  Attributes:
    num_heads: divides `hidden_size`, with an even quotient.
    max_positions: tokens that it was trained for; there is no table of them.
    hidden_act: a key of `bert.ACTIVATIONS`, of the gate.
  """

  hidden_act: str = 'gelu'

  def __post_init__(self):
    """Checks ranges.

    Raises:
      ValueError: names the field and its value.
    """
    super().__post_init__()
    if self.hidden_size % (2 * self.num_heads):
      raise ValueError(f'hidden_size={self.hidden_size} must be a multiple of '
                       f'twice num_heads={self.num_heads}')
    if self.hidden_act not in bert.ACTIVATIONS:
      raise ValueError(f'hidden_act={self.hidden_act!r} is not one of '
                       + ', '.join(bert.ACTIVATIONS))

  @property
  def local_window(self) -> int:
    """Tokens on each side that local layers attend to; 0: there are none."""
    return 0

  @property
  def patterns(self) -> tuple[pattern_lib.Pattern, ...]:
    """Of the attention of its layers, each once."""
    if not self.local_window:
      return (pattern_lib.GLOBAL,)
    return pattern_lib.GLOBAL, pattern_lib.Pattern(window=self.local_window)

  @property
  def even_row_length(self) -> int:
    """Tokens of a row whose attention costs as much as its dense products."""
    return 2 * self.hidden_size + 3 * self.intermediate_size // 2

  def flops(
      self, lengths: Float[np.ndarray, ' sequences']
  ) -> Float[np.ndarray, ' sequences']:
    """Operations of a forward pass over sequences that attend to themselves."""
    weights = self.hidden_size * (
        4 * self.hidden_size + 3 * self.intermediate_size
    )
    return (2 * self.num_layers * weights * lengths
            + 4 * self.hidden_size * self.pairs(lengths))

  def pairs(
      self, lengths: Float[np.ndarray, ' sequences']
  ) -> Float[np.ndarray, ' sequences']:
    """Pairs of tokens that attend to each other, of all layers together."""
    return self.num_layers * lengths**2


class SelfAttention(nn.Module):
  """Attention within segments, of queries and keys turned by their positions.

  Attributes:
    shape: heads, rate of dropout, and the deviation of random weights.
    dtype: of the result.
    operand_dtype: of the operands of matrix products.
    deterministic: whether dropout is off.
    attention: see `bert.Bert`.
    by_row: see `bert.Bert`.
    use_bias: whether the four dense layers have biases.
    output_deviation: of the random weights of the last one.
  """

  shape: GatedShape
  dtype: Any
  operand_dtype: Any
  deterministic: bool
  attention: flash_attention.Attention | None
  by_row: bool
  use_bias: bool
  output_deviation: float

  @nn.compact
  def __call__(self, hidden, segment_ids, positions, rates, window=0):
    """`[rows, length, features]`, like `hidden`.

    Args:
      hidden: `[rows, length, features]`.
      segment_ids: `[rows, length] int32`, see `bert.Bert`.
      positions: `[rows, length] int32`, from 0 in each text.
      rates: `[pairs] float32`, see `rotary.rates`.
      window: see `layers.segment_bias`.
    """
    c = self.shape
    dense = functools.partial(
        layers.Dense, c.hidden_size, self.dtype, self.operand_dtype,
        use_bias=self.use_bias,
    )
    query, key, value = (
        dense(deviation=c.initializer_range, name=name)(hidden)
        .reshape(*hidden.shape[:2], c.num_heads, -1)
        for name in ('query', 'key', 'value')
    )
    query = rotary.turn(query, positions, rates) * c.head_features**-0.5
    key = rotary.turn(key, positions, rates)
    query, key, value = (
        x.astype(self.operand_dtype) for x in (query, key, value)
    )
    drop = layers.Dropout(c.attention_dropout, self.deterministic)
    if self.attention:
      flat = [x.reshape(hidden.shape) for x in (query, key, value)]
      mixed = self._by_window(
          window, functools.partial(self.attention, *flat, segment_ids)
      )
    elif blockwise.is_long(hidden.shape[1]):
      mixed = self._by_window(window, functools.partial(
          blockwise.attend, query, key, value, segment_ids, drop=drop.bound()
      ))
    elif self.by_row:
      mixed = row_attention.attend(
          query, key, value, segment_ids, drop.bound(), window=window
      )
    else:
      heads = lambda x: x.swapaxes(1, 2)
      bias = layers.segment_bias(segment_ids, window)
      mixed = heads(layers.attend(
          heads(query), heads(key), heads(value), (bias,), drop
      ))
    return dense(deviation=self.output_deviation, name='output')(
        mixed.reshape(hidden.shape)
    )

  def _by_window(self, window, attend):
    """`attend(pattern)`, by the window of the layer."""
    of_global, *of_local = self.shape.patterns
    if not of_local:
      return attend(of_global)
    return jax.lax.cond(
        window > 0,
        functools.partial(attend, *of_local),
        functools.partial(attend, of_global),
    )
