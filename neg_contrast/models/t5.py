"""T5 over packed rows, equal to the PyTorch reference.

Raffel et al., "Exploring the Limits of Transfer Learning with a Unified
Text-to-Text Transformer", and its version 1.1 with gated feed-forward blocks,
as in transformers' T5ForConditionalGeneration. No layer has a bias, scores of
attention are not scaled, and norms stand before their blocks.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from neg_contrast.batches import packed
from neg_contrast.models import bert, layers

_FAR = -1e30


@dataclasses.dataclass(frozen=True)
class T5Config:
  """Shapes and constants of a T5; defaults are those of t5-small.

  Attributes:
    vocab_size: rows of the embeddings, which encoder and decoder share.
    d_model: features of a token.
    d_kv: features of an attention head.
    d_ff: features inside the feed-forward blocks.
    num_layers: layers of the encoder.
    num_decoder_layers: layers of the decoder.
    num_heads: attention heads; `num_heads * d_kv` need not be `d_model`.
    relative_buckets: rows of a table of relative positions.
    relative_max_distance: from this distance on all share a bucket.
    dropout: rate on embeddings, attention weights, inside and after each block.
    layer_norm_eps: added to the mean square.
    gated: version 1.1, where a second projection multiplies the activation.
    activation: a key of `bert.ACTIVATIONS`; `gelu_new` is that of gated-gelu.
    tie_embeddings: whether the embeddings are the output matrix too.
    scale_head: whether the output is multiplied by `d_model**-0.5` before that
      matrix; None: as `tie_embeddings`, which holds for both versions.
    initializer_factor: of the standard deviations of random weights.
    pad_id: fills up generated sequences.
    eos_id: ends a sequence.
    decoder_start_id: what the decoder gets before the first token.
  """

  vocab_size: int = 32128
  d_model: int = 512
  d_kv: int = 64
  d_ff: int = 2048
  num_layers: int = 6
  num_decoder_layers: int = 6
  num_heads: int = 8
  relative_buckets: int = 32
  relative_max_distance: int = 128
  dropout: float = 0.1
  layer_norm_eps: float = 1e-6
  gated: bool = False
  activation: str = 'relu'
  tie_embeddings: bool = True
  scale_head: bool | None = None
  initializer_factor: float = 1.0
  pad_id: int = 0
  eos_id: int = 1
  decoder_start_id: int = 0

  def __post_init__(self):
    """Checks ranges.

    Raises:
      ValueError: names the field and its value.
    """
    for name in ('vocab_size', 'd_model', 'd_kv', 'd_ff', 'num_layers',
                 'num_decoder_layers', 'num_heads'):
      if getattr(self, name) < 1:
        raise ValueError(f'{name}={getattr(self, name)} must be at least 1')
    if self.relative_buckets < 4 or self.relative_buckets % 2:
      raise ValueError(f'relative_buckets={self.relative_buckets} must be even '
                       'and at least 4')
    if self.relative_max_distance <= self.relative_buckets // 2:
      raise ValueError(
          f'relative_max_distance={self.relative_max_distance} must be above '
          f'half of the relative buckets, {self.relative_buckets // 2}'
      )
    if not 0 <= self.dropout < 1:
      raise ValueError(f'dropout={self.dropout} must be at least 0 and below 1')
    for name in ('layer_norm_eps', 'initializer_factor'):
      if getattr(self, name) <= 0:
        raise ValueError(f'{name}={getattr(self, name)} must be above 0')
    if self.activation not in bert.ACTIVATIONS:
      raise ValueError(f'activation={self.activation!r} is not one of '
                       + ', '.join(bert.ACTIVATIONS))
    for name in ('pad_id', 'eos_id', 'decoder_start_id'):
      if not 0 <= getattr(self, name) < self.vocab_size:
        raise ValueError(f'{name}={getattr(self, name)} must be at least 0 and '
                         f'below the vocabulary of {self.vocab_size}')

  @property
  def is_head_scaled(self) -> bool:
    """`scale_head`, decided."""
    return self.tie_embeddings if self.scale_head is None else self.scale_head


_SMALL = T5Config()
_BASE = T5Config(
    d_model=768, d_ff=3072, num_layers=12, num_decoder_layers=12, num_heads=12
)
_LARGE = T5Config(
    d_model=1024, d_ff=4096, num_layers=24, num_decoder_layers=24, num_heads=16
)
_as_v1_1 = functools.partial(
    dataclasses.replace, gated=True, activation='gelu_new', tie_embeddings=False
)
_V1_1_XL = _as_v1_1(_LARGE, d_model=2048, d_ff=5120, num_heads=32)
T5_SIZES = {
    't5-small': _SMALL,
    't5-base': _BASE,
    't5-large': _LARGE,
    't5-v1_1-small': _as_v1_1(
        _SMALL, d_ff=1024, num_layers=8, num_decoder_layers=8, num_heads=6
    ),
    't5-v1_1-base': _as_v1_1(_BASE, d_ff=2048),
    't5-v1_1-large': _as_v1_1(_LARGE, d_ff=2816),
    't5-v1_1-xl': _V1_1_XL,
    'flan-t5-xl': _V1_1_XL,
    # For laptops, over the vocabulary of bert-base-uncased, where 102 is [SEP].
    't5-tiny': T5Config(
        vocab_size=30522, d_model=256, d_ff=512, num_layers=3,
        num_decoder_layers=3, num_heads=4, gated=True, activation='gelu_new',
        eos_id=102,
    ),
}


@flax.struct.dataclass
class Cache:
  """What decoding a token needs of the source and of the tokens before it.

  `width` sequences are decoded from every source; they share its part.

  Attributes:
    keys: `[layers, rows, width, heads, max_tokens, d_kv]`; of self attention,
      zeros where no token was decoded yet.
    values: like `keys`.
    source_keys: `[layers, rows, heads, length, d_kv]`; of cross attention.
    source_values: like `source_keys`.
    source_mask: `[rows, 1, 1, length] float32`, added to scores.
    distances: `[2 * max_tokens - 1, heads] float32`; added to scores of a key
      at distance `i - max_tokens + 1`.
  """

  keys: Any
  values: Any
  source_keys: Any
  source_values: Any
  source_mask: Any
  distances: Any


class T5(nn.Module):
  """Encoder and decoder of packed pairs of a source and a target.

  A row holds one or several pairs, told apart by segment ids. What a token
  attends to, and so its result, is the same as in a row of its own. Layers run
  in a loop over stacked parameters, as in `bert.Bert`.

  Attributes:
    config: shapes and constants.
    dtype: of activations and matrix products; parameters, softmax, norms and
      logits are float32.
    remat: what the backward pass computes again, see `bert.Bert`.
    scan_unroll: layers in one iteration of the loop.
  """

  config: T5Config
  dtype: Any = jnp.float32
  remat: str = 'none'
  scan_unroll: int = 1

  def setup(self):
    """Names the parts."""
    c = self.config
    stack = functools.partial(
        _Stack, c, self.dtype, self.remat, self.scan_unroll
    )
    self.embeddings = _Embeddings(c)
    self.encoder = stack(c.num_layers, is_decoder=False)
    self.decoder = stack(c.num_decoder_layers, is_decoder=True)
    if not c.tie_embeddings:
      self.head = _dense(c.vocab_size, self.dtype, _deviation(c, c.d_model))

  def __call__(
      self,
      token_ids: Int[packed.AnyArray, 'rows length'],
      segment_ids: Int[packed.AnyArray, 'rows length'],
      target_ids: Int[packed.AnyArray, 'rows target'],
      target_segment_ids: Int[packed.AnyArray, 'rows target'],
      deterministic: bool,
  ) -> Float[Array, 'rows target vocab']:
    """Logits of the token after each target token: `encode`, then `decode`."""
    hidden = self.encode(token_ids, segment_ids, deterministic)
    return self.decode(
        hidden, segment_ids, target_ids, target_segment_ids, deterministic
    )

  def encode(
      self,
      token_ids: Int[packed.AnyArray, 'rows length'],
      segment_ids: Int[packed.AnyArray, 'rows length'],
      deterministic: bool,
  ) -> Float[Array, 'rows length features']:
    """Runs the encoder.

    Args:
      token_ids: `[rows, length] int32`.
      segment_ids: `[rows, length] int32`; a token attends to the tokens of its
        row with its own id, which stand side by side. Padding holds 0.
      deterministic: whether dropout is off; else a `dropout` rng is needed.

    Returns:
      `[rows, length, features]` in `dtype`; meaningless on padding.
    """
    mask = _mask(_same(segment_ids, segment_ids))
    return self.encoder(
        self.embeddings(token_ids), mask, None, None, deterministic
    )

  def decode(
      self,
      hidden: Float[Array, 'rows length features'],
      source_segment_ids: Int[packed.AnyArray, 'rows length'],
      target_ids: Int[packed.AnyArray, 'rows target'],
      target_segment_ids: Int[packed.AnyArray, 'rows target'],
      deterministic: bool,
  ) -> Float[Array, 'rows target vocab']:
    """Runs the decoder over whole targets.

    Args:
      hidden: `[rows, length, features]`, what `encode` gave.
      source_segment_ids: `[rows, length] int32`, as `encode` got them.
      target_ids: `[rows, target] int32`; every target begins with
        `decoder_start_id` and lacks its last token.
      target_segment_ids: `[rows, target] int32`; a token attends to itself and
        to tokens before it with its own id, and to source tokens with that id.
        Padding holds 0.
      deterministic: see `encode`.

    Returns:
      `[rows, target, vocab] float32`; meaningless on padding.
    """
    places = jnp.arange(target_ids.shape[1])
    is_seen = _same(target_segment_ids, target_segment_ids) & (
        places[:, None] >= places
    )
    states = self.decoder(
        self.embeddings(target_ids),
        _mask(is_seen),
        hidden,
        _mask(_same(target_segment_ids, source_segment_ids)),
        deterministic,
    )
    return self._logits(states)

  def start(
      self,
      hidden: Float[Array, 'rows length features'],
      is_source: Int[packed.AnyArray, 'rows length'],
      width: int,
      max_tokens: int,
  ) -> Cache:
    """A cache before the first token; one source a row.

    Args:
      hidden: `[rows, length, features]`, what `encode` gave.
      is_source: `[rows, length] int32`; not 0 where there is a token.
      width: sequences to decode from every source.
      max_tokens: the most tokens of each.
    """
    c, rows = self.config, hidden.shape[0]
    params = self.variables['params']['decoder']
    layer = self._decoder_layer()
    source_keys, source_values = jax.vmap(
        lambda params: layer.apply(
            {'params': params}, hidden, method='source_keys_values'
        )
    )(params['layers'])
    empty = jnp.zeros(
        (c.num_decoder_layers, rows, width, c.num_heads, max_tokens, c.d_kv),
        self.dtype,
    )
    buckets = relative_buckets(c, max_tokens, max_tokens, is_decoder=True)
    return Cache(
        keys=empty,
        values=empty,
        source_keys=source_keys,
        source_values=source_values,
        source_mask=_mask((jnp.asarray(is_source) != 0)[:, None]),
        distances=params['relative_bias']['embedding'][buckets],
    )

  def step(
      self,
      cache: Cache,
      token_ids: Int[Array, 'rows width'],
      index: Int[Array, ''],
  ) -> tuple[Float[Array, 'rows width vocab'], Cache]:
    """Decodes one token of every sequence.

    Equal to the last place of `decode` over all tokens so far, at the cost of
    one token and of attention to `max_tokens` and to the source.

    Args:
      cache: of the tokens before.
      token_ids: `[rows, width] int32`; `decoder_start_id` first.
      index: how many tokens there were before; below `max_tokens`.

    Returns:
      Logits of the next token in float32, and the cache with this one.
    """
    params = self.variables['params']['decoder']
    layer = self._decoder_layer()
    max_tokens = cache.keys.shape[-2]
    bias = jax.lax.dynamic_slice_in_dim(
        cache.distances, max_tokens - 1 - index, max_tokens
    ).T[None, :, None, :]
    bias = bias + _mask((jnp.arange(max_tokens) <= index)[None, None])

    def run_layer(carry, inputs):
      number, layer_params, source_keys, source_values = inputs
      return layer.apply(
          {'params': layer_params}, *carry, number, index, bias,
          source_keys, source_values, cache.source_mask, method='step',
      ), None

    hidden = self.embeddings(token_ids).astype(self.dtype)
    (hidden, keys, values), _ = jax.lax.scan(
        run_layer,
        (hidden, cache.keys, cache.values),
        (
            jnp.arange(self.config.num_decoder_layers), params['layers'],
            cache.source_keys, cache.source_values,
        ),
        unroll=self.scan_unroll,
    )
    hidden = rms_norm(
        hidden, params['norm']['scale'], self.config.layer_norm_eps
    ).astype(self.dtype)
    cache = dataclasses.replace(cache, keys=keys, values=values)
    return self._logits(hidden), cache

  def _decoder_layer(self) -> '_Layer':
    """A layer outside the loop, to apply to the parameters of each."""
    return _Layer(self.config, self.dtype, True, True, parent=None)

  def _logits(self, hidden: Array) -> Array:
    c = self.config
    if c.is_head_scaled:
      hidden = hidden * c.d_model**-0.5
    if c.tie_embeddings:
      return self.embeddings.attend(hidden)
    return self.head(hidden).astype(jnp.float32)


class _Embeddings(nn.Module):
  config: T5Config

  def setup(self):
    c = self.config
    self.word = nn.Embed(
        c.vocab_size, c.d_model,
        embedding_init=nn.initializers.normal(c.initializer_factor),
    )

  def __call__(self, token_ids):
    return self.word(jnp.asarray(token_ids))

  def attend(self, hidden):
    return jnp.einsum(
        '...d,vd->...v',
        hidden,
        self.word.embedding.astype(hidden.dtype),
        preferred_element_type=jnp.float32,
    )


class _Stack(nn.Module):
  """The layers of the encoder or of the decoder."""

  config: T5Config
  dtype: Any
  remat: str
  scan_unroll: int
  layers: int
  is_decoder: bool

  @nn.compact
  def __call__(self, hidden, mask, source, source_mask, deterministic):
    c = self.config
    table = nn.Embed(
        c.relative_buckets, c.num_heads, name='relative_bias',
        embedding_init=nn.initializers.normal(_deviation(c, c.d_model)),
    )
    bias = relative_bias(c, table, hidden.shape[1], self.is_decoder)
    drop = functools.partial(layers.Dropout, c.dropout, deterministic)
    stack = nn.scan(
        layers.rematerialize(_Layer, self.remat),
        variable_axes={'params': 0},
        split_rngs={'params': True, 'dropout': True},
        in_axes=nn.broadcast,
        length=self.layers,
        unroll=self.scan_unroll,
    )(c, self.dtype, self.is_decoder, deterministic, name='layers')
    hidden = drop()(hidden).astype(self.dtype)
    hidden, _ = stack(hidden, bias, mask, source, source_mask)
    return drop()(_Norm(c, self.dtype, name='norm')(hidden))


class _Layer(nn.Module):
  config: T5Config
  dtype: Any
  is_decoder: bool
  deterministic: bool

  def setup(self):
    c = self.config
    attention = functools.partial(
        _Attention, c, self.dtype, self.deterministic
    )
    norm = functools.partial(_Norm, c, self.dtype)
    widen = functools.partial(
        _dense, c.d_ff, self.dtype, _deviation(c, c.d_model)
    )
    self.attention_norm, self.attention = norm(), attention()
    if self.is_decoder:
      self.cross_attention_norm, self.cross_attention = norm(), attention()
    self.feed_forward_norm = norm()
    self.intermediate = widen()
    if c.gated:
      self.gate = widen()
    self.output = _dense(c.d_model, self.dtype, _deviation(c, c.d_ff))
    self.drop = layers.Dropout(c.dropout, self.deterministic)

  def __call__(self, hidden, bias, mask, source, source_mask):
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
    """One token of `[rows, width]` sequences; see `T5.step`.

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
  config: T5Config
  dtype: Any
  deterministic: bool

  def setup(self):
    c = self.config
    inner = c.num_heads * c.d_kv
    dense = functools.partial(_dense, inner, self.dtype)
    # Small queries stand for the scores' missing scale.
    self.query = dense(_deviation(c, c.d_model * c.d_kv))
    self.key = dense(_deviation(c, c.d_model))
    self.value = dense(_deviation(c, c.d_model))
    self.output = _dense(c.d_model, self.dtype, _deviation(c, inner))
    self.drop = layers.Dropout(c.dropout, self.deterministic)

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
    return x.reshape(*x.shape[:2], c.num_heads, c.d_kv).swapaxes(1, 2)


