"""An index is built once, for its settings, and measured against exact search.
"""

import dataclasses

import numpy as np
import pytest

from neg_contrast import scoring
from neg_contrast.retrieval import hits, kept_index, scann_index

pytest.importorskip('scann')

SETTINGS = scann_index.Settings(target_recall=0.9, recall_k=10, threads=1)


def make(corpus):
  vecs, queries, ranks = corpus
  ranks = hits.tie_ranks([f'{rank:06d}' for rank in ranks[:2000]])
  return vecs[:2000], queries[:20], ranks


def test_a_folder_keeps_it(corpus, tmp_path, monkeypatch):
  vecs, queries, ranks = make(corpus)
  folder = tmp_path / 'index'
  assert not kept_index.is_kept(folder, SETTINGS)
  first = kept_index.make(vecs, ranks, scoring.DUAL, SETTINGS, folder)
  assert kept_index.is_kept(folder, SETTINGS)
  other = dataclasses.replace(SETTINGS, recall_k=20)
  assert not kept_index.is_kept(folder, other)
  monkeypatch.setattr(scann_index, 'build', None)
  again = kept_index.make(vecs, ranks, scoring.DUAL, SETTINGS, folder)
  np.testing.assert_array_equal(
      first.search(queries, 5).rows, again.search(queries, 5).rows
  )
  monkeypatch.undo()
  kept_index.make(vecs, ranks, scoring.DUAL, other, folder)
  assert kept_index.is_kept(folder, other)


def test_what_it_missed_is_measured(corpus):
  vecs, queries, ranks = make(corpus)
  index = kept_index.make(vecs, ranks, scoring.DUAL, SETTINGS, None)
  exact = hits.top_k(queries @ vecs.T, ranks, 10)
  facts = kept_index.measure(index, index.search(queries, 10), exact)
  assert facts['kind'] == 'scann' and facts['queries'] == 20
  assert 0.8 < facts['recall'] <= 1 and facts['depth'] == 10
  assert facts['tuned'] == dataclasses.asdict(index.measured)


def test_at_most_200_queries_are_measured():
  np.testing.assert_array_equal(kept_index.measured_places(3), [0, 1, 2])
  some = kept_index.measured_places(5000)
  assert len(np.unique(some)) == 200 and some[0] == 0 and some[-1] == 4999
