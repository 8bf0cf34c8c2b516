"""ModernBERT over packed rows, equal to the PyTorch reference. Pure.

Warner et al., "Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder
for Fast, Memory Efficient, and Long Context Finetuning and Inference", as
transformers' ModernBertModel.
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
  bert,
  flash_attention,
  layers,
  rotary,
  rotary_layers,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModernBertConfig(rotary_layers.GatedShape):
  """Shapes and constants of a ModernBERT; defaults are those of its base size.

  Attributes:
    hidden_dropout: rate on embeddings.
    attention_dropout: rate on attention probabilities, and on the output of
      attention, as in the reference.
    mlp_dropout: rate inside the feed-forward blocks.
    norm_eps: added to the variance.
    global_every: layers 0, this, twice this, ... attend to whole segments, the
      others within `window`.
    window: tokens on each side that a token of a local layer attends to.
    global_theta: base of the rotary positions of global layers.
    local_theta: of local ones.
    norm_bias: whether norms have biases.
    attention_bias: whether the dense layers of attention have biases.
    mlp_bias: whether those of feed-forward blocks have.
  """

  vocab_size: int = 50368
  hidden_size: int = 768
  num_layers: int = 22
  num_heads: int = 12
  intermediate_size: int = 1152
  max_positions: int = 8192
  mlp_dropout: float = 0.0
  norm_eps: float = 1e-5
  global_every: int = 3
  window: int = 64
  global_theta: float = 160000.0
  local_theta: float = 10000.0
  norm_bias: bool = False
  attention_bias: bool = False
  mlp_bias: bool = False
  model_type: str = 'modernbert'

  architecture: ClassVar[str] = 'modernbert'

  def __post_init__(self):
    """Checks ranges.

    Raises:
      ValueError: names the field and its value.
    """
    super().__post_init__()
    for name in ('global_every', 'window'):
      if getattr(self, name) < 1:
        raise ValueError(f'{name}={getattr(self, name)} must be at least 1')
    for name in ('global_theta', 'local_theta'):
      if getattr(self, name) <= 0:
        raise ValueError(f'{name}={getattr(self, name)} must be above 0')
    if not 0 <= self.mlp_dropout < 1:
      raise ValueError(f'mlp_dropout={self.mlp_dropout} must be at least 0 and '
                       'below 1')

  @property
  def local_window(self) -> int:
    """`window`."""
    return self.window

  @property
  def windows(self) -> tuple[int, ...]:
    """Tokens on each side that a layer attends to; 0: its whole segment."""
    return tuple(self.window if number % self.global_every else 0
                 for number in range(self.num_layers))

  @property
  def local_share(self) -> float:
    """Part of its layers that attend within a window."""
    return sum(window > 0 for window in self.windows) / self.num_layers

  def pairs(
      self, lengths: Float[np.ndarray, ' sequences']
  ) -> Float[np.ndarray, ' sequences']:
    """Pairs of tokens that attend to each other, of all layers together.

    XLA computes the others too, so `even_row_length` counts whole rows.
    """
    reach = np.minimum(self.window, lengths - 1)
    local = lengths * (2 * reach + 1) - reach * (reach + 1)
    count = sum(window > 0 for window in self.windows)
    return (self.num_layers - count) * lengths**2 + count * local


MODERNBERT_SIZES = {
    'modernbert-base': ModernBertConfig(),
    'modernbert-large': ModernBertConfig(
        hidden_size=1024, num_layers=28, num_heads=16, intermediate_size=2624
    ),
}


class ModernBert(nn.Module):
  """Hidden states of packed sequences.

  Global and local layers are one loop over stacked parameters, to which each
  layer's window and rates come as numbers. `attention_norm` of the first layer
  is there, for the loop, and not used.

  Attributes:
    config: shapes and constants.
    dtype: see `bert.Bert`.
    remat: see `bert.Bert`.
    scan_unroll: see `bert.Bert`.
    operand_dtype: see `bert.Bert`.
    attention: see `bert.Bert`.
    by_row: see `bert.Bert`.
  """

  config: ModernBertConfig
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
    """Runs the encoder; arguments and result are those of `bert.Bert`.

    Args:
      token_ids: `[rows, length] int32`.
      segment_ids: `[rows, length] int32`; a token attends to the tokens of its
        row with its own id.
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
      raise ValueError('a ModernBERT has no token types')
    hidden = _Embeddings(c, deterministic, name='embeddings')(token_ids)
    stack = nn.scan(
        layers.rematerialize(_Layer, self.remat),
        variable_axes={'params': 0},
        split_rngs={'params': True, 'dropout': True},
        in_axes=(nn.broadcast, nn.broadcast, 0),
        length=c.num_layers,
        unroll=self.scan_unroll,
    )(
        c, self.dtype, self.operand_dtype or self.dtype, deterministic,
        self.attention, self.by_row and not deterministic, name='layers',
    )
    hidden, _ = stack(
        hidden.astype(self.dtype), segment_ids, positions, _of_layers(c)
    )
    return _norm(c, 'final_norm')(hidden).astype(self.dtype)


