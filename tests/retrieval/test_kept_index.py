"""An index is built once, for its settings, and measured against exact search.
"""

import dataclasses

import numpy as np
import pytest

from neg_contrast import scoring
from neg_contrast.retrieval import hits, kept_index, quantized_index

pytest.importorskip('scann')

SETTINGS = quantized_index.Settings(target_recall=0.9, recall_k=10, threads=1)


def make(corpus):
  vecs, queries, ranks = corpus
  ranks = hits.tie_ranks([f'{rank:06d}' for rank in ranks[:2000]])
  return vecs[:2000], queries[:20], ranks


def kept(corpus, settings=SETTINGS, folder=None):
  vecs, _, ranks = make(corpus)
  return kept_index.KeptIndex(vecs, ranks, scoring.DUAL, settings, folder)


def test_a_folder_keeps_it(corpus, tmp_path, monkeypatch):
  _, queries, _ = make(corpus)
  assert not kept_index.is_kept(tmp_path, SETTINGS)
  first = kept(corpus, folder=tmp_path)
  first.make()
  assert kept_index.is_kept(tmp_path, SETTINGS)
  other = dataclasses.replace(SETTINGS, recall_k=20)
  assert not kept_index.is_kept(tmp_path, other)
  kept(corpus, other, tmp_path).make()
  assert kept_index.is_kept(tmp_path, other)
  monkeypatch.setattr(quantized_index, 'build_part', None)  # Beside each other.
  again = kept(corpus, folder=tmp_path)
  np.testing.assert_array_equal(
      first.index.search(queries, 5).rows, again.index.search(queries, 5).rows
  )


def test_what_it_missed_is_measured(corpus):
  vecs, queries, ranks = make(corpus)
  index = kept(corpus).index
  exact = hits.top_k(queries @ vecs.T, ranks, 10)
  facts = kept_index.measure(index, index.search(queries, 10), exact)
  assert facts['kind'] == 'scann' and facts['queries'] == 20
  assert 0.8 < facts['recall'] <= 1 and facts['depth'] == 10
  assert facts['tuned'] == dataclasses.asdict(index.measured)
  half = hits.Hits(exact.rows.copy(), exact.scores.copy())
  half.rows[:, 5:], half.scores[:, 5:] = -1, -np.inf
  assert kept_index.measure(index, half, exact)['recall'] == 0.5


def test_at_most_200_queries_are_measured():
  np.testing.assert_array_equal(kept_index.measured_places(3), [0, 1, 2])
  some = kept_index.measured_places(5000)
  assert len(np.unique(some)) == 200 and some[0] == 0 and some[-1] == 4999
