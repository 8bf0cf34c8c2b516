"""Exact search in a corpus, in worlds of it, and among some passages."""

import numpy as np

from neg_contrast import scoring
from neg_contrast.retrieval import hits, search_settings, searched_parts
from neg_contrast.settings import config as config_lib

SETTINGS = search_settings.SearchSettings(
    config_lib.IndexConfig(block_rows=7), config_lib.MeshConfig(), 5
)


def make(passages=41, queries=9, features=5):
  rng = np.random.default_rng(0)
  vecs = rng.standard_normal((passages, features), np.float32)
  vecs[3::6] = vecs[3]  # Copies, whose order is that of their ids.
  ranks = hits.tie_ranks([f'p{n}' for n in rng.permutation(passages)])
  worlds = rng.integers(0, 3, passages).astype(np.int32)
  query_vecs = rng.standard_normal((queries, features), np.float32)
  return query_vecs, vecs, ranks, worlds


def assert_best(found, scores, ranks):
  best = hits.top_k(scores, ranks, found.rows.shape[1])
  np.testing.assert_array_equal(found.rows, best.rows)
  np.testing.assert_allclose(found.scores, best.scores, atol=1e-5)


def test_a_query_finds_its_own_world_only():
  queries, vecs, ranks, worlds = make()
  index = searched_parts.SearchedParts(
      SETTINGS, vecs, ranks, scoring.DUAL, worlds
  )
  own = np.array([2, 0, 1, 1, 0, 2, 2, 0, 1], np.int32)
  scores = queries @ vecs.T
  scores[own[:, None] != worlds] = -np.inf
  for _ in range(2):  # Made, and kept.
    assert_best(index.search_own(queries, 20, own), scores, ranks)
  assert_best(index.search(queries, 20), queries @ vecs.T, ranks)


def test_among_some_passages():
  queries, vecs, ranks, _ = make()
  among = np.arange(1, 41, 4, dtype=np.int32)
  index = searched_parts.SearchedParts(
      SETTINGS, vecs, ranks, scoring.DUAL, among=among
  )
  scores = queries @ vecs.T
  scores[:, np.setdiff1d(np.arange(41), among)] = -np.inf
  assert_best(index.search_among(queries, 20), scores, ranks)


def test_among_all_where_nothing_is_named():
  queries, vecs, ranks, _ = make()
  index = searched_parts.SearchedParts(SETTINGS, vecs, ranks, scoring.DUAL)
  assert_best(index.search_among(queries, 6), queries @ vecs.T, ranks)
