"""BM25 for the queries of a dataset: each in its own world."""

import math

import numpy as np

from neg_contrast.artifacts import artifact
from neg_contrast.retrieval import bm25_search
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
  found = bm25_search.search_bm25(
      CONFIG, plain(tmp_path).load(), np.array([1, 0], np.int32), 3)
  assert found.rows.tolist() == [[2, 1, -1], [0, 1, -1]]
  mean = 4 / 3  # Of terms: one, two and one.
  np.testing.assert_allclose(found.scores, [
      [score(3, 1, 1, mean), score(3, 1, 2, mean), -np.inf],
      [score(3, 2, 1, mean), score(3, 2, 2, mean), -np.inf],
  ], rtol=1e-5)


def test_a_world_is_a_corpus_of_its_own(tmp_path, monkeypatch):
  search, made = bm25_search.Bm25Search(CONFIG, worlds(tmp_path).load()), []
  index = bm25_search.index_bm25

  def counted(*args):
    made.append(args[2].tolist())
    return index(*args)

  monkeypatch.setattr(bm25_search, 'index_bm25', counted)
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
  assert made == [[0, 1, 2], [3, 4, 5]]  # Once each.


def test_any_text_is_searched_in_all_worlds(tmp_path):
  search = bm25_search.Bm25Search(CONFIG, worlds(tmp_path).load())
  found = search.search(['kite', 'nothing'], 3)
  # Equal passages by id, the larger first.
  assert found.rows.tolist() == [[4, 3, 0], [-1] * 3]


def test_no_queries_have_no_hits(tmp_path):
  for data in (plain(tmp_path / 'plain'), worlds(tmp_path / 'worlds')):
    found = bm25_search.search_bm25(
        CONFIG, data.load(), np.zeros(0, np.int32), 4)
    assert found.rows.shape == found.scores.shape == (0, 4)


def test_it_is_in_memory_until_released(tmp_path):
  made = bm25_search.bm25_of(CONFIG, plain(tmp_path))
  assert not made.is_made() and not made.is_listed and made.is_large
  assert made.load() is made.load()
  first = made.load()
  artifact.keep_only([made])
  assert made.load() is first
  artifact.keep_only(())
  assert made.load() is not first
  assert made.load().search(['ship'], 1).rows.tolist() == [[2]]


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
