"""Cuts and draws of tokens, against transformers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast.models import token_sampling as sampling

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')


def assert_frequency(got, probability, count):
  """Within five standard deviations, and five draws of what is rare."""
  spread = np.sqrt(probability * (1 - probability) / count)
  np.testing.assert_array_less(
      np.abs(got - probability), 5 * (spread + 1 / count))


@pytest.mark.parametrize('settings', [
    dict(temperature=0.6), dict(top_k=5), dict(top_p=0.7), dict(top_k=999),
    dict(temperature=1.7, top_k=12, top_p=0.8), dict(top_p=1e-4),
    dict(temperature=0.5, top_p=0.999),
])
def test_candidates_equal_transformers(settings):
  logits = np.random.default_rng(5).normal(size=(3, 8, 53), scale=2.5)
  logits = logits.astype(np.float32)
  weights, ids = sampling.candidates(
      jnp.asarray(logits),
      **{'temperature': 1.0, 'top_k': 0, 'top_p': 1.0, **settings})
  got = np.zeros_like(logits)
  ids = np.broadcast_to(np.arange(53), logits.shape) if ids is None else ids
  np.put_along_axis(got, np.asarray(ids), np.asarray(weights), -1)
  process = transformers.generation.logits_process
  theirs = torch.tensor(logits.reshape(-1, 53))
  for name, warper in (('temperature', process.TemperatureLogitsWarper),
                       ('top_k', process.TopKLogitsWarper),
                       ('top_p', process.TopPLogitsWarper)):
    if name in settings:
      theirs = warper(settings[name])(None, theirs)
  want = theirs.softmax(-1).numpy().reshape(logits.shape)
  np.testing.assert_array_equal(got > 0, want > 0)
  np.testing.assert_allclose(
      got / got.sum(-1, keepdims=True), want, atol=1e-6)


@pytest.mark.parametrize('top_p,spread', [(0.3, 1), (0.9, 0.1), (0.99, 6)])
def test_a_nucleus_is_the_least_that_is_enough(top_p, spread):
  logits = np.random.default_rng(6).normal(size=(60, 97), scale=spread)
  weights, _ = sampling.candidates(
      jnp.asarray(logits, jnp.float32), 1.0, 0, top_p)
  weights = np.asarray(weights, np.float64)
  all_of = np.exp(logits - logits.max(-1, keepdims=True))
  for kept, row in zip(weights, all_of, strict=True):
    assert kept.sum() >= (top_p - 1e-5) * row.sum()
    least = kept[kept > 0].min()
    assert kept.sum() - least < (top_p + 1e-5) * row.sum()
    assert least >= row[kept == 0].max(initial=0) * (1 - 1e-5)


def test_draws_follow_weights():
  """Over several blocks, with zeros at every border."""
  rng = np.random.default_rng(0)
  weights = rng.gamma(0.4, size=(2, 700)).astype(np.float32)
  weights[:, [0, 255, 256, 511, 699]] = 0
  weights[:, rng.choice(700, 300)] = 0
  count = 40_000
  all_weights = jnp.asarray(weights)
  places = np.asarray(jax.jit(jax.vmap(
      lambda key: sampling.draw(all_weights, jax.random.uniform(key, (2, 2)))
  ))(jax.random.split(jax.random.key(1), count)))
  for row in range(2):
    got = np.bincount(places[:, row], minlength=700)
    assert not got[weights[row] == 0].any()
    assert_frequency(
        got / count, weights[row] / weights[row].sum(dtype=np.float64), count)
  for extreme, end in ((0.0, 0), (1 - 2**-24, -1)):
    at = sampling.draw(all_weights, jnp.full((2, 2), extreme))
    want = [np.flatnonzero(row)[end] for row in weights]
    np.testing.assert_array_equal(at, want)
