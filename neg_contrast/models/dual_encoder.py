"""The dual encoder: transformer, pooling, projection, length 1. Pure.

A text has one vector, or several for a score function that compares more than
one, side by side in a row of features (see `scoring`).
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from neg_contrast import scoring
from neg_contrast.batches import packed
from neg_contrast.data.side_features import feature_kinds, side_feature
from neg_contrast.models import (
  feature_layers,
  flash_attention,
  layers,
  pooling,
  transformer,
)
from neg_contrast.models import projections as projections_lib
from neg_contrast.models import shape as shape_lib

_CODES_RANGE = 0.02  # Standard deviation of new codes, as of BERT's weights.


@dataclasses.dataclass(frozen=True)
class EncoderSpec:
  """Shapes and layers of an encoder tower.

  Attributes:
    transformer: shapes and constants of the transformer.
    pooling: a key of `pooling.POOLINGS`, over all tokens of the sequence,
      [CLS] and [SEP] included.
    projections: linear layers after pooling, one after the other.
    normalize: l2-normalise the result.
    shared: one tower for both roles.
    score: of a query and a passage; says how many vectors each has.
    side_features: beside text, whose embeddings are added after pooling.
  """

  transformer: shape_lib.Shape
  pooling: str = 'cls'
  projections: tuple[projections_lib.Projection, ...] = ()
  normalize: bool = True
  shared: bool = True
  score: scoring.ScoreFunction = scoring.DUAL
  side_features: tuple[side_feature.SideFeature, ...] = ()

  def __post_init__(self):
    """Checks names, and what goes together.

    Raises:
      ValueError: an unknown pooling; several vectors of pooled texts or of
        those with features, or codes in a tower that passages share.
    """
    if self.pooling not in pooling.POOLINGS:
      raise ValueError(f'pooling={self.pooling!r} is not one of '
                       + ', '.join(pooling.POOLINGS))
    if not self.score.is_dot and self.pooling != 'cls':
      raise ValueError(
          f'pooling={self.pooling!r} leaves one vector of a text, and its '
          'score compares several; choose pooling=cls'
      )
    if not self.score.is_dot and self.side_features:
      raise ValueError(
          'features are added to the one vector of a text, and its score '
          'compares several; choose score=dual'
      )
    if self.score.codes and self.shared:
      raise ValueError(
          'the codes of a poly-encoder belong to a tower of queries; choose '
          'shared=False'
      )

  @property
  def projection_dim(self) -> int | None:
    """Features of the last projection; None: there is none."""
    return self.projections[-1].features if self.projections else None

  @property
  def dim(self) -> int:
    """Features of a vector."""
    return self.projection_dim or self.transformer.hidden_size

  def features(self, role: str) -> int:
    """Features of all vectors of a text of `query`, `passage` or `shared`."""
    return self.dim * self.score.vectors(role)

  def to_json(self) -> dict[str, Any]:
    """Plain values."""
    values = dataclasses.asdict(self)
    del values['transformer']
    if len(self.projections) < 2:  # As it was before there were several.
      del values['projections']
      values |= _single_to_json(self.projections)
    values[transformer.KEY] = transformer.to_json(self.transformer)
    if self.score == scoring.DUAL:  # As it was before there were others.
      del values['score']
    del values['side_features']
    if self.side_features:
      values['side_features'] = [one.to_json() for one in self.side_features]
    return values

  @classmethod
  def from_json(cls, values: Mapping[str, Any]) -> 'EncoderSpec':
    """The inverse of `to_json`.

    Raises:
      KeyError: a key is missing.
      TypeError: one is not of its type.
      ValueError: one is out of range.
    """
    values = dict(values)
    listed = values.pop('projections', None)
    if listed is None:
      listed = _single_from_json(values)
    projections = tuple(projections_lib.Projection(**one) for one in listed)
    score = scoring.ScoreFunction(**values.pop('score', {}))
    features = tuple(map(
        feature_kinds.from_json, values.pop('side_features', ())
    ))
    shape = transformer.from_json(values.pop(transformer.KEY))
    return cls(
        transformer=shape, score=score, projections=projections,
        side_features=features, **values
    )


def _single_to_json(
    projections: tuple[projections_lib.Projection, ...]
) -> dict[str, Any]:
  one = projections[0] if projections else None
  return {
      'projection_dim': one and one.features,
      'projection_bias': one.bias if one else True,
      'projection_activation': one.activation if one else 'identity',
  }


def _single_from_json(values: dict[str, Any]) -> list[dict[str, Any]]:
  """Takes the keys of one projection out of the others."""
  features, bias, activation = (
      values.pop(f'projection_{key}', default) for key, default in
      (('dim', None), ('bias', True), ('activation', 'identity'))
  )
  if not features:
    return []
  return [{'features': features, 'bias': bias, 'activation': activation}]


class Encoder(nn.Module):
  """One tower: packed sequences to embeddings.

  Attributes:
    spec: shapes and layers.
    role: of the texts, `query` or `passage`; `shared`: of both, each of which
      has as many vectors as the role with more of them.
    dtype: of the transformer's activations; the rest is float32.
    remat: see `bert.Bert`.
    scan_unroll: see `bert.Bert`.
    operand_dtype: see `bert.Bert`.
    attention: see `bert.Bert`.
    by_row: see `bert.Bert`.
  """

  spec: EncoderSpec
  role: str = 'shared'
  dtype: Any = jnp.float32
  remat: str = 'none'
  scan_unroll: int = 1
  operand_dtype: Any = None
  attention: flash_attention.Attention | None = None
  by_row: bool = False

  @property
  def features(self) -> int:
    """Of a text."""
    return self.spec.features(self.role)

  @nn.compact
  def __call__(
      self, sequences: packed.PackedSequences, deterministic: bool
  ) -> Float[Array, 'slots features']:
    """Encodes one group.

    Args:
      sequences: packed input without a group axis.
      deterministic: whether dropout is off.

    Returns:
      `[slots, features] float32`, with several vectors of a text side by side
      and zeros for those that a short one lacks. Empty slots hold something
      finite.
    """
    spec = self.spec
    has_codes = spec.score.codes and self.role == 'query'
    count = spec.score.vectors(self.role)
    hidden = transformer.make(
        spec.transformer, name=transformer.KEY, dtype=self.dtype,
        remat=self.remat, scan_unroll=self.scan_unroll,
        operand_dtype=self.operand_dtype, attention=self.attention,
        by_row=self.by_row,
    )(
        sequences.token_ids, sequences.segment_ids, sequences.positions,
        deterministic,
    )
    row_length = hidden.shape[1]
    hidden = hidden.reshape(-1, hidden.shape[-1])
    if has_codes or not spec.score.is_dot:
      vecs, exists = leftmost(
          hidden, sequences, row_length if has_codes else count
      )
      vecs = vecs.astype(jnp.float32)
    else:
      vecs = pooling.POOLINGS[spec.pooling].pool(hidden, sequences)
    if spec.side_features:
      vecs = vecs + feature_layers.FeatureLayers(
          spec.side_features, spec.transformer.hidden_size,
          spec.transformer.initializer_range, name=feature_layers.KEY,
      )(sequences.side_features)
    vecs = projections_lib.apply(
        spec.projections, vecs, spec.transformer.initializer_range
    )
    if has_codes:
      codes = self.param(
          'codes', nn.initializers.normal(_CODES_RANGE), (count, spec.dim)
      )
      vecs, exists = reduce_to_codes(vecs, exists, codes)
    vecs = l2_normalize(vecs) if spec.normalize else vecs
    if vecs.ndim == 3:
      vecs = jnp.where(exists[..., None], vecs, 0).reshape(len(vecs), -1)
    return vecs


def leftmost(
    hidden: Float[Array, 'tokens features'],
    sequences: packed.PackedSequences,
    count: int,
) -> tuple[Float[Array, 'slots count features'], Bool[Array, 'slots count']]:
  """The first tokens of every slot, and which of them there are.

  Args:
    hidden: of the tokens of all rows.
    sequences: where the slots are, without a group axis.
    count: tokens wanted of each.
  """
  slots = sequences.first_index.shape[0]
  segments = jnp.asarray(sequences.segment_ids).reshape(-1)
  at = sequences.first_index[:, None] + jnp.arange(count)
  at = jnp.minimum(at, len(segments) - 1)
  exists = segments[at] == jnp.arange(1, slots + 1)[:, None]
  # A slot's tokens stand side by side, so that a later one can't be its own
  # unless all before are; the last token of all may be met again and again.
  exists &= jnp.arange(count) < (len(segments) - sequences.first_index)[:, None]
  return hidden[at], exists


def reduce_to_codes(
    vecs: Float[Array, 'slots tokens features'],
    exists: Bool[Array, 'slots tokens'],
    codes: Float[Array, 'codes features'],
) -> tuple[Float[Array, 'slots codes features'], Bool[Array, 'slots codes']]:
  """Averages of a text's vectors by attention to learned codes.

  `K = E Soft(E^T O)`, Zhang and Stratos, section 4.2, for codes O.

  Args:
    vecs: of tokens.
    exists: which of them there are.
    codes: O.

  Returns:
    One vector a code; none for an empty text.
  """
  logits = jnp.einsum(
      'std,cd->sct', vecs, codes, precision=jax.lax.Precision.HIGHEST
  )
  weights = jax.nn.softmax(
      jnp.where(exists[:, None, :], logits, -1e30), axis=-1
  )
  reduced = jnp.einsum(
      'sct,std->scd', weights, vecs, precision=jax.lax.Precision.HIGHEST
  )
  return reduced, jnp.broadcast_to(
      exists.any(1, keepdims=True), reduced.shape[:2]
  )


def l2_normalize(
    vecs: Float[Array, '*batch features'],
) -> Float[Array, '*batch features']:
  """Vectors of length 1; zero vectors stay zero, with finite gradients."""
  squares = jnp.sum(jnp.square(vecs), axis=-1, keepdims=True)
  return vecs * jax.lax.rsqrt(jnp.maximum(squares, 1e-24))


def encode(
    encoder: nn.Module,
    tower_params: Any,
    sequences: packed.PackedSequences,
    dropout_key: jax.Array | None,
    numbers: Int[Array, ' groups'] | None = None,
) -> Float[Array, 'groups slots features']:
  """Encodes every group by itself.

  The dropout key of a group is `fold_in(dropout_key, group)`, so its mask
  depends neither on the other groups nor on the mesh.

  Args:
    encoder: an `Encoder`, or another module that makes features of slots.
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
  return layers.each_group(of_group, numbers, sequences)


