"""T5 over packed rows, equal to the PyTorch reference. Pure.

Raffel et al., "Exploring the Limits of Transfer Learning with a Unified
Text-to-Text Transformer", and its version 1.1 with gated feed-forward blocks,
as in transformers' T5ForConditionalGeneration.
"""

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from neg_contrast.batches import packed
from neg_contrast.models import t5_cache, t5_config, t5_layers


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

  config: t5_config.T5Config
  dtype: Any = jnp.float32
  remat: str = 'none'
  scan_unroll: int = 1

  def setup(self):
    """Names the parts."""
    c = self.config
    stack = functools.partial(
        t5_layers.Stack, c, self.dtype, self.remat, self.scan_unroll
    )
    self.embeddings = t5_layers.Embeddings(c)
    self.encoder = stack(c.num_layers, is_decoder=False)
    self.decoder = stack(c.num_decoder_layers, is_decoder=True)
    if not c.tie_embeddings:
      self.head = t5_layers.dense(
          c.vocab_size, self.dtype, t5_layers.deviation(c, c.d_model)
      )

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
    mask = t5_layers.as_bias(t5_layers.same_segment(segment_ids, segment_ids))
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
    is_seen = t5_layers.same_segment(target_segment_ids, target_segment_ids) & (
        places[:, None] >= places
    )
    states = self.decoder(
        self.embeddings(target_ids),
        t5_layers.as_bias(is_seen),
        hidden,
        t5_layers.as_bias(t5_layers.same_segment(
            target_segment_ids, source_segment_ids
        )),
        deterministic,
    )
    return self._logits(states)

  def start(
      self,
      hidden: Float[Array, 'rows length features'],
      is_source: Int[packed.AnyArray, 'rows length'],
      width: int,
      max_tokens: int,
  ) -> t5_cache.Cache:
    """A cache before the first token; see `t5_cache.start`."""
    return t5_cache.start(
        self.config, self.dtype, self.variables['params']['decoder'], hidden,
        is_source, width, max_tokens,
    )

  def step(
      self,
      cache: t5_cache.Cache,
      token_ids: Int[Array, 'rows width'],
      index: Int[Array, ''],
  ) -> tuple[Float[Array, 'rows width vocab'], t5_cache.Cache]:
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
    hidden, cache = t5_cache.step(
        self.config, self.dtype, self.variables['params']['decoder'], cache,
        self.embeddings(token_ids), index, self.scan_unroll,
    )
    return self._logits(hidden), cache

  def _logits(self, hidden: Array) -> Array:
    c = self.config
    if c.is_head_scaled:
      hidden = hidden * c.d_model**-0.5
    if c.tie_embeddings:
      return self.embeddings.attend(hidden)
    return self.head(hidden).astype(jnp.float32)


def init_params(
    config: t5_config.T5Config, key: Key[Array, '']
) -> dict[str, Any]:
  """Random parameters, with the standard deviations of T5.

  Those of transformers, but for an untied output matrix: there it has entries
  of variance 1, which makes logits of standard deviation `sqrt(d_model)`; here
  as in T5X of variance `1 / d_model`.
  """
  ids = jnp.zeros((1, 2), jnp.int32)
  return T5(config).init(key, ids, ids, ids, ids, True)['params']


def shape_of(config: t5_config.T5Config) -> Any:
  """Abstract parameters (ShapeDtypeStructs) of a config."""
  return jax.eval_shape(lambda: init_params(config, jax.random.key(0)))