def relative_buckets(
    config: T5Config, queries: int, keys: int, is_decoder: bool
) -> Int[np.ndarray, ' distances']:
  """The bucket of every distance `key - query`, from the least to the greatest.

  Near distances have buckets of their own; far ones share them, in
  logarithmic steps up to `relative_max_distance`. An encoder has one half for
  keys before and one for keys after; in a decoder keys after are bucket 0.
  Float32 in the order of the reference, as bounds of buckets are exact powers.

  Args:
    config: of the buckets.
    queries: the last of them stands `queries - 1` after the first key.
    keys: the last of them stands `keys - 1` after the first query.
    is_decoder: whether keys after a query don't count.

  Returns:
    `[queries + keys - 1] int32`; distance `d` at `d + queries - 1`.
  """
  distances = np.arange(1 - queries, keys)
  count = config.relative_buckets
  offset = np.zeros_like(distances)
  if is_decoder:
    distances = np.maximum(-distances, 0)
  else:
    count //= 2
    offset = np.where(distances > 0, count, 0)
    distances = np.abs(distances)
  exact = count // 2
  ratio = np.maximum(distances, 1).astype(np.float32) / np.float32(exact)
  scale = np.float32(np.log(config.relative_max_distance / exact))
  steps = np.log(ratio) / scale * np.float32(count - exact)
  far = np.minimum(exact + steps.astype(np.int32), count - 1)
  return (offset + np.where(distances < exact, distances, far)).astype(np.int32)


