"""BM25 for the queries of a dataset: each in its own world."""

import dataclasses
import math
import pathlib

import numpy as np
import pytest

from neg_contrast.artifacts import artifact, plan
from neg_contrast.retrieval import bm25_folder, bm25_search, kept_rankings
from neg_contrast.settings import config as config_lib
from tests import corpora

WORLDS = {
    'air': {'a0': 'kite wind', 'a1': 'wind', 'a2': 'balloon'},
    'sea': {'s0': 'kite ship', 's1': 'kite', 's2': 'sail'},
}
MENTIONS = [('m0', 'a0', 0, 'a1'), ('m1', 's0', 0, 's1'), ('m2', 's2', 0, 's0')]
CONFIG = config_lib.EvaluationConfig(bm25_k1=1.2, bm25_b=0.5)


def worlds(folder):
  return corpora.data_of(
      folder, corpora.write_worlds(folder / 'data', WORLDS, MENTIONS))


def plain(folder, queries=None, judged=None, **passages):
  """Three passages and two queries; others in their place."""
  queries = queries or {'q0': 'kite', 'q1': 'wind and ship'}
  return corpora.data_of(folder, corpora.write_beir(
      folder / 'data',
      {'p0': 'kite', 'p1': ('Kites', 'wind'), 'p2': 'ship', **passages},
      queries, test=judged or dict.fromkeys(queries, {'p0': 1})))


def score(count, holding, length, mean, times=1):
  """Of a term in a passage, by the formula of Lucene."""
  idf = math.log(1 + (count - holding + 0.5) / (holding + 0.5))
  return idf * times / (times + 1.2 * (1 - 0.5 + 0.5 * length / mean))


def test_titles_are_searched_and_others_not_found(tmp_path):
  search = bm25_search.Bm25Search(CONFIG, plain(tmp_path).load())
  found = search.search_rows(np.array([1, 0], np.int32), 3)
  assert found.rows.tolist() == [[2, 1, -1], [0, 1, -1]]
  mean = 4 / 3  # Of terms: one, two and one.
  np.testing.assert_allclose(found.scores, [
      [score(3, 1, 1, mean), score(3, 1, 2, mean), -np.inf],
      [score(3, 2, 1, mean), score(3, 2, 2, mean), -np.inf],
  ], rtol=1e-5)


def test_rankings_that_can_not_be_kept_are_searched_each_time(
    tmp_path, monkeypatch
):
  search = bm25_search.Bm25Search(CONFIG, plain(tmp_path).load())
  queries = np.array([1, 0], np.int32)
  monkeypatch.setattr(
      kept_rankings.failures, 'can_be_written', lambda folder: False)
  found = search.search_rows(queries, 3)
  assert not list(tmp_path.rglob('bm25_rankings'))
  monkeypatch.undo()
  again = search.search_rows(queries, 3)
  np.testing.assert_array_equal(found.rows, again.rows)
  np.testing.assert_array_equal(found.scores, again.scores)
  assert list(tmp_path.rglob('bm25_rankings'))
  monkeypatch.setattr(
      kept_rankings.failures, 'can_be_written', lambda folder: False)
  monkeypatch.setattr(search, '_search_rows', None)  # What is kept is read.
  np.testing.assert_array_equal(found.rows, search.search_rows(queries, 3).rows)


def test_a_world_is_a_corpus_of_its_own(tmp_path):
  search = bm25_search.Bm25Search(CONFIG, worlds(tmp_path).load())
  queries = np.array([0, 1, 2], np.int32)  # Of kite in air, kite, and sail.
  found = search.search_rows(queries, 2)
  assert found.rows.tolist() == [[0, -1], [4, 3], [5, -1]]
  mean = 4 / 3
  np.testing.assert_allclose(found.scores, [
      [score(3, 1, 2, mean), -np.inf],
      [score(3, 2, 1, mean), score(3, 2, 2, mean)],
      [score(3, 1, 1, mean), -np.inf],
  ], rtol=1e-5)
  assert search.search_rows(queries[::-1], 2).rows.tolist() == [
      [5, -1], [4, 3], [0, -1]]


def test_some_worlds_are_one_corpus_for_mining(tmp_path):
  search = bm25_search.Bm25Search(CONFIG, worlds(tmp_path).load())
  air = search.over_worlds_of(np.array([0], np.int32))
  assert search.over_worlds_of(np.array([0, 0], np.int32)) is air
  found, scores = air.search_and_score(['kite', 'sail'], 2,
                                       np.array([[0, 4], [5, -1]]))
  assert found.rows.tolist() == [[0, -1], [-1, -1]]
  np.testing.assert_allclose(
      scores, [[score(3, 1, 2, 4 / 3), -np.inf], [-np.inf, -np.inf]],
      rtol=1e-5)
  both = search.over_worlds_of(np.array([0, 1], np.int32))
  found = both.search(['kite'], 3)
  np.testing.assert_allclose(found.scores, [[
      score(6, 3, 1, 4 / 3), score(6, 3, 2, 4 / 3), score(6, 3, 2, 4 / 3)
  ]], rtol=1e-5)
  np.testing.assert_array_equal(found.rows, search.search(['kite'], 3).rows)


