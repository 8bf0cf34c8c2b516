"""The encoder of a T5 as a tower, over packed rows. Pure.

Ni et al., 2021, "Sentence-T5" and "Large Dual Encoders Are Generalizable
Retrievers" (GTR), as transformers' T5EncoderModel.
"""

import dataclasses
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from neg_contrast.batches import packed
from neg_contrast.models import (
  flash_attention,
  shape,
  t5_config,
  t5_layers,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class T5EncoderConfig(shape.Shape):
  """Shapes and constants of a T5's encoder; defaults are those of t5-base.

  Attributes:
    max_positions: tokens of the longest text that it is meant for; relative
      positions have no end.
    hidden_dropout: rate on embeddings, inside and after each block.
    attention_dropout: rate on attention probabilities; a T5 has one rate.
    head_dim: features of an attention head.
    relative_buckets: see `t5_config.T5Config`.
    relative_max_distance: see `t5_config.T5Config`.
    norm_eps: added to the mean square.
    gated: see `t5_config.T5Config`.
    hidden_act: a key of `bert.ACTIVATIONS`.
    initializer_range: `initializer_factor` of a T5.
  """

  vocab_size: int = 32128
  hidden_size: int = 768
  num_layers: int = 12
  num_heads: int = 12
  intermediate_size: int = 3072
  max_positions: int = 512
  hidden_dropout: float = 0.1
  attention_dropout: float = 0.1
  head_dim: int = 64
  relative_buckets: int = 32
  relative_max_distance: int = 128
  norm_eps: float = 1e-6
  gated: bool = False
  hidden_act: str = 'relu'
  initializer_range: float = 1.0
  model_type: str = 't5_encoder'

  architecture: ClassVar[str] = 't5_encoder'
  kernel_problem: ClassVar[str | None] = (
      'a T5 adds relative positions to the scores of attention, and the '
      'kernels do not'
  )

  def __post_init__(self):
    """Checks ranges.

    Raises:
      ValueError: names the field and its value.
    """
    super().__post_init__()
    _ = self.t5  # Has ranges too.

  @property
  def t5(self) -> t5_config.T5Config:
    """As a T5 has them."""
    return _Encoder(
        vocab_size=self.vocab_size, d_model=self.hidden_size,
        d_kv=self.head_dim, d_ff=self.intermediate_size,
        num_layers=self.num_layers, num_heads=self.num_heads,
        relative_buckets=self.relative_buckets,
        relative_max_distance=self.relative_max_distance,
        dropout=self.hidden_dropout, layer_norm_eps=self.norm_eps,
        attention_dropout=self.attention_dropout,
        gated=self.gated, activation=self.hidden_act,
        initializer_factor=self.initializer_range, eos_id=0,
    )

  @property
  def head_features(self) -> int:
    """Features of an attention head."""
    return self.head_dim

  @property
  def even_row_length(self) -> int:
    """Tokens of a row whose attention costs as much as its dense products."""
    return self.t5.even_row_length

  def flops(
      self, lengths: Float[np.ndarray, ' sequences']
  ) -> Float[np.ndarray, ' sequences']:
    """Operations of a forward pass over sequences that attend to themselves."""
    inner = self.num_heads * self.head_dim
    feed = (3 if self.gated else 2) * self.intermediate_size
    weights = self.hidden_size * (4 * inner + feed)
    return self.num_layers * (
        2 * weights * lengths + 4 * inner * lengths**2
    )


@dataclasses.dataclass(frozen=True)
class _Encoder(t5_config.T5Config):
  attention_dropout: float = 0.1

  @property
  def attention_rate(self) -> float:
    """Of dropout of attention probabilities."""
    return self.attention_dropout


def of_t5(config: t5_config.T5Config) -> T5EncoderConfig:
  """The encoder of a T5."""
  return T5EncoderConfig(
      vocab_size=config.vocab_size, hidden_size=config.d_model,
      num_layers=config.num_layers, num_heads=config.num_heads,
      intermediate_size=config.d_ff, hidden_dropout=config.dropout,
      attention_dropout=config.dropout, head_dim=config.d_kv,
      relative_buckets=config.relative_buckets,
      relative_max_distance=config.relative_max_distance,
      norm_eps=config.layer_norm_eps, gated=config.gated,
      hidden_act=config.activation,
      initializer_range=config.initializer_factor,
  )


T5_ENCODER_SIZES = {
    name: of_t5(size) for name, size in t5_config.T5_SIZES.items()
}


class T5Encoder(nn.Module):
  """Hidden states of packed sequences.

  Attributes:
    config: shapes and constants.
    dtype: see `bert.Bert`.
    remat: see `bert.Bert`.
    scan_unroll: see `bert.Bert`.
    operand_dtype: of matrix products, where it is another than `dtype`.
    attention: None: no kernel has relative positions.
    by_row: is ignored: attention is computed at once.
  """

  config: T5EncoderConfig
  dtype: Any = jnp.float32
  remat: str = 'none'
  scan_unroll: int = 1
  operand_dtype: Any = None
  attention: flash_attention.Attention | None = None
  by_row: bool = False

  def setup(self):
    """Names the parts; those of the stack are the tower's own."""
    c = self.config.t5
    self.embeddings = t5_layers.Embeddings(c)
    self.stack = t5_layers.Stack(
        c, self.dtype, self.remat, self.scan_unroll, c.num_layers,
        is_decoder=False, operand_dtype=self.operand_dtype,
    )
    nn.share_scope(self, self.stack)

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
        row with its own id, which stand side by side.
      positions: not read: a text's distances are those in its row.
      deterministic: whether dropout is off; else a `dropout` rng is needed.
      token_types: None: there are none.

    Raises:
      ValueError: token types, or a kernel, are given.
    """
    del positions
    if self.attention:
      raise ValueError(self.config.kernel_problem)
    if token_types is not None:
      raise ValueError('a T5 has no token types')
    mask = t5_layers.as_bias(t5_layers.same_segment(segment_ids, segment_ids))
    return self.stack(
        self.embeddings(token_ids), mask, None, None, deterministic
    ).astype(self.dtype)
