"""A search of the whole corpus, and what is told of its index."""

import numpy as np

from neg_contrast.retrieval import fused_vectors, searched
from tests.retrieval import test_retriever


def test_queries_are_searched_to_the_depth_of_the_settings(tmp_path):
  vecs = test_retriever.Given([[1], [-1]], [[0], [1], [2], [3], [4]])
  found = searched.search_dense(
      test_retriever.settings(2), test_retriever.numbered(tmp_path), vecs,
      tmp_path, np.array([1, 0], np.int32))
  assert found.found.rows.tolist() == [[0, 1], [4, 3]]
  assert found.found.scores.tolist() == [[0, -1], [4, 3]]
  assert found.index == {'kind': 'exact'}


def test_rankings_that_are_kept_are_of_these_weights(tmp_path, monkeypatch):
  monkeypatch.setattr(searched, '_PART_SCORES', 5)  # A query a part.
  passages = [[0], [1], [2], [3], [4]]
  members = [test_retriever.Given([[sign], [sign]], passages)
             for sign in (1, -1)]
  dataset = test_retriever.numbered(tmp_path)
  for weights, best in (((1, 0), 4), ((0, 1), 0), ((1, 0), 4)):
    found = searched.search_dense(
        test_retriever.settings(2), dataset,
        fused_vectors.FusedVectors(members, weights), tmp_path,
        np.array([0, 1], np.int32))
    assert found.found.rows[:, 0].tolist() == [best, best]
  assert len(list((tmp_path / 'rankings').iterdir())) == 2