def _of_layers(c):
  """(windows, rates, whether it is the first), a row for each layer."""
  by_global, by_local = (rotary.rates(theta, c.head_features)
                         for theta in (c.global_theta, c.local_theta))
  windows = np.array(c.windows, np.int32)
  return (
      jnp.asarray(windows),
      jnp.asarray(np.where(windows[:, None] > 0, by_local, by_global)),
      jnp.arange(c.num_layers) == 0,
  )


class _Embeddings(nn.Module):
  config: ModernBertConfig
  deterministic: bool

  @nn.compact
  def __call__(self, token_ids):
    c = self.config
    hidden = nn.Embed(
        c.vocab_size, c.hidden_size, name='word',
        embedding_init=nn.initializers.normal(c.initializer_range),
    )(token_ids)
    hidden = _norm(c, 'norm')(hidden)
    return layers.Dropout(c.hidden_dropout, self.deterministic)(hidden)


class _Layer(nn.Module):
  config: ModernBertConfig
  dtype: Any
  operand_dtype: Any
  deterministic: bool
  attention: flash_attention.Attention | None
  by_row: bool

  @nn.compact
  def __call__(self, hidden, segment_ids, positions, of_layer):
    c = self.config
    window, rates, is_first = of_layer
    output_deviation = c.initializer_range * (2 * c.num_layers) ** -0.5
    dense = functools.partial(
        layers.Dense, dtype=self.dtype, operand_dtype=self.operand_dtype,
        use_bias=c.mlp_bias,
    )
    widen = functools.partial(
        dense, c.intermediate_size, deviation=c.initializer_range
    )
    drop = lambda rate: layers.Dropout(rate, self.deterministic)
    normed = _norm(c, 'attention_norm')(hidden).astype(self.dtype)
    update = rotary_layers.SelfAttention(
        c, self.dtype, self.operand_dtype, self.deterministic, self.attention,
        self.by_row, c.attention_bias, output_deviation, name='attention',
    )(
        jnp.where(is_first, hidden, normed), segment_ids, positions, rates,
        window,
    )
    hidden = hidden + drop(c.attention_dropout)(update)
    normed = _norm(c, 'output_norm')(hidden).astype(self.dtype)
    inner = bert.ACTIVATIONS[c.hidden_act](widen(name='gate')(normed))
    inner *= widen(name='intermediate')(normed)
    update = dense(
        c.hidden_size, deviation=output_deviation, name='output'
    )(drop(c.mlp_dropout)(inner))
    return hidden + update, None


def _norm(c, name):
  return nn.LayerNorm(
      c.norm_eps, dtype=jnp.float32, use_bias=c.norm_bias,
      use_fast_variance=False, name=name,
  )