def init_codes(spec: EncoderSpec, key: jax.Array) -> Array:
  """Random codes of the tower of queries, `[codes, features] float32`."""
  shape = spec.score.query_vectors, spec.dim
  return _CODES_RANGE * jax.random.normal(key, shape)


def tower(params: Mapping[str, Any], role: str) -> Any:
  """The parameters of the `query` or `passage` tower."""
  return params['shared'] if 'shared' in params else params[role]


def init_params(spec: EncoderSpec, key: jax.Array) -> dict[str, Any]:
  """Random towers: `shared`, or `query` and `passage`."""
  tokens = jnp.zeros((1, 4), jnp.int32)
  sequences = packed.PackedSequences(
      tokens, tokens, tokens, jnp.zeros((1,), jnp.int32),
      side_features=feature_layers.blank(spec.side_features, 1),
  )
  names = ('shared',) if spec.shared else ('query', 'passage')
  return {
      name: Encoder(spec, name).init(
          jax.random.fold_in(key, number), sequences, True
      )['params']
      for number, name in enumerate(names)
  }


def init_projection(spec: EncoderSpec, key: jax.Array) -> dict[str, Any]:
  """Random weights of the projections alone, by their names in a tower.

  Raises:
    ValueError: the spec has none.
  """
  if not spec.projections:
    raise ValueError('the encoder has no projection')
  shape = spec.transformer
  return projections_lib.init_params(
      spec.projections, shape.hidden_size, shape.initializer_range, key
  )


def init_features(spec: EncoderSpec, key: jax.Array) -> dict[str, Any]:
  """Random weights of the layers of `side_features`, by name in each tower."""
  shape = spec.transformer
  names = ('shared',) if spec.shared else ('query', 'passage')
  return {
      name: {feature_layers.KEY: feature_layers.init_params(
          spec.side_features, shape.hidden_size, shape.initializer_range,
          jax.random.fold_in(key, number),
      )} for number, name in enumerate(names)
  }
