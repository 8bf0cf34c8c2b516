"""Qwen3 over packed rows, equal to the PyTorch reference. Pure.

Yang et al., "Qwen3 Technical Report", as transformers' Qwen3Model; Zhang et
al., "Qwen3 Embedding", use it as a tower, with the hidden state of the last
token.
"""

import dataclasses
import functools
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from neg_contrast.batches import packed
from neg_contrast.models import (
  blockwise,
  flash_attention,
  layers,
  pattern,
  rotary,
  row_attention,
  shape,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Qwen3Config(shape.Shape):
  """Shapes and constants of a Qwen3; defaults are Qwen3-Embedding-0.6B.

  Attributes:
    num_heads: heads of the queries.
    num_kv_heads: heads of keys and values; divides `num_heads`, and as many
      heads of queries in a row share one (Ainslie et al., "GQA").
    head_dim: features of a head, even; whatever `hidden_size` is.
    max_positions: tokens that it was trained for; there is no table of them.
    rope_theta: base of the rotary positions.
    norm_eps: added to the mean square.
  """

  vocab_size: int = 151669
  hidden_size: int = 1024
  num_layers: int = 28
  num_heads: int = 16
  num_kv_heads: int = 8
  head_dim: int = 128
  intermediate_size: int = 3072
  max_positions: int = 32768
  rope_theta: float = 1e6
  norm_eps: float = 1e-6
  model_type: str = 'qwen3'

  architecture: ClassVar[str] = 'qwen3'
  causal: ClassVar[bool] = True

  def __post_init__(self):
    """Checks ranges.

    Raises:
      ValueError: names the field and its value.
    """
    super().__post_init__()
    if self.num_kv_heads < 1 or self.num_heads % self.num_kv_heads:
      raise ValueError(f'num_kv_heads={self.num_kv_heads} must divide '
                       f'num_heads={self.num_heads}')
    if self.head_dim < 2 or self.head_dim % 2:
      raise ValueError(f'head_dim={self.head_dim} must be even, and at least 2')
    for name in ('rope_theta', 'norm_eps'):
      if getattr(self, name) <= 0:
        raise ValueError(f'{name}={getattr(self, name)} must be above 0')

  @property
  def head_features(self) -> int:
    """Features of an attention head."""
    return self.head_dim

  @property
  def kv_heads(self) -> int:
    """Heads of keys and values."""
    return self.num_kv_heads

  @property
  def even_row_length(self) -> int:
    """Tokens of a row whose attention costs as much as its dense products.

    XLA computes the pairs that the mask leaves out, too.
    """
    return self._layer_weights // (2 * self.num_heads * self.head_dim)

  @property
  def _layer_weights(self) -> int:
    heads = 2 * self.num_heads + 2 * self.num_kv_heads
    return self.hidden_size * (
        heads * self.head_dim + 3 * self.intermediate_size
    )

  def flops(
      self, lengths: Float[np.ndarray, ' sequences']
  ) -> Float[np.ndarray, ' sequences']:
    """Operations of a forward pass over sequences that attend to themselves.

    A token attends to itself and to those before.
    """
    pairs = lengths * (lengths + 1) / 2
    return self.num_layers * (
        2 * self._layer_weights * lengths
        + 4 * self.num_heads * self.head_dim * pairs
    )


QWEN3_SIZES = {'qwen3-embedding-0.6b': Qwen3Config()}


class Qwen3(nn.Module):
  """Hidden states of packed sequences, after the last norm.

  Attributes:
    config: shapes and constants.
    dtype: see `bert.Bert`; norms and softmax are float32.
    remat: see `bert.Bert`.
    scan_unroll: see `bert.Bert`.
    operand_dtype: see `bert.Bert`.
    attention: see `bert.Bert`.
    by_row: see `bert.Bert`.
  """

  config: Qwen3Config
  dtype: Any = jnp.float32
  remat: str = 'none'
  scan_unroll: int = 1
  operand_dtype: Any = None
  attention: flash_attention.Attention | None = None
  by_row: bool = False

  @nn.compact
  def __call__(
      self,
      token_ids: Int[packed.AnyArray, 'rows length'],
      segment_ids: Int[packed.AnyArray, 'rows length'],
      positions: Int[packed.AnyArray, 'rows length'],
      deterministic: bool,
      token_types: Int[packed.AnyArray, 'rows length'] | None = None,
  ) -> Float[Array, 'rows length features']:
    """Runs the decoder; arguments and result are those of `bert.Bert`.

    Args:
      token_ids: `[rows, length] int32`.
      segment_ids: `[rows, length] int32`; a token attends to itself and to the
        tokens before it in its row with its own id.
      positions: `[rows, length] int32`, from 0 in each text.
      deterministic: whether dropout is off; else a `dropout` rng is needed.
      token_types: None: there are none.

    Raises:
      ValueError: token types, or dropout of attention probabilities, which
        `attention` lacks.
    """
    c = self.config
    layers.check_dropout(self.attention, c.attention_dropout, deterministic)
    if token_types is not None:
      raise ValueError('a Qwen3 has no token types')
    hidden = _Embeddings(c, deterministic, name='embeddings')(token_ids)
    by_row, length = self.by_row and not deterministic, token_ids.shape[1]
    by_segment = not (self.attention or blockwise.is_long(length))
    stack = nn.scan(
        layers.rematerialize(_Layer, self.remat),
        variable_axes={'params': 0},
        split_rngs={'params': True, 'dropout': True},
        in_axes=nn.broadcast,
        length=c.num_layers,
        unroll=self.scan_unroll,
    )(
        c, self.dtype, self.operand_dtype or self.dtype, deterministic,
        self.attention, by_row, name='layers',
    )
    hidden, _ = stack(
        hidden.astype(self.dtype),
        layers.segment_bias(segment_ids) if by_segment and not by_row
        else segment_ids,
        causal_bias(length) if by_segment else None, positions,
    )
    return _norm(c, 'final_norm')(hidden).astype(self.dtype)


def causal_bias(length: int) -> Float[Array, '1 1 length length']:
  """0 where a token of a row stands at a query or before it, else -1e30.

  The tokens of a text stand side by side, in their order.
  """
  places = jnp.arange(length)
  return jnp.where(places[:, None] >= places, 0.0, -1e30)[None, None]


class _Embeddings(nn.Module):
  config: Qwen3Config
  deterministic: bool

  @nn.compact
  def __call__(self, token_ids):
    c = self.config
    hidden = nn.Embed(
        c.vocab_size, c.hidden_size, name='word',
        embedding_init=nn.initializers.normal(c.initializer_range),
    )(token_ids)
    return layers.Dropout(c.hidden_dropout, self.deterministic)(hidden)


class _Layer(nn.Module):
  config: Qwen3Config
  dtype: Any
  operand_dtype: Any
  deterministic: bool
  attention: flash_attention.Attention | None
  by_row: bool

  @nn.compact
  def __call__(self, hidden, segments, causal, positions):
    c = self.config
    dense = functools.partial(_dense, c, self.dtype, self.operand_dtype)
    drop = functools.partial(
        layers.Dropout, c.hidden_dropout, self.deterministic
    )
    normed = _norm(c, 'attention_norm')(hidden).astype(self.dtype)
    update = _Attention(
        c, self.dtype, self.operand_dtype, self.deterministic, self.attention,
        self.by_row, name='attention',
    )(normed, segments, causal, positions)
    hidden = hidden + drop()(update)
    normed = _norm(c, 'output_norm')(hidden).astype(self.dtype)
    inner = nn.silu(dense(c.intermediate_size, 'gate')(normed))
    inner *= dense(c.intermediate_size, 'intermediate')(normed)
    update = dense(c.hidden_size, 'output')(inner)
    return hidden + drop()(update), None


class _Attention(nn.Module):
  config: Qwen3Config
  dtype: Any
  operand_dtype: Any
  deterministic: bool
  attention: flash_attention.Attention | None
  by_row: bool

  @nn.compact
  def __call__(self, hidden, segments, causal, positions):
    c = self.config
    dense = functools.partial(_dense, c, self.dtype, self.operand_dtype)

    def heads(count, name):
      flat = dense(count * c.head_dim, name)(hidden)
      return flat.reshape(*hidden.shape[:2], count, c.head_dim)

    def turned(heads, name):
      return rotary.rotate(_norm(c, name)(heads), positions, c.rope_theta)

    query = turned(heads(c.num_heads, 'query'), 'query_norm')
    key = turned(heads(c.num_kv_heads, 'key'), 'key_norm')
    value = heads(c.num_kv_heads, 'value')
    query, key, value = (
        x.astype(self.operand_dtype)
        for x in (query * c.head_dim**-0.5, key, value)
    )
    shared_by = c.num_heads // c.num_kv_heads
    key, value = (jnp.repeat(x, shared_by, axis=2) for x in (key, value))
    drop = layers.Dropout(c.attention_dropout, self.deterministic)
    of_layer = pattern.Pattern(causal=True)
    if self.attention:
      flat = lambda x: x.reshape(*hidden.shape[:2], -1)
      mixed = self.attention(
          flat(query), flat(key), flat(value), segments, of_layer
      )
    elif blockwise.is_long(hidden.shape[1]):
      mixed = blockwise.attend(
          query, key, value, segments, of_layer, drop.bound()
      )
    elif self.by_row:
      mixed = row_attention.attend(
          query, key, value, segments, drop.bound(), (causal,)
      )
    else:
      swap = lambda x: x.swapaxes(1, 2)
      mixed = swap(layers.attend(
          swap(query), swap(key), swap(value), (segments, causal), drop
      ))
    mixed = mixed.reshape(*hidden.shape[:2], c.num_heads * c.head_dim)
    return dense(c.hidden_size, 'output')(mixed)


def _dense(c, dtype, operand_dtype, features, name):
  return layers.Dense(
      features, dtype, operand_dtype, c.initializer_range, use_bias=False,
      name=name,
  )


def _norm(c, name):
  return nn.RMSNorm(c.norm_eps, dtype=jnp.float32, name=name)
