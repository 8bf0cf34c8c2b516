"""The loss against an explicit loop, and against sentence-transformers."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast.losses import softmax as softmax_lib
from tests.losses import vector_batches


def by_loop(vectors, scale, forward_mask, backward_mask):
  """Equations 1 to 3, one exponential at a time."""
  q, p, n, corpus, queue = map(np.asarray, vectors)
  batch, negatives = len(q), n.shape[1]
  candidates = list(p) + [n[i, j] for i in range(batch)
                          for j in range(negatives)]
  candidates += [*corpus, *queue]
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


def softmax(vectors, batch, scale):
  """Both directions, and their mean."""
  scores = vector_batches.scores(vectors, batch, scale)
  loss = softmax_lib.SoftmaxLoss(True)
  return types.SimpleNamespace(
      forward=softmax_lib.softmax(scores),
      backward=softmax_lib.softmax(scores.backward(batch.backward_mask)),
      loss=loss.of_scores(scores, batch)[0],
  )


@pytest.mark.parametrize(('negatives', 'corpus', 'queue'), [
    (0, 0, 0), (1, 0, 0), (3, 0, 0), (0, 2, 0), (1, 0, 4), (2, 2, 3),
])
def test_equals_explicit_loop(negatives, corpus, queue):
  vectors, batch = vector_batches.make(
      1, negatives=negatives, corpus=corpus, queue=queue)
  terms = softmax(vectors, batch, 1.7)
  want = by_loop(vectors, 1.7, batch.forward_mask, batch.backward_mask)
  np.testing.assert_allclose(terms.forward, want[0], rtol=1e-5, atol=1e-5)
  np.testing.assert_allclose(terms.backward, want[1], rtol=1e-5, atol=1e-5)
  np.testing.assert_allclose(
      terms.loss, (want[0].mean() + want[1].mean()) / 2, rtol=1e-5
  )


def test_masked_candidates_have_no_gradient():
  vectors, batch = vector_batches.make(2)
  batch.forward_mask[:, 5 + 2 * 3 + 1] = False  # Hard negative 1 of row 3.
  batch.forward_mask[:, 5 + 2 * 3] = True

  def loss(n):
    return softmax(vectors._replace(negatives=n), batch, 2.0).loss

  grads = np.asarray(jax.grad(loss)(vectors.negatives))
  assert np.abs(grads[3, 1]).max() == 0
  assert np.abs(grads[3, 0]).max() > 0
  changed = vectors.negatives.at[3, 1].set(1e3)
  assert loss(changed) == loss(vectors.negatives)


def test_permuting_the_batch_permutes_the_terms():
  vectors, _ = vector_batches.make(3)
  ones = np.ones((5, 15), bool)
  batch = vector_batches.of_masks(ones, ones[:, :5], np.zeros((5, 2)))
  order = np.array([3, 0, 4, 1, 2])
  terms = softmax(vectors, batch, 2.0)
  own = {name: getattr(vectors, name)[order]
         for name in ('queries', 'positives', 'negatives')}
  moved = softmax(vectors._replace(**own), batch, 2.0)
  np.testing.assert_allclose(moved.forward, terms.forward[order], rtol=1e-5)
  np.testing.assert_allclose(moved.backward, terms.backward[order], rtol=1e-5)


def test_equals_sentence_transformers_symmetric_loss():
  torch = pytest.importorskip('torch')
  from sentence_transformers import util

  vectors, _ = vector_batches.make(4, batch=6, negatives=0)
  q, p = vectors.queries, vectors.positives
  unit = lambda vecs: vecs / jnp.linalg.norm(vecs, axis=1, keepdims=True)
  ones = np.ones((6, 6), bool)
  ours = softmax(
      vectors._replace(queries=unit(q), positives=unit(p)),
      vector_batches.of_masks(ones, ones, np.zeros((6, 0))), 20.0,
  )
  scores = 20 * util.cos_sim(torch.tensor(np.asarray(q)),
                             torch.tensor(np.asarray(p)))
  labels = torch.arange(6)
  cross_entropy = torch.nn.functional.cross_entropy
  theirs = (cross_entropy(scores, labels)
            + cross_entropy(scores.T, labels)) / 2
  np.testing.assert_allclose(ours.loss, theirs.item(), rtol=1e-5)
