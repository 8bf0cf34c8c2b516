"""The cross-encoder: one score of query and passage together. Pure.

    s(x, y) = w^T E_1(x, y) + b

Zhang and Stratos, "Understanding Hard Negatives in Noise Contrastive
Estimation", 2021, section 6.2 (JOINT): E_1 is the hidden state of [CLS] of
`[CLS] x [SEP] y [SEP]`. Token types are 1 from y on, as in BERT's own training
on pairs and in the paper's code. Before w that code, as transformers'
BertForSequenceClassification, has BERT's pooler, a linear layer and tanh, which
the equation has not: here it is there only where weights bring it, with what
other families have in its place.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from neg_contrast.batches import packed
from neg_contrast.models import layers, pooling, projections, transformer
from neg_contrast.models import shape as shape_lib


@dataclasses.dataclass(frozen=True)
class CrossEncoderSpec:
  """Shapes and layers of a cross-encoder.

  Attributes:
    transformer: shapes and constants; with one row of token types, all tokens
      have it.
    pooler: a square linear layer before the score.
    pooling: of the tokens of a pair, a key of `pooling.POOLINGS`.
    bias: whether the pooler has one.
    activation: after it, a key of `projections.ACTIVATIONS`.
    norm_eps: of a layer normalisation after that; None: there is none.
  """

  transformer: shape_lib.Shape
  pooler: bool = False
  pooling: str = 'cls'
  bias: bool = True
  activation: str = 'tanh'
  norm_eps: float | None = None

  def to_json(self) -> dict[str, Any]:
    """Plain values; of what is usual, none but the first two."""
    return {transformer.KEY: transformer.to_json(self.transformer),
            'pooler': self.pooler} | {
                field.name: getattr(self, field.name)
                for field in dataclasses.fields(self)[2:]
                if getattr(self, field.name) != field.default}

  @classmethod
  def from_json(cls, values: Mapping[str, Any]) -> 'CrossEncoderSpec':
    """The inverse of `to_json`."""
    values = dict(values)
    shape = transformer.from_json(values.pop(transformer.KEY))
    return cls(shape, **values)


class CrossEncoder(nn.Module):
  """Packed pairs to scores.

  Attributes:
    spec: shapes and layers.
    dtype: of the transformer's activations; the rest is float32.
    remat: see `bert.Bert`.
    scan_unroll: see `bert.Bert`.
    operand_dtype: see `bert.Bert`.
    by_row: see `bert.Bert`.
  """

  spec: CrossEncoderSpec
  dtype: Any = jnp.float32
  remat: str = 'none'
  scan_unroll: int = 1
  operand_dtype: Any = None
  by_row: bool = False

  @property
  def features(self) -> int:
    """Of a pair: its score."""
    return 1

  @nn.compact
  def __call__(
      self, sequences: packed.PackedSequences, deterministic: bool
  ) -> Float[Array, 'slots 1']:
    """Scores one group of pairs.

    Args:
      sequences: packed pairs, with token types, without a group axis.
      deterministic: whether dropout is off; it comes before the score too, as
        in BertForSequenceClassification.

    Returns:
      `[slots, 1] float32`; empty slots hold something finite.
    """
    shape = self.spec.transformer
    hidden = transformer.make(
        shape, name=transformer.KEY, dtype=self.dtype, remat=self.remat,
        scan_unroll=self.scan_unroll, operand_dtype=self.operand_dtype,
        by_row=self.by_row,
    )(
        sequences.token_ids, sequences.segment_ids, sequences.positions,
        deterministic,
        sequences.token_types if shape.type_vocab_size > 1 else None,
    )
    spec = self.spec
    pooled = pooling.POOLINGS[spec.pooling].pool(
        hidden.reshape(-1, hidden.shape[-1]), sequences)
    if spec.pooler:
      pooled = _dense(shape, shape.hidden_size, 'pooler', spec.bias)(pooled)
      pooled = projections.ACTIVATIONS[spec.activation].apply(pooled)
    if spec.norm_eps is not None:
      pooled = nn.LayerNorm(
          spec.norm_eps, use_bias=False, name='head_norm')(pooled)
    pooled = layers.Dropout(shape.hidden_dropout, deterministic)(pooled)
    return _dense(shape, 1, 'score')(pooled)


def init_params(spec: CrossEncoderSpec, key: jax.Array) -> Any:
  """Random weights."""
  tokens = jnp.zeros((1, 4), jnp.int32)
  sequences = packed.PackedSequences(
      tokens, tokens, tokens, jnp.zeros((1,), jnp.int32), tokens
  )
  return CrossEncoder(spec).init(key, sequences, True)['params']


def init_score(spec: CrossEncoderSpec, key: jax.Array) -> dict[str, Array]:
  """Random w and zero b."""
  init = nn.initializers.normal(spec.transformer.initializer_range)
  return {'kernel': init(key, (spec.transformer.hidden_size, 1)),
          'bias': jnp.zeros(1)}


def _dense(shape, features, name, bias=True):
  return nn.Dense(
      features, bias, precision=jax.lax.Precision.HIGHEST,
      kernel_init=nn.initializers.normal(shape.initializer_range), name=name,
  )
