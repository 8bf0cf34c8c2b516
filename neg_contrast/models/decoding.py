"""Writes targets with a T5, token by token, in one compiled loop. Pure.

A source is encoded once, and its keys and values of cross attention are shared
by all that is decoded from it. The loop ends when every row has finished.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from neg_contrast.batches import packed
from neg_contrast.models import t5, t5_cache, t5_config
from neg_contrast.models import token_sampling as sampling

METHODS = ('greedy', 'sample', 'beam')
_LOWEST = -1e9  # Stands for "no score" in the reference; finite on purpose.

Step = Callable[
    [t5_cache.Cache, Int[Array, 'rows width'], Int[Array, '']],
    tuple[Float[Array, 'rows width vocab'], t5_cache.Cache],
]


@dataclasses.dataclass(frozen=True)
class Decoding:
  """How targets are decoded.

  Attributes:
    method: `greedy`, `sample` or `beam`.
    samples: targets of every source; of `beam`: the best so many are given.
    max_tokens: at which a target is cut, its end included.
    temperature: of `sample`; logits are divided by it.
    top_k: `sample` draws from the likeliest so many tokens; 0: from all.
    top_p: and of these from the fewest whose probabilities, after temperature
      and `top_k`, add up to it (Holtzman et al., "The Curious Case of Neural
      Text Degeneration"); 1: from all.
    beams: of `beam`, at least `samples`.
    length_penalty: of `beam`: scores are divided by length to this power.
    early_stopping: whether `beam` ends with the first `beams` finished targets,
      or once the running ones can't become better, judged at their length.
  """

  method: str = 'greedy'
  samples: int = 1
  max_tokens: int = 64
  temperature: float = 1.0
  top_k: int = 0
  top_p: float = 1.0
  beams: int = 1
  length_penalty: float = 1.0
  early_stopping: bool = False

  def __post_init__(self):
    """Checks ranges.

    Raises:
      ValueError: names the field and its value.
    """
    if self.method not in METHODS:
      raise ValueError(f'method={self.method!r} is not one of '
                       + ', '.join(METHODS))
    for name, least in (('samples', 1), ('max_tokens', 1), ('top_k', 0),
                        ('beams', 1)):
      if getattr(self, name) < least:
        raise ValueError(f'{name}={getattr(self, name)} must be at least '
                         f'{least}')
    if not self.temperature > 0:
      raise ValueError(f'temperature={self.temperature} must be above 0')
    if not 0 < self.top_p <= 1:
      raise ValueError(f'top_p={self.top_p} must be above 0 and at most 1')
    if self.method == 'greedy' and self.samples > 1:
      raise ValueError(f'samples={self.samples} must be 1 of greedy decoding, '
                       'which has one result')
    if self.method == 'beam' and self.samples > self.beams:
      raise ValueError(f'samples={self.samples} must be at most '
                       f'beams={self.beams}')


@flax.struct.dataclass
class Generated:
  """Targets of a batch of sources.

  Attributes:
    token_ids: `[rows, samples, max_tokens] int32`; up to `eos_id` or the cut,
      then `pad_id`. Best beams come first.
    scores: `[rows, samples] float32`; the sum of the log probabilities of all
      tokens, the end included, by the model itself: without temperature and
      cuts. Of beams: that sum divided by length to the power of the penalty.
  """

  token_ids: Any
  scores: Any


def generate(
    module: t5.T5,
    params: Any,
    token_ids: Int[packed.AnyArray, 'rows length'],
    segment_ids: Int[packed.AnyArray, 'rows length'],
    keys: Key[Array, ' rows'],
    decoding: Decoding,
) -> Generated:
  """Decodes targets of every source.

  What is drawn for a row depends on its key, on the number of the sample and on
  the place of the token, but not on other rows. To be jitted as a whole, with
  `module` and `decoding` static.

  Args:
    module: the model.
    params: its parameters.
    token_ids: `[rows, length] int32`, a source a row.
    segment_ids: `[rows, length] int32`; not 0 where there is a token. A row
      without any costs no steps and gets `pad_id` and score 0.
    keys: `[rows]` typed PRNG keys; only `sample` uses them.
    decoding: how.
  """
  is_source = (jnp.asarray(segment_ids) != 0).astype(jnp.int32)
  apply: Callable[..., Any] = functools.partial(
      module.apply, {'params': params}
  )
  hidden = apply(token_ids, is_source, True, method='encode')
  is_beam = decoding.method == 'beam'
  cache = apply(
      hidden, is_source, decoding.beams if is_beam else decoding.samples,
      decoding.max_tokens, method='start',
  )
  run = _search_beams if is_beam else _decode_freely
  return run(
      functools.partial(apply, method='step'), module.config, cache,
      is_source.any(-1), keys, decoding,
  )


@flax.struct.dataclass
class _Free:
  """Sequences that don't compete; `last` are the tokens to go on from."""

  index: Any
  cache: Any
  last: Any
  token_ids: Any
  scores: Any
  is_finished: Any


def _decode_freely(
    step: Step,
    config: t5_config.T5Config,
    cache: t5_cache.Cache,
    is_row: Array,
    keys: Array,
    decoding: Decoding,
) -> Generated:
  """Greedy decoding and sampling."""
  shape = (len(is_row), decoding.samples)
  numbers = jnp.arange(decoding.samples)
  fold = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)), (0, None))
  sample_keys = fold(keys, numbers)

  def choose(logits, index):
    if decoding.method == 'greedy':
      return logits.argmax(-1).astype(jnp.int32)
    at = jax.vmap(jax.vmap(lambda key: jax.random.uniform(
        jax.random.fold_in(key, index), (2,)
    )))
    weights, ids = sampling.candidates(
        logits, decoding.temperature, decoding.top_k, decoding.top_p
    )
    place = sampling.draw(weights, at(sample_keys))[..., None]
    if ids is not None:
      place = jnp.take_along_axis(ids, place, -1)
    return place[..., 0].astype(jnp.int32)

  def advance(state):
    logits, cache = step(state.cache, state.last, state.index)
    chosen = choose(logits, state.index)
    gained = jnp.take_along_axis(logits, chosen[..., None], -1)[..., 0]
    gained = gained - jax.nn.logsumexp(logits, -1)
    chosen = jnp.where(state.is_finished, config.pad_id, chosen)
    return _Free(
        index=state.index + 1,
        cache=cache,
        last=chosen,
        token_ids=_put(state.token_ids, chosen, state.index),
        scores=state.scores + jnp.where(state.is_finished, 0, gained),
        is_finished=state.is_finished | (chosen == config.eos_id),
    )

  state = jax.lax.while_loop(
      lambda state: (state.index < decoding.max_tokens)
      & ~state.is_finished.all(),
      advance,
      _Free(
          index=jnp.int32(0),
          cache=cache,
          last=jnp.full(shape, config.decoder_start_id, jnp.int32),
          token_ids=jnp.full(
              (*shape, decoding.max_tokens), config.pad_id, jnp.int32
          ),
          scores=jnp.zeros(shape),
          is_finished=jnp.broadcast_to(~is_row[:, None], shape),
      ),
  )
  return Generated(state.token_ids, state.scores)