def relative_bias(
    config: T5Config,
    table: Callable[[Array], Array],
    length: int,
    is_decoder: bool,
) -> Float[Array, '1 heads length length']:
  """What relative positions add to the scores of all layers.

  Args:
    config: of the buckets.
    table: buckets `[...]` to biases `[..., heads]`.
    length: of rows; positions are those in the row, as only their differences
      count.
    is_decoder: see `relative_buckets`.
  """
  buckets = relative_buckets(config, length, length, is_decoder)
  of_distance = table(jnp.asarray(buckets))
  places = jnp.arange(length)
  return jnp.moveaxis(
      of_distance[places[None, :] - places[:, None] + length - 1], -1, 0
  )[None]


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


def init_params(config: T5Config, key: Key[Array, '']) -> dict[str, Any]:
  """Random parameters, with the standard deviations of T5.

  Those of transformers, but for an untied output matrix: there it has entries
  of variance 1, which makes logits of standard deviation `sqrt(d_model)`; here
  as in T5X of variance `1 / d_model`.
  """
  ids = jnp.zeros((1, 2), jnp.int32)
  return T5(config).init(key, ids, ids, ids, ids, True)['params']


def shape_of(config: T5Config) -> Any:
  """Abstract parameters (ShapeDtypeStructs) of a config."""
  return jax.eval_shape(lambda: init_params(config, jax.random.key(0)))


class _Norm(nn.Module):
  config: T5Config
  dtype: Any

  @nn.compact
  def __call__(self, hidden):
    c = self.config
    scale = self.param(
        'scale', nn.initializers.constant(c.initializer_factor),
        (hidden.shape[-1],),
    )
    return rms_norm(hidden, scale, c.layer_norm_eps).astype(self.dtype)


def _deviation(c: T5Config, features: int) -> float:
  return c.initializer_factor * features**-0.5


def _dense(features, dtype, deviation):
  return layers.Dense(features, dtype, dtype, deviation, use_bias=False)


def _same(ids, other_ids):
  return jnp.asarray(ids)[:, :, None] == jnp.asarray(other_ids)[:, None, :]


def _mask(is_seen):
  """`[rows, queries, keys]` to what is added to scores of all heads."""
  return jnp.where(is_seen, 0.0, _FAR)[:, None]
