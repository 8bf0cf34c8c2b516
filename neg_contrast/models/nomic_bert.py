"""NomicBERT over packed rows, equal to the PyTorch reference. Pure.

Nussbaum et al., 2024, "Nomic Embed: Training a Reproducible Long Context Text
Embedder", section 4, as transformers' NomicBertModel.
"""

import dataclasses
import functools
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
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
class NomicBertConfig(rotary_layers.GatedShape):
  """Shapes and constants of a NomicBERT; defaults are those of its one size.

  Attributes:
    norm_eps: added to the variance.
    theta: base of the rotary positions.
  """

  vocab_size: int = 30528
  hidden_size: int = 768
  num_layers: int = 12
  num_heads: int = 12
  intermediate_size: int = 3072
  max_positions: int = 2048
  type_vocab_size: int = 2
  hidden_act: str = 'silu'
  norm_eps: float = 1e-12
  theta: float = 1000.0
  model_type: str = 'nomic_bert'

  architecture: ClassVar[str] = 'nomic_bert'

  def __post_init__(self):
    """Checks ranges.

    Raises:
      ValueError: names the field and its value.
    """
    super().__post_init__()
    if self.type_vocab_size < 1:
      raise ValueError(f'type_vocab_size={self.type_vocab_size} must be at '
                       'least 1')
    if self.theta <= 0:
      raise ValueError(f'theta={self.theta} must be above 0')


NOMIC_BERT_SIZES = {'nomic-bert': NomicBertConfig()}


class NomicBert(nn.Module):
  """Hidden states of packed sequences: a BERT whose positions turn features.

  Attributes:
    config: shapes and constants.
    dtype: see `bert.Bert`.
    remat: see `bert.Bert`.
    scan_unroll: see `bert.Bert`.
    operand_dtype: see `bert.Bert`.
    attention: see `bert.Bert`.
    by_row: see `bert.Bert`.
  """

  config: NomicBertConfig
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
      token_types: `[rows, length] int32`, below `type_vocab_size`; None: 0
        throughout.

    Raises:
      ValueError: dropout of attention probabilities, which `attention` lacks.
    """
    c = self.config
    layers.check_dropout(
        self.attention, c.attention_dropout, deterministic
    )
    hidden = _Embeddings(c, deterministic, name='embeddings')(
        token_ids, token_types
    )
    stack = nn.scan(
        layers.rematerialize(_Layer, self.remat),
        variable_axes={'params': 0},
        split_rngs={'params': True, 'dropout': True},
        in_axes=nn.broadcast,
        length=c.num_layers,
        unroll=self.scan_unroll,
    )(
        c, self.dtype, self.operand_dtype or self.dtype, deterministic,
        self.attention, self.by_row and not deterministic, name='layers',
    )
    hidden, _ = stack(
        hidden.astype(self.dtype), segment_ids, positions,
        jnp.asarray(rotary.rates(c.theta, c.head_features)),
    )
    return hidden


class _Embeddings(nn.Module):
  config: NomicBertConfig
  deterministic: bool

  @nn.compact
  def __call__(self, token_ids, token_types):
    c = self.config
    embed = functools.partial(
        nn.Embed, features=c.hidden_size,
        embedding_init=nn.initializers.normal(c.initializer_range),
    )
    if token_types is None:
      token_types = jnp.zeros((1, 1), jnp.int32)
    hidden = embed(c.vocab_size, name='word')(token_ids)
    hidden += embed(c.type_vocab_size, name='token_type')(token_types)
    hidden = _norm(c, 'norm')(hidden)
    return layers.Dropout(c.hidden_dropout, self.deterministic)(hidden)


class _Layer(nn.Module):
  config: NomicBertConfig
  dtype: Any
  operand_dtype: Any
  deterministic: bool
  attention: flash_attention.Attention | None
  by_row: bool

  @nn.compact
  def __call__(self, hidden, segment_ids, positions, rates):
    c = self.config
    dense = functools.partial(
        layers.Dense, dtype=self.dtype, operand_dtype=self.operand_dtype,
        deviation=c.initializer_range, use_bias=False,
    )
    drop = functools.partial(
        layers.Dropout, c.hidden_dropout, self.deterministic
    )
    update = rotary_layers.SelfAttention(
        c, self.dtype, self.operand_dtype, self.deterministic, self.attention,
        self.by_row, False, c.initializer_range, name='attention',
    )(hidden, segment_ids, positions, rates)
    hidden = _norm(c, 'attention_norm')(hidden + drop()(update))
    hidden = hidden.astype(self.dtype)
    inner = bert.ACTIVATIONS[c.hidden_act](
        dense(c.intermediate_size, name='gate')(hidden)
    ) * dense(c.intermediate_size, name='intermediate')(hidden)
    update = dense(c.hidden_size, name='output')(inner)
    hidden = _norm(c, 'output_norm')(hidden + drop()(update))
    return hidden.astype(self.dtype), None


def _norm(c, name):
  return nn.LayerNorm(
      c.norm_eps, dtype=jnp.float32, use_fast_variance=False, name=name
  )