@flax.struct.dataclass
class _Beams:
  """Running beams, and the best finished targets of each row.

  `is_open` says whether a row's running beams may still become better.
  """

  index: Any
  cache: Any
  running_ids: Any
  running_scores: Any
  token_ids: Any
  scores: Any
  is_finished: Any
  is_open: Any


def _search_beams(
    step: Step,
    config: t5_config.T5Config,
    cache: t5_cache.Cache,
    is_row: Array,
    keys: Array,
    decoding: Decoding,
) -> Generated:
  """Beam search as in transformers' `GenerationMixin._beam_search`."""
  del keys
  rows, beams = len(is_row), decoding.beams

  def advance(state):
    index = state.index
    last = jnp.where(
        index == 0, config.decoder_start_id,
        jnp.take(state.running_ids, jnp.maximum(index - 1, 0), axis=-1),
    )
    logits, cache = step(state.cache, last, index)
    scores = jax.nn.log_softmax(logits) + state.running_scores[..., None]
    # Of every beam one candidate can end, so that half of them can go on.
    scores, places = jax.lax.top_k(scores.reshape(rows, -1), 2 * beams)
    parents, tokens = jnp.divmod(places, config.vocab_size)
    token_ids = _put(_take(state.running_ids, parents), tokens, index)
    is_end = (tokens == config.eos_id) | (index == decoding.max_tokens - 1)
    running_scores, best = jax.lax.top_k(
        jnp.where(is_end, scores + _LOWEST, scores), beams
    )
    parents = _take(parents, best)
    reorder = lambda array: jnp.take_along_axis(
        array, parents[None, ..., None, None, None], axis=2
    )
    state = dataclasses.replace(
        state,
        index=index + 1,
        cache=dataclasses.replace(
            cache, keys=reorder(cache.keys), values=reorder(cache.values)
        ),
        running_ids=_take(token_ids, best),
        running_scores=running_scores,
        **_finish(state, token_ids, scores, is_end, decoding),
    )
    return dataclasses.replace(state, is_open=_is_open(state, decoding))

  empty = jnp.full(
      (rows, beams, decoding.max_tokens), config.pad_id, jnp.int32
  )
  state = jax.lax.while_loop(
      lambda state: (state.index < decoding.max_tokens) & state.is_open.any(),
      advance,
      _Beams(
          index=jnp.int32(0),
          cache=cache,
          running_ids=empty,
          # All beams are equal at first, so only one of them counts.
          running_scores=jnp.full((rows, beams), _LOWEST).at[:, 0].set(0),
          token_ids=empty,
          scores=jnp.full((rows, beams), _LOWEST),
          is_finished=jnp.zeros((rows, beams), bool),
          is_open=is_row,
      ),
  )
  return Generated(
      state.token_ids[:, : decoding.samples],
      jnp.where(is_row[:, None], state.scores, 0)[:, : decoding.samples],
  )


