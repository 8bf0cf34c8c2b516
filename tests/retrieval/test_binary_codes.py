"""Codes of one bit a feature, and their distances, against loops."""

import numpy as np
import pytest

from neg_contrast.retrieval import binary_codes


@pytest.mark.parametrize('features', [1, 8, 63, 64, 65, 384])
def test_distances_are_those_of_signs(features):
  rng = np.random.default_rng(features)
  vecs, queries = (rng.normal(size=(n, features)) for n in (37, 5))
  codes = binary_codes.encode(vecs)
  assert codes.shape == (-(-features // 64), 37)
  signs = (vecs > 0), (queries > 0)
  np.testing.assert_array_equal(
      binary_codes.distances(codes, binary_codes.encode(queries)),
      (signs[1][:, None] != signs[0]).sum(-1))


def test_threads_and_blocks_change_nothing(monkeypatch):
  rng = np.random.default_rng(0)
  codes, queries = (binary_codes.encode(rng.normal(size=(n, 70)))
                    for n in (1000, 3))
  whole = binary_codes.distances(codes, queries)
  monkeypatch.setattr(binary_codes, '_BLOCK', 64)
  for threads in (1, 3):
    np.testing.assert_array_equal(
        binary_codes.distances(codes, queries, threads), whole)


def test_the_nearest_come_first_and_then_the_first():
  distance = np.array([4, 2, 9, 2, 4, 0, 4], np.uint16)
  for count, rows in ((1, [5]), (2, [5, 1]), (4, [5, 1, 3, 0]),
                      (7, [5, 1, 3, 0, 4, 6, 2])):
    assert binary_codes.nearest(distance, count).tolist() == rows
