"""Decodes a T5's targets token by token: keys and values are kept. Pure."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from neg_contrast.batches import packed
from neg_contrast.models import relative_positions, t5_config, t5_layers


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


def start(
    config: t5_config.T5Config,
    dtype: Any,
    params: Mapping[str, Any],
    hidden: Float[Array, 'rows length features'],
    is_source: Int[packed.AnyArray, 'rows length'],
    width: int,
    max_tokens: int,
) -> Cache:
  """A cache before the first token; one source a row.

  Args:
    config: of the model.
    dtype: of its activations.
    params: of its decoder.
    hidden: `[rows, length, features]`, the encoder's result.
    is_source: `[rows, length] int32`; not 0 where there is a token.
    width: sequences to decode from every source.
    max_tokens: the most tokens of each.
  """
  layer = _layer(config, dtype)
  source_keys, source_values = jax.vmap(
      lambda params: layer.apply(
          {'params': params}, hidden, method='source_keys_values'
      )
  )(params['layers'])
  empty = jnp.zeros(
      (config.num_decoder_layers, hidden.shape[0], width, config.num_heads,
       max_tokens, config.d_kv),
      dtype,
  )
  buckets = relative_positions.buckets(
      max_tokens, max_tokens, config.relative_buckets,
      config.relative_max_distance, is_decoder=True,
  )
  return Cache(
      keys=empty,
      values=empty,
      source_keys=source_keys,
      source_values=source_values,
      source_mask=t5_layers.as_bias((jnp.asarray(is_source) != 0)[:, None]),
      distances=params['relative_bias']['embedding'][buckets],
  )


def step(
    config: t5_config.T5Config,
    dtype: Any,
    params: Mapping[str, Any],
    cache: Cache,
    hidden: Float[Array, 'rows width features'],
    index: Int[Array, ''],
    unroll: int = 1,
) -> tuple[Float[Array, 'rows width features'], Cache]:
  """Runs all layers of the decoder on one token of every sequence.

  Args:
    config: of the model.
    dtype: of its activations.
    params: of its decoder.
    cache: of the tokens before.
    hidden: `[rows, width, features]`, embeddings of the tokens.
    index: how many tokens there were before; below `max_tokens`.
    unroll: layers in one iteration of the loop.

  Returns:
    `[rows, width, features]` in `dtype`, normed; and the cache with this token.
  """
  layer = _layer(config, dtype)
  max_tokens = cache.keys.shape[-2]
  bias = jax.lax.dynamic_slice_in_dim(
      cache.distances, max_tokens - 1 - index, max_tokens
  ).T[None, :, None, :]
  bias = bias + t5_layers.as_bias(
      (jnp.arange(max_tokens) <= index)[None, None]
  )

  def run_layer(carry, inputs):
    number, layer_params, source_keys, source_values = inputs
    return layer.apply(
        {'params': layer_params}, *carry, number, index, bias,
        source_keys, source_values, cache.source_mask, method='step',
    ), None

  (hidden, keys, values), _ = jax.lax.scan(
      run_layer,
      (hidden.astype(dtype), cache.keys, cache.values),
      (
          jnp.arange(config.num_decoder_layers), params['layers'],
          cache.source_keys, cache.source_values,
      ),
      unroll=unroll,
  )
  hidden = t5_layers.rms_norm(
      hidden, params['norm']['scale'], config.layer_norm_eps
  ).astype(dtype)
  return hidden, dataclasses.replace(cache, keys=keys, values=values)


def _layer(config: t5_config.T5Config, dtype: Any) -> t5_layers.Layer:
  """A layer outside the loop, to apply to the parameters of each."""
  return t5_layers.Layer(config, dtype, True, True, parent=None)
