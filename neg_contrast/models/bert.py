"""BERT over packed rows, equal to the PyTorch reference. Pure.

Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", as in
transformers' BertModel without its pooler.
"""

import dataclasses
import functools
from collections.abc import Callable
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
  row_attention,
  shape,
)
from neg_contrast.models import pattern as pattern_lib

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    'gelu': layers.gelu,
    'gelu_new': functools.partial(nn.gelu, approximate=True),
    'gelu_pytorch_tanh': functools.partial(nn.gelu, approximate=True),
    'relu': nn.relu,
    'silu': nn.silu,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertConfig(shape.Shape):
  """Shapes and constants of a BERT; defaults are those of bert-base-uncased.

  Attributes:
    num_heads: divides `hidden_size`.
    max_positions: rows of the position embeddings.
    type_vocab_size: see `shape.Shape`; DistilBERT has none.
    hidden_act: a key of `ACTIVATIONS`; `gelu` is the exact one.
    layer_norm_eps: added to the variance.
  """

  vocab_size: int = 30522
  hidden_size: int = 768
  num_layers: int = 12
  num_heads: int = 12
  intermediate_size: int = 3072
  max_positions: int = 512
  type_vocab_size: int = 2
  hidden_act: str = 'gelu'
  hidden_dropout: float = 0.1
  attention_dropout: float = 0.1
  layer_norm_eps: float = 1e-12
  initializer_range: float = 0.02
  model_type: str = 'bert'

  architecture: ClassVar[str] = 'bert'

  @property
  def even_row_length(self) -> int:
    """Tokens of a row whose attention costs as much as its dense products."""
    return 2 * self.hidden_size + self.intermediate_size

  def __post_init__(self):
    """Checks ranges.

    Raises:
      ValueError: names the field and its value.
    """
    super().__post_init__()
    if self.hidden_size % self.num_heads:
      raise ValueError(f'hidden_size={self.hidden_size} must be a multiple of '
                       f'num_heads={self.num_heads}')
    if self.hidden_act not in ACTIVATIONS:
      raise ValueError(f'hidden_act={self.hidden_act!r} is not one of '
                       + ', '.join(ACTIVATIONS))

  def flops(
      self, lengths: Float[np.ndarray, ' sequences']
  ) -> Float[np.ndarray, ' sequences']:
    """Operations of a forward pass over sequences that attend to themselves."""
    weights = self.hidden_size * (
        4 * self.hidden_size + 2 * self.intermediate_size
    )
    return self.num_layers * (
        2 * weights * lengths + 4 * self.hidden_size * lengths**2
    )

  def to_json(self) -> dict[str, Any]:
    """Plain values."""
    values = super().to_json()
    if self.model_type == 'bert':  # As it was before there were others.
      del values['model_type']
    return values


BERT_SIZES = {
    'bert-base-uncased': BertConfig(),
    'bert-large-uncased': BertConfig(
        hidden_size=1024, num_layers=24, num_heads=16, intermediate_size=4096
    ),
    'bert-tiny': BertConfig(
        hidden_size=128, num_layers=2, num_heads=2, intermediate_size=512
    ),
    'minilm-l6': BertConfig(
        hidden_size=384, num_layers=6, intermediate_size=1536
    ),
}


class Bert(nn.Module):
  """Hidden states of packed sequences.

  Layers run in a loop over parameters stacked on a leading `layers` axis,
  whatever `scan_unroll` is: the TPU compiler takes 111 to 197 s for twelve
  unrolled layers at batch 2048, and 3 to 40 s for a loop. A loop without remat
  keeps every attention matrix, so `attention` belongs to it on TPUs.

  Attributes:
    config: shapes and constants.
    dtype: of activations; parameters, softmax and layer norms are float32.
    operand_dtype: of the operands of matrix products, where it is another than
      `dtype`.
    remat: what the backward pass computes again. `attention` keeps the outputs
      of the dense layers only; `full` keeps the inputs of each layer only.
    scan_unroll: layers in one iteration of the loop.
    attention: a `flash_attention.Attention`, which has no dropout of the
      attention probabilities; None: XLA computes it.
    by_row: whether training computes attention row after row, as is quick on a
      CPU; forward alone it is not.
  """

  config: BertConfig
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
    """Runs the encoder.

    Args:
      token_ids: `[rows, length] int32`.
      segment_ids: `[rows, length] int32`; a token attends to the tokens of its
        row with its own id. Padding holds 0 and attends to padding.
      positions: `[rows, length] int32`, below `max_positions`.
      deterministic: whether dropout is off; else a `dropout` rng is needed.
      token_types: `[rows, length] int32`, below `type_vocab_size`; None: 0
        throughout.

    Returns:
      `[rows, length, features]` in `dtype`; meaningless on padding.

    Raises:
      ValueError: dropout of attention probabilities, which `attention` lacks.
    """
    layers.check_dropout(
        self.attention, self.config.attention_dropout, deterministic
    )
    hidden = _Embeddings(
        self.config, self.dtype, deterministic, name='embeddings'
    )(token_ids, positions, token_types)
    by_row = self.by_row and not deterministic
    stack = nn.scan(
        layers.rematerialize(_Layer, self.remat),
        variable_axes={'params': 0},
        split_rngs={'params': True, 'dropout': True},
        in_axes=nn.broadcast,
        length=self.config.num_layers,
        unroll=self.scan_unroll,
    )(
        self.config, self.dtype, self.operand_dtype or self.dtype,
        deterministic, self.attention, by_row, name='layers',
    )
    biases = self.score_biases(token_ids.shape[1])
    hidden, _ = stack(hidden, (
        segment_ids
        if self.attention or by_row or _in_blocks(token_ids.shape[1], biases)
        else layers.segment_bias(segment_ids)
    ), biases)
    return hidden

  def score_biases(
      self, length: int
  ) -> tuple[Float[Array, '1 heads length length'], ...]:
    """What is added to the scores of all layers, of every row.

    Args:
      length: of rows.
    """
    del length
    return ()


