"""Tests of poolings: each against a loop over the texts of packed rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast.batches import packed
from neg_contrast.models import pooling

_EXPECTED = {
    'cls': lambda text: text[0],
    'last': lambda text: text[-1],
    'mean': lambda text: text.mean(0),
    'weighted_mean': lambda text: np.average(
        text, axis=0, weights=1 + np.arange(len(text))
    ),
    'max': lambda text: text.max(0),
}


def _packed(lengths, row_length, slots):
  """Texts one after the other in two rows; slots past them are empty."""
  segment_ids = np.zeros((2, row_length), np.int32)
  positions = np.zeros_like(segment_ids)
  first_index, at = np.zeros(slots, np.int32), [0, 0]
  for number, length in enumerate(lengths):
    row = number % 2
    where = slice(at[row], at[row] + length)
    segment_ids[row, where] = number + 1
    positions[row, where] = np.arange(length)
    first_index[number] = row * row_length + at[row]
    at[row] += length
  return packed.PackedSequences(
      segment_ids, segment_ids, positions, first_index
  )


def test_every_pooling_has_an_expectation():
  assert set(_EXPECTED) == set(pooling.POOLINGS)


@pytest.mark.parametrize('name', pooling.POOLINGS)
def test_it_is_the_loop(name):
  lengths, row_length, slots = [3, 1, 4, 5], 10, 6
  sequences = _packed(lengths, row_length, slots)
  hidden = np.random.default_rng(0).normal(
      size=(2 * row_length, 4)
  ).astype(np.float32)
  got = jax.jit(pooling.POOLINGS[name].pool)(jnp.asarray(hidden), sequences)
  for slot, length in enumerate(lengths):
    start = sequences.first_index[slot]
    np.testing.assert_allclose(
        got[slot], _EXPECTED[name](hidden[start:start + length]),
        rtol=1e-6, atol=1e-7,
    )
  assert (np.asarray(got[len(lengths):]) == 0).all()


@pytest.mark.parametrize('name', pooling.POOLINGS)
def test_a_text_without_tokens_is_zeros(name):
  """Of a tokenizer whose template is empty; nothing of its neighbours."""
  sequences = _packed([3, 0, 4, 0, 3, 5, 0], 10, 7)
  hidden = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
  got = np.asarray(pooling.POOLINGS[name].pool(jnp.asarray(hidden), sequences))
  assert [not row.any() for row in got] == [
      False, True, False, True, False, False, True]


@pytest.mark.parametrize('name', pooling.POOLINGS)
def test_padding_and_row_mates_change_nothing(name):
  sequences = _packed([3, 1, 4, 5], 10, 6)
  hidden = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
  own = np.asarray(sequences.segment_ids).reshape(-1) == 3
  other = np.where(own[:, None], hidden, 100 * hidden[::-1])
  pool = pooling.POOLINGS[name].pool
  np.testing.assert_array_equal(
      pool(jnp.asarray(hidden), sequences)[2],
      pool(jnp.asarray(other), sequences)[2],
  )
  gradient = jax.grad(lambda h: pool(h, sequences)[2].sum())(
      jnp.asarray(hidden)
  )
  assert not np.asarray(gradient)[~own].any()
