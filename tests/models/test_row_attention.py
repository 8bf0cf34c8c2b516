"""Attention a few rows at a time is attention: values, gradients, dropout."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast.models import layers, row_attention

ROWS, LENGTH, HEADS, FEATURES = 5, 7, 3, 4


def make(seed=0):
  rng = np.random.default_rng(seed)
  operands = [jnp.asarray(rng.normal(size=(ROWS, LENGTH, HEADS, FEATURES)),
                          jnp.float32) for _ in range(4)]
  segments = jnp.asarray(np.sort(rng.integers(0, 3, (ROWS, LENGTH)), 1),
                         jnp.int32)
  biases = tuple(jnp.asarray(rng.normal(size=(1, heads, LENGTH, LENGTH)),
                             jnp.float32) for heads in (HEADS, 1))
  return operands, segments, biases


def whole(query, key, value, segments, drop, biases=(), window=0):
  swap = lambda x: x.swapaxes(1, 2)
  return swap(layers.attend(
      swap(query), swap(key), swap(value),
      (layers.segment_bias(segments, window), *biases), drop,
  ))


def values_and_gradients(attend, operands, segments, biases, drop, window):
  *inputs, weights = operands

  def loss(query, key, value, biases):
    mixed = attend(query, key, value, segments, drop, biases, window)
    return (mixed * weights.astype(mixed.dtype)).astype(jnp.float32).sum()

  return jax.jit(jax.value_and_grad(loss, (0, 1, 2, 3)))(*inputs, biases)


@pytest.mark.parametrize('scores', [1, 2 * HEADS * LENGTH**2, 10**6])
@pytest.mark.parametrize('rate', [0.0, 0.4])
@pytest.mark.parametrize('has_biases', [False, True])
@pytest.mark.parametrize('window', [0, 2])
def test_equals_attention_over_whole_rows(
    scores, rate, has_biases, window, monkeypatch
):
  monkeypatch.setattr(row_attention, '_CACHED_SCORES', scores)
  operands, segments, biases = make()
  biases = biases if has_biases else ()
  drop = layers.Dropped(rate, jax.random.bits(jax.random.key(1), (2,)))
  got, want = (
      values_and_gradients(attend, operands, segments, biases, drop, window)
      for attend in (row_attention.attend, whole)
  )
  jax.tree.map(functools.partial(
      np.testing.assert_allclose, rtol=1e-5, atol=1e-5
  ), got, want)


def test_a_traced_window_and_words():
  """As layers have them that run in a loop."""
  operands, segments, _ = make()

  def run(window, key):
    drop = layers.Dropped(0.3, jax.random.bits(key, (2,)))
    return jax.grad(lambda query: row_attention.attend(
        query, operands[1], operands[2], segments, drop, (), window
    ).sum())(operands[0])

  for window in (0, 2):
    key = jax.random.key(window)
    np.testing.assert_allclose(
        jax.jit(run)(jnp.int32(window), key), run(window, key), atol=1e-5
    )


def test_groups_have_dropout_of_their_own():
  (query, key, value, _), segments, _ = make()
  words = jnp.arange(4, dtype=jnp.uint32).reshape(2, 2)
  of = lambda words: row_attention.attend(
      query, key, value, segments, layers.Dropped(0.5, words)
  )
  one, other = jax.vmap(of)(words)
  np.testing.assert_allclose(other, of(words[1]), atol=1e-6)
  assert abs(one - other).max() > 0.1


def test_operands_are_rounded_and_sums_are_not():
  operands, segments, _ = make()
  drop = layers.Dropped(0.0, jnp.zeros(2, jnp.uint32))
  half = [x.astype(jnp.bfloat16) for x in operands]
  got, want = (
      values_and_gradients(row_attention.attend, of, segments, (), drop, 0)
      for of in (half, [x.astype(jnp.float32) for x in half])
  )
  for new, old in zip(got[1][:3], want[1][:3], strict=True):
    assert new.dtype == jnp.bfloat16
    # Two roundings of 2**-9 each, of entries of about 1.
    np.testing.assert_allclose(new.astype(jnp.float32), old, atol=0.05)
