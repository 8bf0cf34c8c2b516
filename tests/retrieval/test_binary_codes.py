"""Codes of one bit a feature estimate dot products."""

import numpy as np
import pytest

from neg_contrast.retrieval import binary_codes


def make(rows, features, seed=0):
  rng = np.random.default_rng(seed)
  return (rng.normal(size=(rows, features)) + 0.3).astype(np.float32)


@pytest.mark.parametrize('features', [1, 8, 63, 64, 65, 384])
def test_products_are_those_of_signs_and_steps(features):
  """Against the formulas, without any bits."""
  vecs, queries = make(37, features), make(5, features, 1)
  codes = binary_codes.encode(vecs)
  assert codes.bits.shape == (-(-features // 64), 37)
  turn = binary_codes.rotation(features)
  centred = (vecs - vecs.mean(0)) @ turn.T
  factors = (centred**2).sum(1) / np.abs(centred).sum(1)
  np.testing.assert_allclose(codes.factors, factors, rtol=1e-4)
  turned = queries @ turn.T
  steps = np.abs(turned).max(1, keepdims=True) / 7
  rounded = np.rint(turned / steps) * steps
  want = (rounded @ np.where(centred > 0, 1, -1).T) * factors
  np.testing.assert_allclose(
      binary_codes.products(codes, queries),
      want + (queries @ vecs.mean(0))[:, None], rtol=1e-3, atol=1e-4)


def test_estimates_have_no_bias_and_a_small_error():
  vecs, queries = make(3000, 256), make(20, 256, 1)
  errors = binary_codes.products(binary_codes.encode(vecs), queries) - (
      queries @ vecs.T)
  spread = np.linalg.norm(vecs, axis=1).mean() * np.linalg.norm(
      queries, axis=1)[:, None] / 16
  assert abs((errors / spread).mean()) < 0.02
  assert (errors / spread).std() < 1


def test_threads_blocks_and_other_queries_change_nothing(monkeypatch):
  codes, queries = binary_codes.encode(make(1000, 70)), make(3, 70, 1)
  whole = binary_codes.products(codes, queries)
  monkeypatch.setattr(binary_codes, '_BLOCK', 64)
  for threads in (1, 3):
    np.testing.assert_array_equal(
        binary_codes.products(codes, queries, threads), whole)
  np.testing.assert_array_equal(
      binary_codes.products(codes, queries[1:2])[0], whole[1])


def test_equal_vectors_and_queries_of_zeros():
  codes = binary_codes.encode(np.ones((3, 5), np.float32))
  found = binary_codes.products(codes, np.array(
      [[0] * 5, [2] * 5], np.float32))
  np.testing.assert_allclose(found, [[0] * 3, [10] * 3], atol=1e-5)


def test_a_rotation_is_orthogonal():
  turn = binary_codes.rotation(96)
  np.testing.assert_allclose(turn @ turn.T, np.eye(96), atol=1e-5)
  assert np.abs(turn).max() < 0.6