def test_any_text_is_searched_in_all_worlds(tmp_path):
  search = bm25_search.Bm25Search(CONFIG, worlds(tmp_path).load())
  found = search.search(['kite', 'nothing'], 3)
  # Equal passages by id, the larger first.
  assert found.rows.tolist() == [[4, 3, 0], [-1] * 3]


def test_no_queries_have_no_hits(tmp_path):
  for data in (plain(tmp_path / 'plain'), worlds(tmp_path / 'worlds')):
    search = bm25_search.Bm25Search(CONFIG, data.load())
    found = search.search_rows(np.zeros(0, np.int32), 4)
    assert found.rows.shape == found.scores.shape == (0, 4)


def test_it_is_made_once_for_all_settings_and_mapped_until_released(tmp_path):
  made = bm25_search.bm25_of(CONFIG, plain(tmp_path))
  assert not made.is_made()  # And nothing is prepared for that.
  assert not (tmp_path / 'prepared').exists()
  plan.run([made])
  assert made.is_made()
  assert dataclasses.replace(made, k1=0.1, b=0.9).is_made()
  first = made.load()
  assert made.load() is first
  artifact.keep_only([made])
  assert made.load() is first
  artifact.keep_only(())
  assert made.load() is not first
  assert made.load().search(['ship'], 1).rows.tolist() == [[2]]


def test_a_moved_tree_counts_nothing_again(tmp_path, monkeypatch):
  (tmp_path / 'there').mkdir()
  monkeypatch.chdir(tmp_path / 'there')
  made = bm25_search.bm25_of(CONFIG, plain(pathlib.Path('.')))
  plan.run([made])
  moved = dataclasses.replace(made)
  (tmp_path / 'there').rename(tmp_path / 'here')
  monkeypatch.chdir(tmp_path / 'here')
  monkeypatch.setattr(bm25_folder, 'count', None)  # Calling it would fail.
  plan.run([moved])
  assert moved.is_made()
  assert moved.load().search(['ship'], 1).rows.tolist() == [[2]]


def identity(data, **config):
  data.build()
  return bm25_search.bm25_of(config_lib.EvaluationConfig(**config), data
                             ).identity


def test_its_identity_is_of_texts_and_settings(tmp_path):
  made = bm25_search.bm25_of(CONFIG, plain(tmp_path / 'one'))
  assert made.identity is None  # The data is not prepared.
  one = identity(plain(tmp_path / 'one'))
  for other in (
      identity(plain(tmp_path / 'one'), bm25_k1=0.5),
      identity(plain(tmp_path / 'one'), bm25_b=0.5),
      identity(plain(tmp_path / 'passages', p2='other')),
      identity(plain(tmp_path / 'queries', {'q0': 'kite', 'q1': 'other'})),
  ):
    assert other != one
  judged = {'q0': {'p2': 3}, 'q1': {'p0': 1}}
  assert identity(plain(tmp_path / 'judged', judged=judged)) == one
  assert identity(plain(tmp_path / 'one'), depth=7, metrics=('mrr',)) == one


def test_what_is_found_is_kept_in_parts(tmp_path, monkeypatch):
  """An interruption loses one; the same search later searches nothing."""
  data, searched = plain(tmp_path), []
  search = bm25_search.Bm25Search._search_rows

  def interrupted(self, rows, depth):
    if len(searched) == 1:
      searched.append('interrupted')
      raise KeyboardInterrupt
    searched.append(rows.tolist())
    return search(self, rows, depth)

  rows = np.array([1, 0, 1, 1, 0], np.int32)
  whole = bm25_search.Bm25Search(CONFIG, data.load())._search_rows(rows, 3)
  monkeypatch.setattr(bm25_search, 'QUERIES_AT_ONCE', 2)
  monkeypatch.setattr(bm25_search.Bm25Search, '_search_rows', interrupted)
  with pytest.raises(KeyboardInterrupt):
    bm25_search.Bm25Search(CONFIG, data.load()).search_rows(rows, 3)
  for _ in range(2):
    found = bm25_search.Bm25Search(CONFIG, data.load()).search_rows(rows, 3)
    np.testing.assert_array_equal(found.rows, whole.rows)
    np.testing.assert_array_equal(found.scores, whole.scores)
  assert searched == [[1, 0], 'interrupted', [1, 1], [0]]
  for config, depth, other in (
      (CONFIG, 2, rows), (CONFIG, 3, rows[::-1]),
      (dataclasses.replace(CONFIG, bm25_k1=0.1), 3, rows),
      (dataclasses.replace(CONFIG, bm25_b=0.1), 3, rows)):
    before = len(searched)
    bm25_search.Bm25Search(config, data.load()).search_rows(other, depth)
    assert len(searched) == before + 3