class _Embeddings(nn.Module):
  config: BertConfig
  dtype: Any
  deterministic: bool

  @nn.compact
  def __call__(self, token_ids, positions, token_types):
    c = self.config
    embed = functools.partial(
        nn.Embed,
        features=c.hidden_size,
        embedding_init=nn.initializers.normal(c.initializer_range),
    )
    hidden = (
        embed(c.vocab_size, name='word')(token_ids)
        + embed(c.max_positions, name='position')(positions)
    )
    if c.type_vocab_size:
      if token_types is None:
        token_types = jnp.zeros((1, 1), jnp.int32)
      hidden += embed(c.type_vocab_size, name='token_type')(token_types)
    hidden = _norm(c, 'norm')(hidden)
    hidden = layers.Dropout(c.hidden_dropout, self.deterministic)(hidden)
    return hidden.astype(self.dtype)


class _Layer(nn.Module):
  config: BertConfig
  dtype: Any
  operand_dtype: Any
  deterministic: bool
  attention: flash_attention.Attention | None
  by_row: bool

  @nn.compact
  def __call__(self, hidden, segments, biases):
    c = self.config
    drop = functools.partial(
        layers.Dropout, c.hidden_dropout, self.deterministic
    )
    dense = functools.partial(_dense, c, self.dtype, self.operand_dtype)
    update = _Attention(
        c, self.dtype, self.operand_dtype, self.deterministic, self.attention,
        self.by_row, name='attention',
    )(hidden, segments, biases)
    hidden = _norm(c, 'attention_norm')(hidden + drop()(update))
    hidden = hidden.astype(self.dtype)
    update = dense(c.intermediate_size, 'intermediate')(hidden)
    update = ACTIVATIONS[c.hidden_act](update)
    update = dense(c.hidden_size, 'output')(update)
    hidden = _norm(c, 'output_norm')(hidden + drop()(update))
    return hidden.astype(self.dtype), None


class _Attention(nn.Module):
  config: BertConfig
  dtype: Any
  operand_dtype: Any
  deterministic: bool
  attention: flash_attention.Attention | None
  by_row: bool

  @nn.compact
  def __call__(self, hidden, segments, biases):
    c = self.config
    dense = functools.partial(
        _dense, c, self.dtype, self.operand_dtype, c.hidden_size
    )
    query, key, value = (
        dense(name)(hidden) for name in ('query', 'key', 'value')
    )
    query *= (c.hidden_size // c.num_heads) ** -0.5
    query, key, value = (
        x.astype(self.operand_dtype) for x in (query, key, value)
    )
    if self.attention:
      return dense('output')(self.attention(query, key, value, segments))
    query, key, value = (
        x.reshape(*x.shape[:2], c.num_heads, -1) for x in (query, key, value)
    )
    drop = layers.Dropout(c.attention_dropout, self.deterministic)
    if _in_blocks(hidden.shape[1], biases):
      mixed = blockwise.attend(
          query, key, value, segments, pattern_lib.GLOBAL, drop.bound()
      )
    elif self.by_row:
      mixed = row_attention.attend(
          query, key, value, segments, drop.bound(), biases
      )
    else:
      heads = lambda x: x.swapaxes(1, 2)
      mixed = heads(layers.attend(
          heads(query), heads(key), heads(value), (segments, *biases), drop
      ))
    mixed = mixed.reshape(hidden.shape)
    return dense('output')(mixed)


def _in_blocks(length: int, biases: tuple[Array, ...]) -> bool:
  """Biases are matrices of the whole row already."""
  return blockwise.is_long(length) and not biases


def _dense(c, dtype, operand_dtype, features, name):
  return layers.Dense(
      features, dtype, operand_dtype, c.initializer_range, name=name
  )


def _norm(c, name):
  return nn.LayerNorm(
      c.layer_norm_eps, dtype=jnp.float32, use_fast_variance=False, name=name
  )
