"""A search of the whole corpus, and what is told of its index."""

import numpy as np

from neg_contrast.retrieval import searched
from tests.retrieval import test_retriever


def test_queries_are_searched_to_the_depth_of_the_settings(tmp_path):
  vecs = test_retriever.Given([[1], [-1]], [[0], [1], [2], [3], [4]])
  found = searched.search_dense(
      test_retriever.settings(2), test_retriever.numbered(tmp_path), vecs,
      tmp_path, np.array([1, 0], np.int32))
  assert found.found.rows.tolist() == [[0, 1], [4, 3]]
  assert found.found.scores.tolist() == [[0, -1], [4, 3]]
  assert found.index == {'kind': 'exact'}
