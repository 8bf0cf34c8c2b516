"""Losses of pairs against loops, finite differences, and torch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import scoring
from neg_contrast.losses import (
  binary_cross_entropy,
  hinge,
  lambda_rank,
  softmax,
  triplet,
)
from tests.losses import vector_batches

COSINE = lambda u, v: u @ v / np.linalg.norm(u) / np.linalg.norm(v)
LOSSES = {
    'cosine': triplet.TripletLoss(True, margin=0.7),
    'euclidean': triplet.TripletLoss(
        True, margin=0.7, distance='euclidean', hardest=2),
    'dot': triplet.TripletLoss(False, margin=0.7, distance='dot'),
    'hinge': hinge.HingeLoss(True, margin=0.7),
    'hinge of the hardest': hinge.HingeLoss(True, margin=0.7, hardest=3),
    'bce': binary_cross_entropy.BinaryCrossEntropyLoss(
        True, positive_weight=3.0),
    'own bce': binary_cross_entropy.BinaryCrossEntropyLoss(
        False, candidates='own', hardest=1),
    'bce with an offset': binary_cross_entropy.BinaryCrossEntropyLoss(
        True, offset=1.5),
    'own hinge': hinge.HingeLoss(False, candidates='own', margin=2.0),
    'lambdarank': lambda_rank.LambdaRankLoss(True),
    'lambdarank of the hardest': lambda_rank.LambdaRankLoss(False, hardest=3),
    'own lambdarank': lambda_rank.LambdaRankLoss(False, candidates='own'),
}
SCALE = 1.3


def value(loss, vectors, batch):
  return loss(vectors, batch, SCALE, scoring.DUAL, vector_batches.SOURCES)


def by_loop(loss, vectors, batch):
  """One pair of texts after another, in float64."""
  compare = {
      'cosine': COSINE, 'dot': np.dot,
      'euclidean': lambda u, v: -np.linalg.norm(u - v),
  }.get(getattr(loss, 'distance', ''), lambda u, v: SCALE * (u @ v))
  queries, positives, hard, corpus, queue = (
      np.asarray(some, np.float64) for some in vectors)
  size, number, _ = hard.shape

  def one(query, positive, negatives):
    own = compare(query, positive)
    others = sorted(compare(query, one) for one in negatives)[::-1]
    others = others[:loss.hardest or None]
    if isinstance(loss, binary_cross_entropy.BinaryCrossEntropyLoss):
      terms = [np.log1p(np.exp(other - loss.offset)) for other in others]
      return (loss.positive_weight * np.log1p(np.exp(loss.offset - own))
              + sum(terms)) / (1 + len(terms))
    if isinstance(loss, lambda_rank.LambdaRankLoss):
      ranked = sorted([own, *others], reverse=True)
      rank = lambda score: 1 + ranked.index(score)
      return sum(abs(1 / rank(own) - 1 / rank(other))
                 * np.log1p(np.exp(other - own)) for other in others)
    return np.mean([max(0.0, loss.margin - own + other) for other in others]
                   ) if others else 0.0

  forward, backward = [], []
  for i in range(size):
    if loss.candidates == 'own':
      negatives = [hard[i, k] for k in range(number)
                   if batch.negative_sources[i, k] >= 0]
    else:
      every = [*positives, *(hard[m, k] for m in range(size)
                             for k in range(number)), *corpus, *queue]
      negatives = [one for j, one in enumerate(every)
                   if j != i and batch.forward_mask[i, j]]
    forward.append(one(queries[i], positives[i], negatives))
    backward.append(one(positives[i], queries[i], [
        queries[n] for n in range(size) if n != i and batch.backward_mask[i, n]
    ]))
  if not loss.bidirectional:
    return np.mean(forward)
  return (np.mean(forward) + np.mean(backward)) / 2


@pytest.mark.parametrize('name', LOSSES)
@pytest.mark.parametrize(('negatives', 'corpus', 'queue'), [
    (2, 0, 0), (0, 3, 2), (1, 0, 4),
])
def test_equals_a_loop(name, negatives, corpus, queue):
  loss = LOSSES[name]
  if loss.candidates == 'own' and not negatives:
    negatives = 3
  vectors, batch = vector_batches.make(
      5, negatives=negatives, corpus=corpus, queue=queue)
  got, metrics = value(loss, vectors, batch)
  np.testing.assert_allclose(got, by_loop(loss, vectors, batch), rtol=1e-5)
  assert 0 <= metrics['accuracy'] <= 1
  assert all(kind.gradient >= 0 for kind in metrics['contrast'].values())


@pytest.mark.parametrize('name', LOSSES)
def test_gradients_are_those_of_finite_differences(name):
  """Of the loop, in float64, along random directions."""
  loss = LOSSES[name]
  vectors, batch = vector_batches.make(7, negatives=2, corpus=2)
  gradient = jax.grad(lambda some: value(loss, some, batch)[0])(vectors)
  rng = np.random.default_rng(3)
  for _ in range(4):
    step = type(vectors)(*(rng.normal(size=some.shape) for some in vectors))
    moved = [by_loop(loss, type(vectors)(*(
        np.asarray(some, np.float64) + sign * 1e-6 * way
        for some, way in zip(vectors, step, strict=True)
    )), batch) for sign in (1, -1)]
    slope = sum(float((np.asarray(one, np.float64) * way).sum())
                for one, way in zip(gradient, step, strict=True))
    np.testing.assert_allclose(
        slope, (moved[0] - moved[1]) / 2e-6, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize('name', LOSSES)
def test_what_is_masked_changes_nothing(name):
  vectors, batch = vector_batches.make(9, negatives=2, kept=1.0)
  batch.negative_sources[3, 1] = -1
  batch.forward_mask[:, 5 + 2 * 3 + 1] = False
  first = value(LOSSES[name], vectors, batch)[0]
  moved = vectors._replace(negatives=vectors.negatives.at[3, 1].set(50.0))
  assert first == value(LOSSES[name], moved, batch)[0]
  moved = vectors._replace(
      negatives=vectors.negatives.at[3, 0].set(2 * vectors.queries[3]))
  assert first != value(LOSSES[name], moved, batch)[0]


def test_the_hardest_of_all_are_all():
  vectors, batch = vector_batches.make(11, kept=1.0)
  plain = value(LOSSES['hinge'], vectors, batch)[0]
  every = hinge.HingeLoss(True, margin=0.7, hardest=14)
  np.testing.assert_allclose(value(every, vectors, batch)[0], plain, rtol=1e-6)


@pytest.mark.parametrize('distance', ['cosine', 'euclidean'])
def test_equals_sentence_transformers_triplets(distance):
  torch = pytest.importorskip('torch')
  from sentence_transformers import losses as theirs

  vectors, batch = vector_batches.make(13, negatives=1, kept=1.0)
  batch.negative_sources[:] = 0
  metric = theirs.TripletDistanceMetric
  made = theirs.TripletLoss(
      None, {'cosine': metric.COSINE, 'euclidean': metric.EUCLIDEAN}[distance],
      triplet_margin=0.7)
  want = made.compute_loss_from_embeddings([
      torch.tensor(np.asarray(some)) for some in (
          vectors.queries, vectors.positives, vectors.negatives[:, 0])
  ], None)
  ours = triplet.TripletLoss(
      False, candidates='own', margin=0.7, distance=distance)
  np.testing.assert_allclose(
      value(ours, vectors, batch)[0], want.item(), rtol=1e-5)


def test_equals_torch_binary_cross_entropy():
  torch = pytest.importorskip('torch')

  vectors, batch = vector_batches.make(15, negatives=2, kept=1.0)
  batch.negative_sources[:] = 0
  scores = np.asarray(vector_batches.scores(vectors, batch, SCALE).scores)
  # Hard negatives that are missing are none here.
  batch.forward_mask[:] = True
  want = torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0))(
      torch.tensor(scores), torch.eye(*scores.shape))
  ours = binary_cross_entropy.BinaryCrossEntropyLoss(
      False, positive_weight=3.0)
  np.testing.assert_allclose(
      value(ours, vectors, batch)[0], want.item(), rtol=1e-5)


def test_distances_of_equal_and_of_zero_vectors_have_finite_gradients():
  vectors = jnp.zeros((2, 3))
  for compare in (triplet.cosine, triplet.nearness):
    gradient = jax.grad(lambda some, f=compare: f(some, some).sum())(vectors)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize('name', ['own bce', 'own hinge', 'own lambdarank',
                                  'softmax'])
def test_logged_gradients_are_those_of_the_vectors(name):
  """The norm with respect to a hard negative's vector is that times |q|."""
  vectors, batch = vector_batches.make(4, negatives=1)
  batch.negative_sources[:, 0] = [0, 1, 0, -1, 1]
  loss = LOSSES.get(name, softmax.SoftmaxLoss(False, candidates='own'))
  kinds = value(loss, vectors, batch)[1]['contrast']
  slopes = jax.grad(lambda some: value(loss, some, batch)[0])(vectors)
  norms = 5 * np.linalg.norm(slopes.negatives[:, 0], axis=1) / np.linalg.norm(
      vectors.queries, axis=1)
  for number, source in enumerate(vector_batches.SOURCES):
    chosen = batch.negative_sources[:, 0] == number
    np.testing.assert_allclose(
        kinds[source].gradient, norms[chosen].mean(), rtol=1e-4, atol=1e-6)


def test_hinge_is_the_scaled_triplet_loss():
  vectors, batch = vector_batches.make(5)
  ours = value(hinge.HingeLoss(True, margin=0.7), vectors, batch)[0]
  other = value(triplet.TripletLoss(
      True, margin=0.7 / SCALE, distance='dot'), vectors, batch)[0]
  np.testing.assert_allclose(ours, SCALE * other, rtol=1e-5)
