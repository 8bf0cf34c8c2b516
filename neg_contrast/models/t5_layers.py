"""The layers of a T5: attention and feed-forward blocks. Pure.

No layer has a bias, scores of attention are not scaled, and norms stand before
their blocks.
"""

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from neg_contrast.batches import packed
from neg_contrast.models import bert, layers, relative_positions, t5_config

_FAR = -1e30


class Embeddings(nn.Module):
  """The word embeddings, which may be the output matrix too."""

  config: t5_config.T5Config

  def setup(self):
    """Names the table."""
    c = self.config
    self.word = nn.Embed(
        c.vocab_size, c.d_model,
        embedding_init=nn.initializers.normal(c.initializer_factor),
    )

  def __call__(self, token_ids):
    """`[..., features]` of `[...]` token ids."""
    return self.word(jnp.asarray(token_ids))

  def attend(self, hidden):
    """`[..., vocab] float32` logits of `[..., features]`."""
    return jnp.einsum(
        '...d,vd->...v',
        hidden,
        self.word.embedding.astype(hidden.dtype),
        preferred_element_type=jnp.float32,
    )


class Stack(nn.Module):
  """The layers of the encoder or of the decoder."""

  config: t5_config.T5Config
  dtype: Any
  remat: str
  scan_unroll: int
  layers: int
  is_decoder: bool
  operand_dtype: Any = None

  @nn.compact
  def __call__(self, hidden, mask, source, source_mask, deterministic):
    """Hidden states after all layers and the last norm.

    Args:
      hidden: `[rows, length, features]`, embeddings.
      mask: `[rows, 1, length, length] float32`, added to scores.
      source: `[rows, source, features]` of the encoder; for a decoder.
      source_mask: `[rows, 1, length, source] float32`; for a decoder.
      deterministic: whether dropout is off.
    """
    c = self.config
    table = nn.Embed(
        c.relative_buckets, c.num_heads, name='relative_bias',
        embedding_init=nn.initializers.normal(deviation(c, c.d_model)),
    )
    bias = relative_positions.bias(
        table, hidden.shape[1], c.relative_buckets, c.relative_max_distance,
        self.is_decoder,
    )
    drop = functools.partial(layers.Dropout, c.dropout, deterministic)
    stack = nn.scan(
        layers.rematerialize(Layer, self.remat),
        variable_axes={'params': 0},
        split_rngs={'params': True, 'dropout': True},
        in_axes=nn.broadcast,
        length=self.layers,
        unroll=self.scan_unroll,
    )(c, self.dtype, self.is_decoder, deterministic, self.operand_dtype,
      name='layers')
    hidden = drop()(hidden).astype(self.dtype)
    hidden, _ = stack(hidden, bias, mask, source, source_mask)
    return drop()(_Norm(c, self.dtype, name='norm')(hidden))


class Layer(nn.Module):
  """Self attention, cross attention in a decoder, and a feed-forward block."""

  config: t5_config.T5Config
  dtype: Any
  is_decoder: bool
  deterministic: bool
  operand_dtype: Any = None  # Of matrix products; None: `dtype`.

  def setup(self):
    """Names the parts."""
    c = self.config
    attention = functools.partial(
        _Attention, c, self.dtype, self.deterministic, self.operand_dtype
    )
    norm = functools.partial(_Norm, c, self.dtype)
    project = functools.partial(
        dense, dtype=self.dtype, operand_dtype=self.operand_dtype
    )
    widen = functools.partial(
        project, c.d_ff, init_deviation=deviation(c, c.d_model)
    )
    self.attention_norm, self.attention = norm(), attention()
    if self.is_decoder:
      self.cross_attention_norm, self.cross_attention = norm(), attention()
    self.feed_forward_norm = norm()
    self.intermediate = widen()
    if c.gated:
      self.gate = widen()
    self.output = project(c.d_model, init_deviation=deviation(c, c.d_ff))
    self.drop = layers.Dropout(c.dropout, self.deterministic)

  def __call__(self, hidden, bias, mask, source, source_mask):
    """Whole rows; arguments as of `Stack`, and `None` as `nn.scan` wants."""
    normed = self.attention_norm(hidden)
    update = self.attention(
        normed, *self.attention.keys_values(normed), bias, mask
    )
    hidden = hidden + self.drop(update)
    if self.is_decoder:
      hidden = hidden + self.drop(self.cross_attention(
          self.cross_attention_norm(hidden),
          *self.source_keys_values(source), source_mask,
      ))
    return self._feed_forward(hidden), None

  def source_keys_values(self, source):
    """Of cross attention, `[rows, heads, length, d_kv]` each."""
    return self.cross_attention.keys_values(source)

  def step(self, hidden, keys, values, number, index, bias, source_keys,
           source_values, source_mask):
    """One token of `[rows, width]` sequences; see `t5.T5.step`.

    `width` stands in the place of the sequence in cross attention, so that the
    keys of a source are read once, and among the rows in self attention. Caches
    are those of all layers: writing one token into them costs just that.
    """
    shape = keys.shape
    flat = lambda cache: cache.reshape(shape[0], -1, *shape[3:])
    normed = self.attention_norm(hidden).reshape(-1, 1, hidden.shape[-1])
    key, value = self.attention.keys_values(normed)
    place = (number, 0, 0, index, 0)
    keys = jax.lax.dynamic_update_slice(flat(keys), key[None], place)
    values = jax.lax.dynamic_update_slice(flat(values), value[None], place)
    update = self.attention(normed, keys[number], values[number], bias)
    hidden = hidden + update.reshape(hidden.shape)
    hidden = hidden + self.cross_attention(
        self.cross_attention_norm(hidden), source_keys, source_values,
        source_mask,
    )
    return (self._feed_forward(hidden), keys.reshape(shape),
            values.reshape(shape))

  def _feed_forward(self, hidden):
    c, normed = self.config, self.feed_forward_norm(hidden)
    activate = bert.ACTIVATIONS[c.activation]
    if c.gated:
      inner = activate(self.gate(normed)) * self.intermediate(normed)
    else:
      inner = activate(self.intermediate(normed))
    return hidden + self.drop(self.output(self.drop(inner)))


