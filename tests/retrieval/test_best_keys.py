"""The best of many, added in pieces, against a full sort."""

import numpy as np
import pytest

from neg_contrast.retrieval import best_keys, hits


@pytest.mark.parametrize(('passages', 'queries', 'k', 'has_ties'), [
    (41, 7, 10, True), (41, 7, 50, True), (3000, 3, 100, True),
    (3000, 1, 7, False), (9000, 20, 100, False), (3000, 4, 1, True)])
def test_equals_full_sort(passages, queries, k, has_ties):
  rng = np.random.default_rng(0)
  scores = rng.standard_normal((passages, queries), np.float32)
  if has_ties:
    scores = rng.integers(-3, 4, scores.shape).astype(np.float32)
  ranks = rng.permutation(passages).astype(np.int32)
  best = best_keys.Best(queries, k)
  for start in range(0, passages, 700):
    best.add(scores[start : start + 700], ranks[start : start + 700])
  keys = best_keys.best_of(best.keys, k)
  want = hits.top_k(np.ascontiguousarray(scores.T), ranks, k)
  found = best_keys.ranks_of(keys)
  np.testing.assert_array_equal(
      np.where(found >= 0, np.argsort(ranks)[found], -1), want.rows)
  np.testing.assert_array_equal(best_keys.scores_of(keys), want.scores)


def test_a_flood_of_equal_scores():
  rng = np.random.default_rng(1)
  scores = rng.standard_normal((900, 5), np.float32)
  scores[3::7] = scores[3]  # Many of one query, few of another.
  ranks = rng.permutation(900).astype(np.int32)
  best = best_keys.Best(5, 9)
  for start in range(0, 900, 300):
    best.add(scores[start : start + 300], ranks[start : start + 300])
  want = hits.top_k(np.ascontiguousarray(scores.T), ranks, 9)
  found = best_keys.ranks_of(best_keys.best_of(best.keys, 9))
  np.testing.assert_array_equal(np.argsort(ranks)[found], want.rows)


def test_keys_sort_like_scores_and_then_ranks():
  scores = np.array([-np.inf, -2.5, -1e-30, -0.0, 0.0, 1e-30, 3], np.float32)
  ranks = np.array([0, 9, 3, 7, 5, 0, 2], np.int32)
  keys = best_keys.keys_of(scores, ranks)
  assert (np.diff(keys) > 0).all()
  np.testing.assert_array_equal(best_keys.scores_of(keys), scores)
  np.testing.assert_array_equal(best_keys.ranks_of(keys), ranks)
  nothing = np.array([best_keys.NOTHING])
  assert best_keys.ranks_of(nothing) == -1
  assert best_keys.scores_of(nothing) == -np.inf


def test_places_without_a_passage_are_last():
  """Of two processes with fewer passages than are wanted."""
  scores, empty = np.array([[2, 1]], np.float32), [[best_keys.NOTHING] * 3]
  one, other = (best_keys.keys_of(scores, np.array([ranks], np.int32))
                for ranks in ([0, 1], [2, 3]))
  found = best_keys.best_of(np.concatenate([one, empty, other], axis=1), 6)
  assert (found[:, :4] > best_keys.NOTHING).all()
  assert (np.diff(best_keys.scores_of(found[:, :4])) <= 0).all()
  assert best_keys.ranks_of(found)[0].tolist() == [0, 2, 1, 3, -1, -1]