def _finish(
    state: _Beams,
    token_ids: Array,
    scores: Array,
    is_end: Array,
    decoding: Decoding,
) -> dict[str, Array]:
  """The best finished targets, with candidates that end now.

  Only the better half of the candidates counts; the others are there to go on.
  Rows that are closed stay as they are.
  """
  beams = decoding.beams
  is_new = is_end & (jnp.arange(2 * beams) < beams) & state.is_open[:, None]
  length = (state.index + 1).astype(jnp.float32)
  scores = scores / length**decoding.length_penalty
  scores, best = jax.lax.top_k(jnp.concatenate(
      [state.scores, jnp.where(is_new, scores, scores + _LOWEST)], axis=1
  ), beams)
  merge = lambda old, new: _take(jnp.concatenate([old, new], axis=1), best)
  return {
      'token_ids': merge(state.token_ids, token_ids),
      'scores': scores,
      'is_finished': merge(state.is_finished, is_new),
  }


def _is_open(state: _Beams, decoding: Decoding) -> Array:
  """Whether a running beam, were it to end now, would be among the best."""
  length = state.index.astype(jnp.float32)
  possible = state.running_scores[:, 0] / length**decoding.length_penalty
  is_full = state.is_finished.all(-1)
  worst = jnp.where(state.is_finished, state.scores.min(-1, keepdims=True),
                    _LOWEST)
  is_open = state.is_open & (possible[:, None] > worst).any(-1)
  return is_open & ~is_full if decoding.early_stopping else is_open


def _take(array: Array, places: Array) -> Array:
  """Entries of the second axis, chosen for each row."""
  places = places.reshape(*places.shape, *(1,) * (array.ndim - places.ndim))
  return jnp.take_along_axis(array, places, axis=1)


def _put(token_ids: Array, tokens: Array, index: Array) -> Array:
  """Writes a token of every sequence."""
  return jax.lax.dynamic_update_index_in_dim(token_ids, tokens, index, axis=-1)