class _Attention(nn.Module):
  config: t5_config.T5Config
  dtype: Any
  deterministic: bool
  operand_dtype: Any = None

  def setup(self):
    c = self.config
    inner = c.num_heads * c.d_kv
    project = lambda features, init_deviation: dense(
        features, self.dtype, init_deviation, self.operand_dtype
    )
    # Small queries stand for the scores' missing scale.
    self.query = project(inner, deviation(c, c.d_model * c.d_kv))
    self.key = project(inner, deviation(c, c.d_model))
    self.value = project(inner, deviation(c, c.d_model))
    self.output = project(c.d_model, deviation(c, inner))
    self.drop = layers.Dropout(c.attention_rate, self.deterministic)

  def keys_values(self, source):
    return self._heads(self.key(source)), self._heads(self.value(source))

  def __call__(self, hidden, keys, values, *biases):
    mixed = layers.attend(
        self._heads(self.query(hidden)), keys, values, biases, self.drop
    )
    mixed = mixed.swapaxes(1, 2).reshape(*hidden.shape[:2], -1)
    return self.output(mixed)

  def _heads(self, x):
    c = self.config
    x = x.astype(self.operand_dtype or self.dtype)
    return x.reshape(*x.shape[:2], c.num_heads, c.d_kv).swapaxes(1, 2)


def rms_norm(
    hidden: Float[Array, '*batch features'],
    scale: Float[packed.AnyArray, ' features'],
    eps: float,
) -> Float[Array, '*batch features']:
  """`hidden * scale / sqrt(mean(hidden**2) + eps)`, in float32.

  Zhang and Sennrich, "Root Mean Square Layer Normalization".
  """
  hidden = hidden.astype(jnp.float32)
  squares = jnp.mean(jnp.square(hidden), axis=-1, keepdims=True)
  return hidden * jax.lax.rsqrt(squares + eps) * scale


class _Norm(nn.Module):
  config: t5_config.T5Config
  dtype: Any

  @nn.compact
  def __call__(self, hidden):
    c = self.config
    scale = self.param(
        'scale', nn.initializers.constant(c.initializer_factor),
        (hidden.shape[-1],),
    )
    return rms_norm(hidden, scale, c.layer_norm_eps).astype(self.dtype)


def deviation(c: t5_config.T5Config, features: int) -> float:
  """Standard deviation of the initial weights of a layer of `features`."""
  return c.initializer_factor * features**-0.5


def dense(
    features: int, dtype: Any, init_deviation: float, operand_dtype: Any = None
) -> layers.Dense:
  """A linear layer without bias; arguments are those of `layers.Dense`."""
  return layers.Dense(
      features, dtype, operand_dtype or dtype, init_deviation, use_bias=False
  )


def same_segment(
    ids: Int[packed.AnyArray, 'rows queries'],
    other_ids: Int[packed.AnyArray, 'rows keys'],
) -> Bool[Array, 'rows queries keys']:
  """Which pairs of tokens belong to one segment."""
  return jnp.asarray(ids)[:, :, None] == jnp.asarray(other_ids)[:, None, :]


def as_bias(
    is_seen: Bool[Array, 'rows queries keys'],
) -> Float[Array, 'rows 1 queries keys']:
  """A term for the scores of all heads: 0 where seen, else about -infinity."""
  return jnp.where(is_seen, 0.0, _FAR)[:, None]
