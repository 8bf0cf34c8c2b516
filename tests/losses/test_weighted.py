"""Weights of examples in every loss: loops, finite differences, laws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import scoring, sharding
from neg_contrast.losses import (
  distillation,
  gradient_cache,
  kl_divergence,
  loss_table,
  margin_mse,
  matryoshka,
  own_candidates,
  weighted,
)
from neg_contrast.settings import config as config_lib
from tests.losses import (
  test_distillation,
  test_gradient_cache,
  test_reranker_loss,
  vector_batches,
)

SCALE = 1.3
OWN = {'candidates': 'own', 'bidirectional': False}
SETTINGS = [
    {'kind': 'softmax'},
    {'kind': 'softmax', 'bidirectional': False},
    {'kind': 'softmax', 'hardest': 3},
    {'kind': 'softmax', **OWN},
    {'kind': 'triplet', 'distance': 'dot', 'margin': 0.7},
    {'kind': 'hinge', 'margin': 0.7, **OWN},
    {'kind': 'hinge', 'margin': 2.5},
    {'kind': 'lambdarank'},
    {'kind': 'bce', 'positive_weight': 3.0, 'offset': 0.4},
    {'kind': 'bce', 'hardest': 2, **OWN},
]
ids = lambda values: '-'.join(map(str, values.values()))
both = pytest.mark.parametrize('settings', SETTINGS, ids=ids)


def test_every_loss_of_the_table_is_here():
  assert {one['kind'] for one in SETTINGS} == {*loss_table.LOSSES}


def make(settings, seed=5, corpus=2, queue=3):
  """A loss, and a batch whose examples have very different weights."""
  made = config_lib.LossConfig(**settings)
  vectors, batch = vector_batches.make(seed, corpus=corpus, queue=queue)
  weights = np.random.default_rng(seed).uniform(0.1, 4, 5).astype(np.float32)
  return loss_table.make(made), vectors, batch.replace(weights=weights)


def value(loss, vectors, batch):
  return loss(vectors, batch, SCALE, scoring.DUAL, vector_batches.SOURCES)


def one(loss, own, others):
  """The loss of a query with the scores of its candidates."""
  others = sorted(others)[::-1][:loss.hardest or None]
  name = type(loss).__name__
  if name == 'SoftmaxLoss':
    return np.log(sum(np.exp(s) for s in [own, *others])) - own
  if name == 'BinaryCrossEntropyLoss':
    terms = [np.log1p(np.exp(s - loss.offset)) for s in others]
    first = loss.positive_weight * np.log1p(np.exp(loss.offset - own))
    return (first + sum(terms)) / (1 + len(terms))
  if name == 'LambdaRankLoss':
    ranked = sorted([own, *others], reverse=True)
    return sum(abs(1 / (1 + ranked.index(own)) - 1 / (1 + ranked.index(s)))
               * np.log1p(np.exp(s - own)) for s in others)
  over = [max(0.0, loss.margin - own + s) for s in others]
  return np.mean(over) if over else 0.0


def by_loop(loss, vectors, batch):
  """Weighted means of both directions, in float64, an example at a time."""
  q, p, n, corpus, queue = (np.asarray(a, np.float64) for a in vectors)
  scale = SCALE if loss.has_scale else 1.0
  total = forward = backward = 0.0
  for i, weight in enumerate(map(float, batch.weights)):
    every = [*p, *n.reshape(-1, n.shape[-1]), *corpus, *queue]
    if loss.candidates == 'own':
      others = [n[i, k] for k in range(n.shape[1])
                if batch.negative_sources[i, k] >= 0]
    else:
      others = [c for j, c in enumerate(every)
                if j != i and batch.forward_mask[i, j]]
    own = scale * (q[i] @ p[i])
    forward += weight * one(loss, own, [scale * (q[i] @ c) for c in others])
    backward += weight * one(loss, own, [
        scale * (q[m] @ p[i]) for m in range(len(q))
        if m != i and batch.backward_mask[i, m]
    ])
    total += weight
  ways = [forward, backward] if loss.bidirectional else [forward]
  return np.mean(ways) / total


@both
@pytest.mark.parametrize('seed', range(3))
def test_a_weighted_loss_is_a_loop(settings, seed):
  loss, vectors, batch = make(settings, seed)
  got, metrics = value(loss, vectors, batch)
  np.testing.assert_allclose(got, by_loop(loss, vectors, batch), rtol=1e-5)
  plain = value(loss, vectors, batch.replace(weights=None))[0]
  assert abs(float(got) - float(plain)) > 1e-5
  assert all(kind.gradient >= 0 for kind in metrics['contrast'].values())


@both
def test_gradients_are_those_of_finite_differences(settings):
  loss, vectors, batch = make(settings, 7)
  gradient = jax.grad(lambda some: value(loss, some, batch)[0])(vectors)
  rng = np.random.default_rng(3)
  for _ in range(3):
    way = type(vectors)(*(rng.normal(size=a.shape) for a in vectors))
    up, down = (by_loop(loss, type(vectors)(*(
        np.asarray(a, np.float64) + sign * 1e-6 * w
        for a, w in zip(vectors, way, strict=True)
    )), batch) for sign in (1, -1))
    slope = sum(float((np.asarray(a, np.float64) * w).sum())
                for a, w in zip(gradient, way, strict=True))
    np.testing.assert_allclose(slope, (up - down) / 2e-6, rtol=2e-4, atol=1e-6)


@both
def test_a_common_factor_changes_nothing_and_equal_weights_mean_none(settings):
  loss, vectors, batch = make(settings)
  first = value(loss, vectors, batch)[0]
  scaled = batch.replace(weights=4 * batch.weights)  # A power of two: exact.
  assert value(loss, vectors, scaled)[0] == first
  equal = batch.replace(weights=np.full(5, 2.5, np.float32))
  np.testing.assert_allclose(
      value(loss, vectors, equal)[0],
      value(loss, vectors, batch.replace(weights=None))[0], rtol=1e-6)


def test_an_example_of_weight_two_is_there_twice():
  """Of own candidates, where examples are nothing to each other."""
  loss, vectors, batch = make({'kind': 'softmax', **OWN})
  twice = np.array([0, 1, 1, 2, 3, 3, 4])
  repeated = vectors._replace(**{
      name: getattr(vectors, name)[twice]
      for name in ('queries', 'positives', 'negatives')
  })
  want = value(loss, repeated, batch.replace(
      weights=None, negative_sources=batch.negative_sources[twice]))[0]
  got = value(loss, vectors, batch.replace(
      weights=np.array([1, 2, 1, 2, 1], np.float32)))[0]
  np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize('name', test_distillation.LOSSES)
def test_a_teacher_weighs_queries(name):
  scores, teacher, is_taught = test_distillation.make(4)
  weights = np.array([0.5, 7, 2, 3, 1, 0.2], np.float32)
  kinds = {'margin_mse': margin_mse.margin_mse,
           'kl': kl_divergence.kl_divergence}
  compare = lambda s: kinds[name](s, jnp.asarray(teacher, s.dtype), is_taught,
                                  weights)

  def loop(scores):
    total = count = 0.0
    for row in range(len(scores)):
      only = np.zeros_like(is_taught)
      only[row] = is_taught[row]
      number = ((only[:, 1:] & only[:, :1]).sum() if name == 'margin_mse'
                else float(only.sum() > 1))
      mean = test_distillation.by_loop(name, scores, teacher, only)
      total += weights[row] * mean * number
      count += weights[row] * number
    return total / count

  got = compare(jnp.asarray(scores, jnp.float32))
  np.testing.assert_allclose(got, loop(scores), rtol=2e-5)
  with jax.enable_x64(True):
    slopes = np.asarray(jax.grad(compare)(jnp.asarray(scores)))
  rng = np.random.default_rng(1)
  way = rng.normal(size=scores.shape)
  slope = (loop(scores + 1e-6 * way) - loop(scores - 1e-6 * way)) / 2e-6
  np.testing.assert_allclose((slopes * way).sum(), slope, rtol=1e-5)


def test_both_parts_of_a_distilled_loss_are_weighted():
  loss, vectors, batch = make({'kind': 'softmax'})
  teacher = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
  batch = batch.replace(teacher_scores=teacher)
  both_parts = distillation.of_loss(
      loss, distillation.Distillation(margin_mse.margin_mse, 0.25))
  got, metrics = value(both_parts, vectors, batch)
  own = own_candidates.score_own(vectors, batch, SCALE, scoring.DUAL,
                                 vector_batches.SOURCES)
  taught = margin_mse.margin_mse(
      own.scores, jnp.asarray(teacher), own.is_candidate, batch.weights)
  contrastive = by_loop(loss, vectors, batch)
  np.testing.assert_allclose(metrics['contrastive_loss'], contrastive,
                             rtol=1e-5)
  np.testing.assert_allclose(got, 0.75 * contrastive + 0.25 * taught,
                             rtol=1e-5)


def test_the_widths_of_matryoshka_are_weighted():
  loss, vectors, batch = make({'kind': 'softmax'})
  got, _ = matryoshka.mean_over(
      (3,), False, lambda some: value(loss, some, batch), vectors)
  narrow = jax.tree.map(lambda a: a[..., :3], vectors)
  want = np.mean([by_loop(loss, some, batch) for some in (vectors, narrow)])
  np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize('settings', [
    {'kind': 'softmax'}, {'kind': 'bce', 'positive_weight': 3.5},
    {'kind': 'hinge', 'margin': 2.5}, {'kind': 'lambdarank'},
], ids=ids)
def test_a_reranker_weighs_its_queries(settings):
  scores, batch = test_reranker_loss.make(2)
  weights = np.array([3, 0.5, 1, 0.1, 2], np.float32)
  (got, _), grads = test_reranker_loss.loss_of(
      scores, batch.replace(weights=weights), **settings)

  def loop(scores):
    alone = [test_reranker_loss.by_loop(
        scores, batch.replace(candidate_slots=batch.candidate_slots[i:i + 1],
                              is_candidate=batch.is_candidate[i:i + 1]),
        settings['kind'], settings.get('positive_weight', 1.0),
        settings.get('margin', 1.0),
    ) for i in range(5)]
    return float(np.average(alone, weights=weights))

  np.testing.assert_allclose(got, loop(scores), rtol=1e-5)
  scores = scores.astype(np.float64)
  way = np.random.default_rng(1).normal(size=scores.shape)
  slope = (loop(scores + 1e-6 * way) - loop(scores - 1e-6 * way)) / 2e-6
  np.testing.assert_allclose(
      (np.asarray(grads['reranker']['table']) * way).sum(), slope, rtol=2e-4)


def test_a_reranker_with_a_teacher_hands_it_the_weights():
  scores, batch = test_reranker_loss.make(3)
  teacher = np.random.default_rng(0).normal(size=batch.is_candidate.shape)
  batch = batch.replace(teacher_scores=teacher.astype(np.float32),
                        weights=np.array([3, 0.5, 1, 0.1, 2], np.float32))
  (_, metrics), _ = test_reranker_loss.loss_of(
      scores, batch, distillation.Distillation(margin_mse.margin_mse, 0.5))
  want = margin_mse.margin_mse(
      jnp.asarray(scores)[batch.candidate_slots],
      jnp.asarray(teacher, jnp.float32), batch.is_candidate, batch.weights)
  np.testing.assert_allclose(metrics['distil_loss'], want, rtol=1e-5)


def test_the_gradient_cache_has_the_same_weights():
  """Dropout on, eight groups, chunks of two."""
  batch = test_gradient_cache.make_batch().replace(
      weights=np.random.default_rng(0).uniform(0.1, 3, 16).astype(np.float32))
  loss, init = test_gradient_cache.make_loss()
  want, _ = test_gradient_cache.train(loss, init, batch)
  got, _ = test_gradient_cache.train(*test_gradient_cache.make_loss(
      gradient_cache.Chunks(2, 1)), batch)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(
      a, b, atol=1e-5 * max(1.0, float(np.abs(b).max()))), got, want)
  plain, _ = jax.jit(loss)(
      jax.jit(init)(), batch.replace(weights=None), jax.random.key(0))
  assert abs(plain - want[0][0][0][0]) > 1e-3


def test_eight_devices_have_the_loss_of_one():
  batch = test_gradient_cache.make_batch().replace(
      weights=np.random.default_rng(0).uniform(0.1, 3, 16).astype(np.float32))
  loss, init = test_gradient_cache.make_loss()
  params = jax.device_get(jax.jit(init)())
  seen = []
  for devices in (1, 8):
    mesh = sharding.make_mesh(config_lib.MeshConfig(data=devices))
    placed = sharding.put(batch, sharding.batch_shardings(batch, mesh))
    there = jax.device_put(params, sharding.replicated(mesh))
    seen.append(jax.device_get(jax.jit(jax.value_and_grad(
        lambda *some: loss(*some)[0]))(there, placed, jax.random.key(2))))
    assert len(placed.weights.sharding.device_set) == devices
  np.testing.assert_allclose(seen[1][0], seen[0][0], rtol=1e-5)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4),
               seen[1][1], seen[0][1])


def test_without_weights_it_is_the_plain_mean():
  values = jnp.asarray(np.random.default_rng(0).normal(size=7), jnp.float32)
  assert weighted.mean(values, None) == jnp.mean(values)
