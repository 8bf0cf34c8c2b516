"""Teacher forcing against PyTorch."""

import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast.losses import question_cross_entropy


@pytest.mark.parametrize('smoothing', [0.0, 0.1])
def test_token_cross_entropy_equals_torch(smoothing):
  import torch

  rng = np.random.default_rng(0)
  logits = rng.normal(size=(2, 5, 11)).astype(np.float32) * 3
  targets = rng.integers(0, 11, (2, 5))
  is_target = rng.random((2, 5)) < 0.7
  loss, accuracy = question_cross_entropy.token_cross_entropy(
      jnp.asarray(logits), targets, is_target, smoothing)
  want = torch.nn.functional.cross_entropy(
      torch.tensor(logits[is_target]), torch.tensor(targets[is_target]),
      label_smoothing=smoothing)
  np.testing.assert_allclose(loss, want.item(), rtol=1e-5)
  hits = logits.argmax(-1) == targets
  np.testing.assert_allclose(accuracy, hits[is_target].mean(), rtol=1e-6)
