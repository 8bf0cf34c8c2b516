"""A gold among candidates of its own, against a loop."""

import jax
import jax.numpy as jnp
import numpy as np

from neg_contrast.losses import candidate_softmax as candidates


def test_candidate_softmax_equals_explicit_loop():
  rng = np.random.default_rng(3)
  scores = jnp.asarray(rng.normal(size=(5, 7)) * 3, jnp.float32)
  there = rng.random((5, 7)) < 0.6
  there[:, 0] = True
  want = [np.log(sum(np.exp(float(s)) for s, ok in zip(line, real, strict=True)
                     if ok)) - float(line[0])
          for line, real in zip(scores, there, strict=True)]
  got = candidates.candidate_softmax(scores, there)
  np.testing.assert_allclose(got, want, rtol=1e-5)
  grads = jax.grad(lambda s: candidates.candidate_softmax(s, there).sum())(
      scores.at[0, 0].set(-200.0))
  assert np.isfinite(grads).all() and (np.asarray(grads)[~there] == 0).all()


def test_where_no_query_has_negatives_there_are_none():
  scores = jnp.zeros((2, 3))
  there = np.array([[True, False, False]] * 2)
  assert candidates.mean_effective_negatives(scores, there) == 0
  there[0, 1:] = True
  np.testing.assert_allclose(
      candidates.mean_effective_negatives(scores, there), 2, rtol=1e-6)


def test_effective_negatives():
  scores = jnp.asarray([[9.0, 0, 0, 0, 0], [0, 50.0, 0, 0, 0], [1, 2, 2, 7, 7]])
  there = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], bool)
  np.testing.assert_allclose(
      candidates.effective_negatives(scores, there), [4, 1, 2], rtol=1e-5)
