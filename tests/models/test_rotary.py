"""Tests of rotary position embeddings."""

import jax.numpy as jnp
import numpy as np
import torch
from transformers.models.modernbert import modeling_modernbert

from neg_contrast.models import rotary


def test_it_is_that_of_transformers():
  rng = np.random.default_rng(0)
  heads = rng.normal(size=(2, 5, 3, 8)).astype(np.float32)
  positions = np.array([[0, 1, 2, 0, 1], [0, 1, 2, 3, 400]], np.int32)
  rates = 1 / 160000.0 ** (np.arange(0, 8, 2) / 8)
  angles = np.concatenate([positions[..., None] * rates] * 2, -1)
  theirs, _ = modeling_modernbert.apply_rotary_pos_emb(
      torch.tensor(heads.swapaxes(1, 2)), torch.tensor(heads.swapaxes(1, 2)),
      torch.tensor(np.cos(angles), dtype=torch.float32),
      torch.tensor(np.sin(angles), dtype=torch.float32),
  )
  ours = rotary.rotate(jnp.asarray(heads), positions, 160000.0)
  np.testing.assert_allclose(ours, theirs.numpy().swapaxes(1, 2), atol=1e-4)


def test_products_depend_on_distances_alone():
  rng = np.random.default_rng(1)
  query, key = rng.normal(size=(2, 1, 1, 1, 16)).astype(np.float32)

  def product(at, other):
    turned = [rotary.rotate(jnp.asarray(a), np.array([[place]]), 10000.0)
              for a, place in ((query, at), (key, other))]
    return float(jnp.sum(turned[0] * turned[1]))

  assert np.isclose(product(7, 3), product(104, 100), atol=1e-4)
  assert not np.isclose(product(7, 3), product(7, 5), atol=1e-2)
  assert np.isclose(product(0, 0), float(np.sum(query * key)), atol=1e-5)
