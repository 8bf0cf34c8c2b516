"""The dual encoder: BERT, pooling, projection, normalisation. Pure."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from neg_contrast.models import bert, packed

_ACTIVATIONS = {'identity': lambda x: x, 'tanh': jnp.tanh}
POOLINGS = ('cls', 'mean')


@dataclasses.dataclass(frozen=True)
class EncoderSpec:
  """Shapes and layers of an encoder tower.

  Attributes:
    bert: of the transformer.
    pooling: `cls` (hidden state of the first token) or `mean` (over all tokens
      of the sequence, [CLS] and [SEP] included).
    projection_dim: features of a linear layer after pooling; None: no layer.
    projection_bias: whether that layer has a bias.
    projection_activation: after it, `identity` or `tanh`.
    normalize: l2-normalise the result.
    shared: one tower for both roles.
  """

  bert: bert.BertConfig
  pooling: str = 'cls'
  projection_dim: int | None = None
  projection_bias: bool = True
  projection_activation: str = 'identity'
  normalize: bool = True
  shared: bool = True

  def __post_init__(self):
    """Checks names.

    Raises:
      ValueError: an unknown pooling or activation.
    """
    if self.pooling not in POOLINGS:
      raise ValueError(f'pooling={self.pooling!r} is not one of {POOLINGS}')
    if self.projection_activation not in _ACTIVATIONS:
      raise ValueError(
          f'projection_activation={self.projection_activation!r} is not one of '
          f'{tuple(_ACTIVATIONS)}'
      )

  @property
  def dim(self) -> int:
    """Features of an embedding."""
    return self.projection_dim or self.bert.hidden_size

  def to_json(self) -> dict[str, Any]:
    """Plain values."""
    return dataclasses.asdict(self)

  @classmethod
  def from_json(cls, values: Mapping[str, Any]) -> 'EncoderSpec':
    """The inverse of `to_json`."""
    values = dict(values)
    return cls(bert=bert.BertConfig(**values.pop('bert')), **values)


class Encoder(nn.Module):
  """One tower: packed sequences to embeddings.

  Attributes:
    spec: shapes and layers.
    dtype: of the transformer's activations; the rest is float32.
    remat: see `bert.Bert`.
    scan_unroll: see `bert.Bert`.
    operand_dtype: see `bert.Bert`.
    by_row: see `bert.Bert`.
  """

  spec: EncoderSpec
  dtype: Any = jnp.float32
  remat: str = 'none'
  scan_unroll: int = 1
  operand_dtype: Any = None
  by_row: bool = False

  @nn.compact
  def __call__(
      self, sequences: packed.PackedSequences, deterministic: bool
  ) -> Float[Array, 'slots features']:
    """Encodes one group.

    Args:
      sequences: packed input without a group axis.
      deterministic: whether dropout is off.

    Returns:
      `[slots, features] float32`. Empty slots hold something finite.
    """
    spec = self.spec
    hidden = bert.Bert(
        spec.bert, self.dtype, self.remat, self.scan_unroll,
        self.operand_dtype, self.by_row, name='bert',
    )(
        sequences.token_ids, sequences.segment_ids, sequences.positions,
        deterministic,
    )
    hidden = hidden.reshape(-1, hidden.shape[-1])
    if spec.pooling == 'cls':
      vecs = hidden[sequences.first_index].astype(jnp.float32)
    else:
      vecs = mean_pool(
          hidden, sequences.segment_ids.reshape(-1),
          sequences.first_index.shape[0],
      )
    if spec.projection_dim:
      vecs = nn.Dense(
          spec.projection_dim,
          use_bias=spec.projection_bias,
          precision=jax.lax.Precision.HIGHEST,
          kernel_init=nn.initializers.normal(spec.bert.initializer_range),
          name='projection',
      )(vecs)
      vecs = _ACTIVATIONS[spec.projection_activation](vecs)
    return l2_normalize(vecs) if spec.normalize else vecs


def mean_pool(
    hidden: Float[Array, 'tokens features'],
    segment_ids: Int[packed.AnyArray, ' tokens'],
    slots: int,
) -> Float[Array, 'slots features']:
  """Mean over the tokens of each slot, summed in float32; zeros if empty.

  A product with a one-hot matrix: `slots * tokens * features` multiply-adds,
  under 1% of the transformer's.
  """
  membership = segment_ids[None, :] == jnp.arange(1, slots + 1)[:, None]
  totals = jnp.einsum(
      'st,tf->sf',
      membership.astype(hidden.dtype),
      hidden,
      preferred_element_type=jnp.float32,
  )
  counts = membership.sum(axis=1, keepdims=True)
  return totals / jnp.maximum(counts, 1)


def l2_normalize(
    vecs: Float[Array, '*batch features'],
) -> Float[Array, '*batch features']:
  """Vectors of length 1; zero vectors stay zero, with finite gradients."""
  squares = jnp.sum(jnp.square(vecs), axis=-1, keepdims=True)
  return vecs * jax.lax.rsqrt(jnp.maximum(squares, 1e-24))


def encode(
    encoder: Encoder,
    tower_params: Any,
    sequences: packed.PackedSequences,
    dropout_key: jax.Array | None,
    numbers: Int[Array, ' groups'] | None = None,
) -> Float[Array, 'groups slots features']:
  """Encodes every group by itself.

  The dropout key of a group is `fold_in(dropout_key, group)`, so its mask
  depends neither on the other groups nor on the mesh.

  Args:
    encoder: the module.
    tower_params: its parameters.
    sequences: packed input with a leading `groups` axis.
    dropout_key: None: no dropout.
    numbers: `[groups] int32`, those of the groups in the batch; None: they are
      the whole batch.

  Returns:
    `[groups, slots, features] float32`.
  """

  def of_group(group, sequences):
    rngs = {}
    if dropout_key is not None:
      rngs['dropout'] = jax.random.fold_in(dropout_key, group)
    return encoder.apply(
        {'params': tower_params}, sequences, dropout_key is None, rngs=rngs
    )

  if numbers is None:
    numbers = jnp.arange(sequences.token_ids.shape[0])
  return jax.vmap(of_group)(numbers, sequences)


def tower(params: Mapping[str, Any], role: str) -> Any:
  """The parameters of the `query` or `passage` tower."""
  return params['shared'] if 'shared' in params else params[role]


def init_params(spec: EncoderSpec, key: jax.Array) -> dict[str, Any]:
  """Random towers: `shared`, or `query` and `passage`."""
  tokens = jnp.zeros((1, 4), jnp.int32)
  sequences = packed.PackedSequences(
      tokens, tokens, tokens, jnp.zeros((1,), jnp.int32)
  )
  names = ('shared',) if spec.shared else ('query', 'passage')
  return {
      name: Encoder(spec).init(
          jax.random.fold_in(key, number), sequences, True
      )['params']
      for number, name in enumerate(names)
  }


def init_projection(spec: EncoderSpec, key: jax.Array) -> dict[str, Array]:
  """Random weights of the projection layer alone.

  Raises:
    ValueError: the spec has none.
  """
  if not spec.projection_dim:
    raise ValueError('the encoder has no projection')
  shape = (spec.bert.hidden_size, spec.projection_dim)
  init = nn.initializers.normal(spec.bert.initializer_range)
  projection = {'kernel': init(key, shape)}
  if spec.projection_bias:
    projection['bias'] = jnp.zeros(spec.projection_dim)
  return projection
