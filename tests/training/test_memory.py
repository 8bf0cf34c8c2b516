"""Queue and averages, against explicit loops."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from neg_contrast import losses
from neg_contrast.batches import queue
from neg_contrast.losses import dual_encoder_loss
from neg_contrast.models import dual_encoder, projections
from neg_contrast.training import memory as memory_lib
from neg_contrast.training import state as state_lib
from neg_contrast.training import step as step_lib
from tests import tiny
from tests.losses import test_gradient_cache

SIZE, FEATURES, LENGTH = 4, 7, 3


def test_the_places_of_a_ring_follow_from_the_step():
  length = 3
  ring = [-1] * length
  for step in range(11):
    held = queue.steps_held(step, length)
    assert [s if s >= 0 else -1 for s in held] == ring
    ages = [step - s for s in ring if s >= 0]
    assert queue.mean_age(step, length) == (np.mean(ages) if ages else 0)
    ring[step % length] = step


def make_batch(step, corpus=0, known=0):
  """A batch whose queries have candidates of the corpus and of the queue."""
  batch = test_gradient_cache.make_batch(size=SIZE, groups=2, seed=step)
  rng = np.random.default_rng(100 + step)
  shared = rng.random((SIZE, corpus + known * SIZE)) < 0.7
  slots = batch.negative_slots.reshape(-1)[:corpus]
  return batch.replace(
      corpus_slots=slots if corpus else None,
      forward_mask=np.concatenate([batch.forward_mask, shared], axis=1),
  )


def make_loss(kind, dropout=0.0, shared=True):
  spec = dual_encoder.EncoderSpec(
      tiny.bert_config(hidden_dropout=dropout, attention_dropout=0.0),
      pooling='mean', projections=(projections.Projection(FEATURES),),
      shared=shared,
  )
  params = jax.jit(lambda key: state_lib.dual_encoder_params(
      dual_encoder.init_params(spec, key), None
  ))(jax.random.key(1))
  encoder = dual_encoder.Encoder(spec)
  return dual_encoder_loss.make_loss(
      kind, encoder, 5.0, ('bm25',)
  ), encoder, params


def test_a_queue_equals_a_loop():
  """Four steps of a queue of three batches; the vectors are those of then."""
  from neg_contrast.losses import softmax

  loss, encoder, params = make_loss(softmax.SoftmaxLoss(True))
  optimizer = optax.sgd(0.5)
  memory = memory_lib.Memory(LENGTH, SIZE, FEATURES)
  state = state_lib.init_state(params, optimizer, memory)
  assert state.memory['queue'].shape == (LENGTH, SIZE, FEATURES)
  train = jax.jit(step_lib.make_train_step(loss, optimizer, 0, memory))
  encode = jax.jit(lambda params, batch: dual_encoder_loss.encode_batch(
      encoder, params, batch, None
  ))
  kept = np.zeros((LENGTH, SIZE, FEATURES))
  for step in range(5):
    batch = make_batch(step, corpus=2, known=LENGTH)
    vectors = jax.device_get(encode(state.params, batch))
    candidates = np.concatenate([
        vectors.positives, vectors.negatives.reshape(-1, FEATURES),
        vectors.corpus, kept.reshape(-1, FEATURES),
    ]).astype(np.float64)
    assert len(vectors.corpus) == 2 and not len(vectors.queue)
    forward, backward = [], []
    for i, query in enumerate(vectors.queries.astype(np.float64)):
      own = 5 * query @ vectors.positives[i]
      forward.append(np.log(sum(
          np.exp(5 * query @ candidate) for candidate, is_one
          in zip(candidates, batch.forward_mask[i], strict=True) if is_one
      )) - own)
      backward.append(np.log(sum(
          np.exp(5 * other @ vectors.positives[i]) for other, is_one
          in zip(vectors.queries, batch.backward_mask[i], strict=True)
          if is_one
      )) - own)
    state, metrics = train(state, batch)
    np.testing.assert_allclose(
        metrics['loss'], (np.mean(forward) + np.mean(backward)) / 2, rtol=1e-5
    )
    assert losses.REMEMBERED not in metrics
    masses = [kind.mass for kind in metrics['contrast'].values()]
    assert set(metrics['contrast']) == {
        'batch', 'bm25', 'shared_corpus', 'shared_queue'}
    assert 0 < sum(masses) < 1
    kept[step % LENGTH] = vectors.positives
    np.testing.assert_allclose(state.memory['queue'], kept, atol=1e-6)


@pytest.mark.parametrize('shared', [True, False])
def test_no_gradient_goes_through_the_queue(shared):
  from neg_contrast.losses import softmax

  loss, _, params = make_loss(softmax.SoftmaxLoss(False), 0.2,
                              shared)
  batch = make_batch(0, known=LENGTH)
  if not shared:
    batch = test_gradient_cache.make_batch(False, size=SIZE, groups=2)
    batch = batch.replace(forward_mask=np.pad(
        batch.forward_mask, ((0, 0), (0, SIZE * LENGTH)), constant_values=True
    ))
  some = np.random.default_rng(0).normal(size=(LENGTH, SIZE, FEATURES))
  tower = 'shared' if shared else 'passage'

  def value(params, momentum):
    known = {'queue': jnp.float32(some), 'momentum': momentum}
    result, metrics = loss(
        params, batch.replace(memory=known), jax.random.key(3)
    )
    return result, metrics[losses.REMEMBERED]

  gradient, remembered = jax.jit(jax.grad(value, 1, has_aux=True))(
      params, params['encoder'][tower]
  )
  assert not any(leaf.any() for leaf in jax.tree.leaves(gradient))
  # The same tower under the same masks gives the same vectors.
  plain = jax.jit(loss)(
      params, batch.replace(memory={'queue': jnp.float32(some)}),
      jax.random.key(3))[1][losses.REMEMBERED]
  np.testing.assert_allclose(remembered, plain, atol=1e-6)
  assert np.abs(plain).max() > 0.1


def test_averages_move_as_they_are_told():
  params = {'encoder': {'shared': {'w': jnp.array([1.0, 2.0])},
                        'query': {'w': jnp.array([5.0])}},
            'loss': {'log_scale': jnp.array(3.0)}}
  memory = memory_lib.Memory(tower='shared', momentum=0.75, ema=0.5)
  known = memory.first(params)
  assert set(known) == {'momentum', 'average'}
  moved = jax.tree.map(lambda a: a + 4, params)
  known = memory.after(known, None, moved, 0)
  np.testing.assert_allclose(known['momentum']['w'], [2, 3])
  np.testing.assert_allclose(known['average']['encoder']['shared']['w'], [3, 4])
  used = memory_lib.evaluated(moved, known)
  np.testing.assert_allclose(used['encoder']['query']['w'], [7])
  assert used['loss'] == moved['loss']  # That is no part of the model.
  assert memory_lib.evaluated(moved, {}) == moved
  assert memory_lib.NOTHING.first(params) == {}
