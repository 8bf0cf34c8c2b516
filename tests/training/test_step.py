"""The training step, on a loss whose gradient is written out."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from neg_contrast.training import sharded_step
from neg_contrast.training import state as state_lib
from neg_contrast.training import step as step_lib
from tests import tiny
from tests.jobs import test_train


def distance(params, batch, key):
  """Half the square of the distance to the batch; its gradient is that."""
  del key
  apart = params['w'] - batch
  return (apart**2).sum() / 2, {'first': params['w'][0]}


def begin(optimizer, values=(3.0, 4.0)):
  return state_lib.init_state({'w': jnp.array(values)}, optimizer)


def test_a_step_goes_against_the_gradient():
  optimizer = optax.sgd(0.25)
  step = step_lib.make_train_step(distance, optimizer, 0)
  state, metrics = step(begin(optimizer), jnp.zeros(2))
  np.testing.assert_allclose(state.params['w'], [2.25, 3.0])
  assert int(state.step) == 1
  assert {key: float(value) for key, value in metrics.items()} == {
      'loss': 12.5, 'first': 3, 'gradient_norm': 5}
  state, metrics = step(state, jnp.array([2.25, 0.0]))
  np.testing.assert_allclose(state.params['w'], [2.25, 2.25])
  assert int(state.step) == 2 and float(metrics['gradient_norm']) == 3


def test_the_norm_is_that_before_clipping():
  optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(1.0))
  step = step_lib.make_train_step(distance, optimizer, 0)
  state, metrics = step(begin(optimizer), jnp.zeros(2))
  assert float(metrics['gradient_norm']) == 5
  np.testing.assert_allclose(state.params['w'], [2.4, 3.2], rtol=1e-6)


def test_optimizers_see_the_parameters_and_keep_their_state():
  # Weight decay alone: the gradient is none where the batch is.
  optimizer = optax.chain(optax.add_decayed_weights(0.5), optax.sgd(
      1.0, momentum=0.5))
  step = step_lib.make_train_step(distance, optimizer, 0)
  state, _ = step(begin(optimizer, (8.0, 0.0)), jnp.array([8.0, 0.0]))
  np.testing.assert_allclose(state.params['w'], [4, 0])
  # 0.5 * 4 of decay, and half of the 4 of before.
  state, _ = step(state, state.params['w'])
  np.testing.assert_allclose(state.params['w'], [0, 0])


@pytest.mark.parametrize('jit', [lambda f: f, jax.jit])
def test_dropout_follows_from_seed_and_step(jit):
  def noise(params, batch, key):
    return params['w'].sum(), {'drawn': jax.random.uniform(key)}

  optimizer = optax.sgd(0.1)

  def draws(seed, steps=3):
    step = jit(step_lib.make_train_step(noise, optimizer, seed))
    state, found = begin(optimizer), []
    for _ in range(steps):
      state, metrics = step(state, None)
      found.append(float(metrics['drawn']))
    return found

  first = draws(1)
  assert len(set(first)) == 3 and first == draws(1) and first != draws(2)
  # A run that goes on at its step draws what it would have drawn.
  resumed = begin(optimizer)
  resumed = state_lib.TrainState(
      jnp.int32(2), resumed.params, resumed.opt_state)
  step = jit(step_lib.make_train_step(noise, optimizer, 1))
  assert float(step(resumed, None)[1]['drawn']) == first[2]


def test_seeds_rates_and_steps_are_no_part_of_the_program(
    tmp_path, monkeypatch
):
  programs, losses = [], []
  take = sharded_step.Program.__call__

  def taken(self, state, batch):
    text = self.lower(state, batch).as_text()
    found = take(self, state, batch)
    programs.append(text)
    return found

  monkeypatch.setattr(sharded_step.Program, '__call__', taken)
  changes = ({}, {'seed': 1}, {'optim__learning_rate': 3e-3},
             {'optim__steps': 4}, {'optim__warmup_steps': 1})
  for number, change in enumerate(changes):
    tiny.train_only(tmp_path, tmp_path / str(number), **{
        'optim__steps': 3, 'optim__schedule': 'linear',
        'checkpointing__log_steps': 1, **change})
    told = test_train.losses_of(tmp_path / str(number))
    losses.append(tuple(told.values())[:3])
  assert len(set(programs)) == 1 and len(programs) == 16
  assert len(set(losses)) == len(changes)
