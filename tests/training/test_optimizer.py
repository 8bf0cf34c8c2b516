"""Adafactor over stacked layers, as over the layers by themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast.settings import config as config_lib
from neg_contrast.training import optimizer

SIZES = 0.02, 0.5, 3.0


def updates(params, grads):
  config = config_lib.OptimConfig(
      optimizer='adafactor', learning_rate=0.01, schedule='constant',
      warmup_steps=0, clip_norm=0.0)
  made = optimizer.make_optimizer(config, optimizer.rates_of(config, 10))
  state = made.init(params)
  for _ in range(3):
    found, state = made.update(grads, state, params)
  return found


def draw(seed):
  key = jax.random.key(seed)
  return jnp.stack([
      size * jax.random.normal(jax.random.fold_in(key, number), (130, 140))
      for number, size in enumerate(SIZES)])


def test_each_layer_is_clipped_and_scaled_by_itself():
  params, grads = draw(0), draw(1)
  whole = updates({'layers': {'kernel': params}},
                  {'layers': {'kernel': grads}})['layers']['kernel']
  for number in range(len(SIZES)):
    alone = updates({'kernel': params[number]},
                    {'kernel': grads[number]})['kernel']
    np.testing.assert_allclose(whole[number], alone, rtol=1e-5)
  sizes = np.sqrt(np.square(whole).mean((1, 2)))
  np.testing.assert_allclose(sizes / sizes[0], np.array(SIZES) / SIZES[0],
                             rtol=0.05)


def test_trainings_of_the_earlier_rule_are_others():
  of = lambda name: optimizer.rule_of(config_lib.OptimConfig(optimizer=name))
  assert of('adafactor') == {'sizes': 'of each layer'}
  assert of('adam') == of('adamw') == {}


def test_a_matrix_is_that_of_transformers():
  torch = pytest.importorskip('torch')
  transformers = pytest.importorskip('transformers')
  params, grads = draw(2)[1], draw(3)[1]
  ours = updates({'kernel': params}, {'kernel': grads})['kernel']
  theirs = torch.nn.Parameter(torch.tensor(np.asarray(params)))
  made = transformers.optimization.Adafactor(
      [theirs], lr=0.01, scale_parameter=True, relative_step=False)
  for _ in range(3):
    before = theirs.detach().clone()
    theirs.grad = torch.tensor(np.asarray(grads))
    made.step()
    after = theirs.detach().clone()
    with torch.no_grad():
      theirs.copy_(torch.tensor(np.asarray(params)))
  np.testing.assert_allclose(ours, after - before, rtol=0.03, atol=1e-5)
