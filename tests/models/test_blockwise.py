"""Attention in blocks against a dense masked reference; its cost by compiling.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from neg_contrast import sharding
from neg_contrast.models import bert, blockwise, layers
from neg_contrast.models.pattern import GLOBAL, Pattern
from neg_contrast.settings import config as config_lib
from tests import tiny

PATTERNS = {
    'global': GLOBAL,
    'causal': Pattern(causal=True),
    'local': Pattern(window=5),
    'wide': Pattern(window=150),
    'local and causal': Pattern(window=5, causal=True),
}


def random_rows(rows=2, length=300, heads=3, features=5, seed=0):
  """Query, key, value, gradient; segment ids with padding after them."""
  rng = np.random.default_rng(seed)
  arrays = rng.normal(size=(4, rows, length, heads, features))
  cuts = np.sort(rng.uniform(0.02, 0.98, (rows, 3)), axis=1)
  cuts[0] = 0.1, 0.2, 0.95  # A segment that is longer than all windows.
  cuts = (length * cuts).astype(int)
  segment_ids = (np.arange(length) < cuts[..., None]).sum(1)
  return jnp.asarray(arrays, jnp.float32), segment_ids.astype(np.int32)


def reference(query, key, value, segment_ids, pattern):
  """In NumPy and float64, token by token."""
  query, key, value = (np.float64(x) for x in (query, key, value))
  mixed = np.zeros(query.shape)
  for row, place in np.ndindex(segment_ids.shape):
    others = [
        other for other in range(segment_ids.shape[1])
        if segment_ids[row, other] == segment_ids[row, place]
        and (pattern.window is None or abs(other - place) <= pattern.window)
        and (not pattern.causal or other <= place)
    ]
    scores = np.einsum('hd,khd->hk', query[row, place], key[row, others])
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    mixed[row, place] = np.einsum('hk,khd->hd', weights, value[row, others])
  return mixed


def dense(query, key, value, segment_ids, pattern, drop=lambda w, first=0: w):
  places = np.arange(query.shape[1])
  together = segment_ids[:, None, :, None] == segment_ids[:, None, None, :]
  together = together & pattern.allows(places[:, None], places)
  heads = lambda x: x.swapaxes(1, 2)
  return heads(layers.attend(
      heads(query), heads(key), heads(value),
      (jnp.where(together, 0.0, -1e30),), drop,
  ))


def values_and_gradients(attend, arrays, segment_ids, pattern, **kwargs):
  keep = lambda weights, first=0: weights

  @jax.jit
  def both(arrays):
    *inputs, gradient = arrays
    mixed, back = jax.vjp(lambda *x: attend(
        *x, segment_ids, pattern=pattern, drop=keep, **kwargs
    ), *inputs)
    return mixed, *back(gradient)

  return both(tuple(arrays))


@pytest.mark.parametrize('name', PATTERNS)
@pytest.mark.parametrize('scores', [300 * 16, 2**20])
def test_equals_the_reference(name, scores):
  """One block at a time, or several; a last block that is not full."""
  pattern = PATTERNS[name]
  arrays, segment_ids = random_rows()
  assert (segment_ids == 0).any() and segment_ids.max() == 3
  got = values_and_gradients(
      blockwise.attend, arrays, segment_ids, pattern, scores=scores
  )
  want = values_and_gradients(dense, arrays, segment_ids, pattern)
  for a, b in zip(got, want, strict=True):
    np.testing.assert_allclose(a, b, atol=1e-5)
  query, key, value = arrays[:3]
  exact = reference(query, key, value, segment_ids, pattern)
  np.testing.assert_allclose(got[0], exact, atol=1e-5)


def test_patterns_differ():
  """What the other tests compare is not the same for all of them."""
  arrays, segment_ids = random_rows()
  query, key, value = arrays[:3]
  mixed = [dense(query, key, value, segment_ids, p) for p in PATTERNS.values()]
  for number, one in enumerate(mixed):
    for other in mixed[:number]:
      assert np.abs(one - other).max() > 0.01


@pytest.mark.parametrize('window', [0, -3])
def test_a_window_has_tokens(window):
  with pytest.raises(ValueError, match=f'window={window} must be at least 1'):
    Pattern(window=window)


@pytest.mark.parametrize('name', ['global', 'local'])
def test_bfloat16_is_as_close_to_float32_as_dense_products(name):
  arrays, segment_ids = random_rows(length=520)
  args = segment_ids, PATTERNS[name]
  exact = values_and_gradients(dense, arrays, *args)
  half = jnp.asarray(arrays, jnp.bfloat16)
  got = values_and_gradients(blockwise.attend, half, *args, scores=520 * 16)
  theirs = values_and_gradients(dense, half, *args)
  for a, b, c in zip(got, theirs, exact, strict=True):
    assert a.dtype == jnp.bfloat16
    off = [float(np.abs(np.float32(x) - c).mean()) for x in (a, b)]
    assert 1e-5 < off[0] < 1.1 * off[1] < 0.02


@pytest.mark.parametrize('name', ['causal', 'local'])
def test_dropout(name):
  """Every weight is dropped by itself, and both passes drop the same."""
  arrays, segment_ids = random_rows(length=600, heads=2)
  inputs = [*arrays[:2], jnp.ones_like(arrays[2])]
  drop = layers.Dropped(0.5, jax.random.bits(jax.random.key(0), (2,)))
  mix = jax.jit(lambda query, key, value: blockwise.attend(
      query, key, value, segment_ids, PATTERNS[name], drop, scores=2**17
  ))
  mixed = np.asarray(mix(*inputs))[..., 0]
  assert abs(mixed.mean() - 1) < 0.05
  # Rows, blocks and heads have masks of their own.
  apart = mixed.swapaxes(1, 2).reshape(4, 600)[:, : 4 * 128]
  parts = apart.reshape(4 * 4, 128)
  assert len({part.tobytes() for part in parts}) == len(parts)
  # It is linear in values: their gradient is the mean of what is kept.
  total, back = jax.vjp(lambda value: mix(*inputs[:2], value).sum(), inputs[2])
  np.testing.assert_allclose(
      (back(1.0)[0] * inputs[2]).sum(), total, rtol=1e-5
  )


def compiled(length, pattern, scores=2**17, rows=1):
  """Both passes over abstract rows of two heads of eight features."""
  array = jax.ShapeDtypeStruct((rows, length, 2, 8), jnp.float32)
  ids = jax.ShapeDtypeStruct((rows, length), jnp.int32)

  def both(query, key, value, gradient, ids):
    mixed, back = jax.vjp(lambda q, k, v: blockwise.attend(
        q, k, v, ids, pattern, lambda weights, first: weights, scores
    ), query, key, value)
    return mixed, back(gradient)

  return jax.jit(both).lower(array, array, array, array, ids).compile()


def test_products_outside_the_pattern_are_left_out():
  """No loops here: the compiler counts the body of one only once."""

  def flops(length, name, scores=2**30):
    program = compiled(length, PATTERNS[name], scores)
    assert 'while' not in program.as_text()
    return program.cost_analysis()['flops']

  whole, twice = flops(1024, 'global'), flops(2048, 'global')
  local, twice_local = flops(1024, 'local'), flops(2048, 'local')
  assert twice_local < 2.1 * local and twice > 3.8 * whole
  assert local < 0.16 * whole  # 128 + 2 * 5 keys for 1,024.
  assert flops(1024, 'causal', 1024**2 // 4) < 0.65 * whole  # 5/8 of the keys.


@pytest.mark.parametrize('name', ['global', 'causal', 'local'])
def test_memory_is_linear(name):
  temporary = [
      compiled(length, PATTERNS[name]).memory_analysis().temp_size_in_bytes
      for length in (2048, 8192)
  ]
  assert temporary[1] < 4.2 * temporary[0]
  matrix = 4 * 2 * 8192**2  # 512 MiB of scores.
  assert temporary[1] < matrix / 16


def test_rows_stay_on_their_devices():
  mesh = sharding.make_mesh(config_lib.MeshConfig(data=4), jax.devices()[:4])
  placed = NamedSharding(mesh, P('data'))
  arrays, segment_ids = random_rows(rows=4, length=256)

  def loss(query, key, value, ids, pattern):
    return jnp.sum(jnp.sin(blockwise.attend(
        query, key, value, ids, pattern, lambda w, first: w, scores=2**14
    )))

  for pattern in (GLOBAL, Pattern(window=5)):
    text = jax.jit(
        jax.grad(functools.partial(loss, pattern=pattern), (0, 1, 2)),
        in_shardings=placed, out_shardings=placed,
    ).lower(*arrays[:3], segment_ids).compile().as_text()
    assert 'while' in text
    assert not [word for word in ('all-gather', 'all-to-all', 'all-reduce',
                                  'collective-permute') if word in text]


@pytest.mark.parametrize('is_training', [False, True])
def test_memory_of_a_model_is_that_of_a_block(is_training):
  """Both rates of dropout on, and by rows asked for, as on CPUs."""
  config = tiny.bert_config(max_positions=16384, hidden_dropout=0.1,
                            attention_dropout=0.1)
  module = bert.Bert(config, remat='full', by_row=True)
  ids = lambda length: jax.ShapeDtypeStruct((2, length), jnp.int32)
  params = jax.eval_shape(
      lambda *arrays: module.init(jax.random.key(0), *arrays, True),
      *[ids(8)] * 3,
  )

  def encode(params, *arrays):
    rngs = {'dropout': jax.random.key(1)}
    hidden = module.apply(params, *arrays, not is_training, rngs=rngs)
    return jnp.sum(jnp.square(hidden))

  run = jax.jit(jax.grad(encode) if is_training else encode)
  bytes_of = [
      run.lower(params, *[ids(length)] * 3).compile()
      .memory_analysis().temp_size_in_bytes for length in (4096, 16384)
  ]
  assert bytes_of[1] < 1.3 * bytes_of[0]
  assert bytes_of[1] < 4 * 2 * 4 * 16384**2 / 16  # Of 8 GiB of scores.
