"""Made-up vectors have the spectrum and the neighbours they promise."""

import numpy as np
import pytest

from neg_contrast.data import random_texts


def test_features_vary_like_those_of_sentences():
  drawn = random_texts.draw_normal(np.random.default_rng(0), 20_000, 384)
  assert drawn.shape == (20_000, 384) and drawn.dtype == np.float32
  np.testing.assert_allclose(drawn.mean(0), 0, atol=0.01)
  variances = drawn.var(0)
  assert variances.sum() == pytest.approx(1, abs=0.01)
  assert variances[:20].sum() == pytest.approx(0.42, abs=0.01)
  assert variances[:100].sum() == pytest.approx(0.85, abs=0.01)


def test_vectors_lie_about_articles(monkeypatch):
  monkeypatch.setattr(random_texts, '_VECTORS_AT_ONCE', 300)  # Several blocks.
  made = random_texts.vectors(1000, 96)
  assert made.dtype == np.float32
  np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, rtol=1e-5)
  scores = made @ made.T - 2 * np.eye(1000, dtype=np.float32)
  alone = random_texts.draw_normal(np.random.default_rng(1), 1000, 96)
  alone /= np.linalg.norm(alone, axis=1, keepdims=True)
  apart = alone @ alone.T - 2 * np.eye(1000, dtype=np.float32)
  assert scores.max(1).mean() > apart.max(1).mean() + 0.1
  other = np.empty_like(made)
  random_texts.fill_vectors(other, np.random.default_rng(1))
  assert not np.isclose(other, made).all(axis=1).any()
