"""What a training step changes, before the first step."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax

from neg_contrast.training import state


def test_a_learned_scale_is_kept_as_its_logarithm():
  made = state.dual_encoder_params({'w': 1}, 20.0)
  assert made['encoder'] == {'w': 1}
  assert float(made['loss']['log_scale']) == np.float32(math.log(20))
  assert made['loss']['log_scale'].dtype == jnp.float32
  assert state.dual_encoder_params({'w': 1}, None)['loss'] == {}


def test_the_first_state_has_done_nothing():
  params = {'kernel': jnp.ones((2, 3))}
  made = state.init_state(params, optax.adam(0.1))
  assert int(made.step) == 0 and made.step.dtype == jnp.int32
  assert made.params is params
  moments = [leaf for leaf in jax.tree.leaves(made.opt_state) if leaf.ndim]
  assert [leaf.shape for leaf in moments] == [(2, 3), (2, 3)]
  assert not any(leaf.any() for leaf in moments)


def test_only_kernels_and_embeddings_decay():
  params = {
      'layers': {'query': {'kernel': 1, 'bias': 2}, 'norm': {'scale': 3}},
      'embeddings': {'word': {'embedding': 4}, 'kernel': {'bias': 5}},
      'loss': {'log_scale': 6}, 'codes': [7],
  }
  assert state.decay_mask(params) == {
      'layers': {'query': {'kernel': True, 'bias': False},
                 'norm': {'scale': False}},
      'embeddings': {'word': {'embedding': True}, 'kernel': {'bias': False}},
      'loss': {'log_scale': False}, 'codes': [False],
  }
