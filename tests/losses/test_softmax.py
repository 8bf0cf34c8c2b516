"""The loss against an explicit loop, and against sentence-transformers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast.losses import softmax


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
  terms = softmax.batch_softmax(q, p, n, 1.7, forward, backward)
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
    return softmax.batch_softmax(q, p, n, 2.0, forward, backward).loss

  grads = np.asarray(jax.grad(loss)(n))
  assert np.abs(grads[3, 1]).max() == 0
  assert np.abs(grads[3, 0]).max() > 0
  changed = n.at[3, 1].set(1e3)
  assert loss(changed) == loss(n)


def test_permuting_the_batch_permutes_the_terms():
  q, p, n, _, _ = random_batch(3)
  ones = np.ones((5, 15), bool)
  order = np.array([3, 0, 4, 1, 2])
  terms = softmax.batch_softmax(q, p, n, 2.0, ones, ones[:, :5])
  moved = softmax.batch_softmax(
      q[order], p[order], n[order], 2.0, ones, ones[:, :5]
  )
  np.testing.assert_allclose(moved.forward, terms.forward[order], rtol=1e-5)
  np.testing.assert_allclose(moved.backward, terms.backward[order], rtol=1e-5)


def test_equals_sentence_transformers_symmetric_loss():
  torch = pytest.importorskip('torch')
  from sentence_transformers import util

  q, p, _, _, _ = random_batch(4, batch=6)
  ours = softmax.batch_softmax(
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


@pytest.mark.parametrize('negatives', [0, 2])
def test_contrast_by_source_against_a_loop(negatives):
  q, p, n, forward, backward = random_batch(3, batch=6, negatives=negatives)
  sources = np.random.default_rng(1).integers(-1, 2, (6, negatives))
  for i, k in zip(*np.nonzero(sources < 0), strict=True):
    forward[:, 6 + i * negatives + k] = False
  terms = softmax.batch_softmax(q, p, n, 3.0, forward, backward)
  got = softmax.contrast_by_source(
      terms.scores, sources.astype(np.int32), 3.0, ('bm25', 'context'))
  candidates = np.concatenate([p, np.asarray(n).reshape(6 * negatives, 7)])
  dots = np.asarray(q) @ candidates.T
  mass = np.where(forward, np.exp(3 * dots), 0)
  mass /= mass.sum(axis=1, keepdims=True)
  positive_mass = np.mean([mass[i, i] for i in range(6)])
  for number, name in ((-1, 'batch'), (0, 'bm25'), (1, 'context')):
    scores, shares, right = [], 0.0, []
    for i in range(6):
      own = range(6 + i * negatives, 6 + (i + 1) * negatives)
      if name == 'batch':
        chosen = [j for j in range(len(candidates)) if j != i and j not in own]
      else:
        chosen = [own[k] for k in range(negatives) if sources[i, k] == number]
      chosen = [j for j in chosen if forward[i, j]]
      scores += [dots[i, j] for j in chosen]
      shares += sum(mass[i, j] for j in chosen) / 6
      if chosen:
        right.append(dots[i, i] > max(dots[i, j] for j in chosen))
    np.testing.assert_allclose(got[name].score, np.mean(scores or [0]),
                               atol=1e-5)
    np.testing.assert_allclose(got[name].mass, shares, atol=1e-5)
    np.testing.assert_allclose(got[name].accuracy,
                               np.mean(right) if right else 1)
  np.testing.assert_allclose(
      sum(float(kind.mass) for kind in got.values()) + positive_mass, 1,
      atol=1e-5)


@pytest.mark.parametrize('smoothing', [0.0, 0.1])
def test_token_cross_entropy_equals_torch(smoothing):
  import torch

  rng = np.random.default_rng(0)
  logits = rng.normal(size=(2, 5, 11)).astype(np.float32) * 3
  targets = rng.integers(0, 11, (2, 5))
  is_target = rng.random((2, 5)) < 0.7
  loss, accuracy = softmax.token_cross_entropy(
      jnp.asarray(logits), targets, is_target, smoothing)
  want = torch.nn.functional.cross_entropy(
      torch.tensor(logits[is_target]), torch.tensor(targets[is_target]),
      label_smoothing=smoothing)
  np.testing.assert_allclose(loss, want.item(), rtol=1e-5)
  hits = logits.argmax(-1) == targets
  np.testing.assert_allclose(accuracy, hits[is_target].mean(), rtol=1e-6)


def test_candidate_softmax_equals_explicit_loop():
  rng = np.random.default_rng(3)
  scores = jnp.asarray(rng.normal(size=(5, 7)) * 3, jnp.float32)
  there = rng.random((5, 7)) < 0.6
  there[:, 0] = True
  want = [np.log(sum(np.exp(float(s)) for s, ok in zip(line, real, strict=True)
                     if ok)) - float(line[0])
          for line, real in zip(scores, there, strict=True)]
  got = softmax.candidate_softmax(scores, there)
  np.testing.assert_allclose(got, want, rtol=1e-5)
  grads = jax.grad(lambda s: softmax.candidate_softmax(s, there).sum())(
      scores.at[0, 0].set(-200.0))
  assert np.isfinite(grads).all() and (np.asarray(grads)[~there] == 0).all()
