"""The loss against an explicit loop, and against sentence-transformers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast.losses import batch_softmax


def by_loop(q, p, n, scale, forward_mask, backward_mask):
  """Equations 1 to 3, one exponential at a time."""
  batch, negatives = len(q), n.shape[1]
  candidates = list(p) + [n[i, j] for i in range(batch)
                          for j in range(negatives)]
  forward, backward = [], []
  for i in range(batch):
    own = scale * float(q[i] @ p[i])
    total = sum(np.exp(scale * float(q[i] @ c))
                for j, c in enumerate(candidates) if forward_mask[i, j])
    forward.append(np.log(total) - own)
    total = sum(np.exp(scale * float(q[m] @ p[i]))
                for m in range(batch) if backward_mask[i, m])
    backward.append(np.log(total) - own)
  return np.array(forward), np.array(backward)


def random_batch(seed, batch=5, negatives=2, features=7):
  rng = np.random.default_rng(seed)
  q, p = rng.normal(size=(2, batch, features))
  n = rng.normal(size=(batch, negatives, features))
  forward = rng.random((batch, batch * (1 + negatives))) < 0.7
  backward = rng.random((batch, batch)) < 0.7
  own = np.arange(batch)
  forward[own, own] = backward[own, own] = True
  as32 = lambda a: jnp.asarray(a, jnp.float32)
  return as32(q), as32(p), as32(n), forward, backward


@pytest.mark.parametrize('negatives', [0, 1, 3])
def test_equals_explicit_loop(negatives):
  q, p, n, forward, backward = random_batch(1, negatives=negatives)
  terms = batch_softmax.batch_softmax(q, p, n, 1.7, forward, backward)
  want = by_loop(*map(np.asarray, (q, p, n)), 1.7, forward, backward)
  np.testing.assert_allclose(terms.forward, want[0], rtol=1e-5, atol=1e-5)
  np.testing.assert_allclose(terms.backward, want[1], rtol=1e-5, atol=1e-5)
  np.testing.assert_allclose(
      terms.loss, (want[0].mean() + want[1].mean()) / 2, rtol=1e-5
  )


def test_masked_candidates_have_no_gradient():
  q, p, n, forward, backward = random_batch(2)
  forward[:, 5 + 2 * 3 + 1] = False  # Hard negative 1 of row 3, for all.

  def loss(n):
    return batch_softmax.batch_softmax(q, p, n, 2.0, forward, backward).loss

  grads = np.asarray(jax.grad(loss)(n))
  assert np.abs(grads[3, 1]).max() == 0
  assert np.abs(grads[3, 0]).max() > 0
  changed = n.at[3, 1].set(1e3)
  assert loss(changed) == loss(n)


def test_permuting_the_batch_permutes_the_terms():
  q, p, n, _, _ = random_batch(3)
  ones = np.ones((5, 15), bool)
  order = np.array([3, 0, 4, 1, 2])
  terms = batch_softmax.batch_softmax(q, p, n, 2.0, ones, ones[:, :5])
  moved = batch_softmax.batch_softmax(
      q[order], p[order], n[order], 2.0, ones, ones[:, :5]
  )
  np.testing.assert_allclose(moved.forward, terms.forward[order], rtol=1e-5)
  np.testing.assert_allclose(moved.backward, terms.backward[order], rtol=1e-5)


def test_equals_sentence_transformers_symmetric_loss():
  torch = pytest.importorskip('torch')
  from sentence_transformers import util

  q, p, _, _, _ = random_batch(4, batch=6)
  ours = batch_softmax.batch_softmax(
      q / jnp.linalg.norm(q, axis=1, keepdims=True),
      p / jnp.linalg.norm(p, axis=1, keepdims=True),
      jnp.zeros((6, 0, 7)), 20.0, np.ones((6, 6), bool), np.ones((6, 6), bool),
  )
  scores = 20 * util.cos_sim(torch.tensor(np.asarray(q)),
                             torch.tensor(np.asarray(p)))
  labels = torch.arange(6)
  cross_entropy = torch.nn.functional.cross_entropy
  theirs = (cross_entropy(scores, labels)
            + cross_entropy(scores.T, labels)) / 2
  np.testing.assert_allclose(ours.loss, theirs.item(), rtol=1e-5)
