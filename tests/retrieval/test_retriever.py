"""Searches of a corpus by given vectors: worlds, parts, ties and padding."""

import numpy as np
import pytest

from neg_contrast import scoring
from neg_contrast.retrieval import (
  retriever,
  search_settings,
  searched,
  vectors,
)
from neg_contrast.settings import config as config_lib
from tests import corpora
from tests.retrieval import test_finding

NOTHING = -np.inf
WORLDS = {'air': {'a0': 'wind', 'a1': 'kite'},
          'sea': {'s0': 'ship', 's1': 'sail'}}
MENTIONS = [('m0', 'a0', 0, 'a1'), ('m1', 's0', 0, 's1')]


class Silent(vectors.Encoder):
  """Has a score function, and encodes nothing."""

  dim = 0
  encode_queries = encode_passages = None

  def __init__(self, score):
    """Takes the score function."""
    self._score = score

  @property
  def score(self):
    """What it was given."""
    return self._score


class Given(vectors.Vectors):
  """Vectors that a test writes out."""

  def __init__(self, queries, passages, encoder=None, score=scoring.DUAL):
    """`[n, features]` of queries and of passages."""
    self._queries = np.array(queries, np.float32)
    self._passages = np.array(passages, np.float32)
    self._encoder = encoder or Silent(score)
    self.on_disk = False

  @property
  def identity(self):
    """Their values."""
    return {'queries': self._queries.tolist(),
            'passages': self._passages.tolist()}

  @property
  def encoder(self):
    """One that was given, or at least a score function."""
    return self._encoder

  def query_vecs(self, query_rows):
    """`[queries, features] float32`."""
    return self._queries[query_rows]

  @property
  def passage_vecs(self):
    """`[passages, features] float32`."""
    return self._passages

  def is_made(self):
    """Whether a test says so."""
    return self.on_disk


class Counted:
  """A table that counts the rows that are read in their order."""

  def __init__(self, vecs):
    """Of an array."""
    self._vecs, self.shape, self.nbytes = vecs, vecs.shape, vecs.nbytes
    self.in_order, self.others = 0, 0

  def __len__(self):
    return len(self._vecs)

  def __getitem__(self, key):
    part = self._vecs[key]
    if isinstance(key, slice) and key.step is None:
      self.in_order += len(part)
    else:
      self.others += part.size // self.shape[1]
    return part


def settings(depth=3, **index):
  """Of an exact search."""
  return search_settings.SearchSettings(
      config_lib.IndexConfig(**index), config_lib.MeshConfig(), depth)


def numbered(folder, count=5):
  """A dataset of so many passages, `p0`, `p1`, .., and of two queries."""
  source = corpora.write_beir(
      folder / 'data', {f'p{n}': f'text {n}' for n in range(count)},
      {'q0': 'who', 'q1': 'what'}, test={'q0': {'p0': 1}, 'q1': {'p1': 1}})
  return corpora.data_of(folder, source).load()


def worlds(folder):
  """A dataset of two worlds, of two passages and a query each."""
  source = corpora.write_worlds(folder / 'data', WORLDS, MENTIONS)
  return corpora.data_of(folder, source).load()


def measured(made, rows):
  """The best two of some queries, and what the index missed."""
  both = searched.search_and_measure(made, rows, 2)
  return both.found, both.index


def rows_of(found):
  return found.rows.tolist()


def test_products_descend_and_ties_go_to_the_larger_id(tmp_path):
  made = retriever.Retriever(settings(), numbered(tmp_path), Given(
      [[1, 0], [0, 1]], [[1, 5], [2, 5], [1, 5], [0, 5], [2, 4]]))
  found = made.search_rows(np.array([1, 0], np.int32), 3)
  assert rows_of(found) == [[3, 2, 1], [4, 1, 2]]
  assert found.scores.tolist() == [[5, 5, 5], [2, 2, 1]]


def test_what_is_not_there_is_padding(tmp_path):
  made = retriever.Retriever(
      settings(), numbered(tmp_path, 2), Given([[1]] * 2, [[1], [-3]]))
  found = made.search_rows(np.array([0], np.int32), 4)
  assert rows_of(found) == [[0, 1, -1, -1]]
  assert found.scores.tolist() == [[1, -3, NOTHING, NOTHING]]
  nothing = made.search_rows(np.zeros(0, np.int32), 4)
  assert nothing.rows.shape == nothing.scores.shape == (0, 4)


def test_a_part_is_searched_by_rows_of_the_corpus(tmp_path):
  rows = np.array([0, 2, 3], np.int32)
  made = retriever.Retriever(
      settings(), numbered(tmp_path), Given([[1]] * 2, [[1], [1], [7]]),
      tmp_path, rows=rows)
  found = made.search_rows(np.array([0], np.int32), 4)
  assert rows_of(found) == [[3, 2, 0, -1]]
  assert not made.is_made()  # Parts are never kept.


def test_queries_are_searched_in_their_world(tmp_path):
  dataset = worlds(tmp_path)
  vecs = Given([[1, 0], [0, 1]], [[1, 9], [2, 1], [8, 2], [9, 3]])
  made = retriever.Retriever(settings(), dataset, vecs)
  both = np.array([1, 0], np.int32)
  assert [name.decode() for name in dataset.prepared.passage_ids] == [
      'a0', 'a1', 's0', 's1']
  found = made.search_rows(both, 3)
  assert rows_of(found) == [[3, 2, -1], [1, 0, -1]]
  assert found.scores.tolist() == [[3, 2, NOTHING], [2, 1, NOTHING]]
  # Of vectors alone nobody knows the world.
  assert rows_of(made.search_vecs(vecs.query_vecs(both), 2)) == [[0, 3], [3, 2]]


@pytest.mark.parametrize(('among', 'want'), [
    (None, [[3, 2, 1], [0, 3, 2]]), ([0, 2], [[2, 0, -1], [0, 2, -1]]),
])
def test_all_worlds_are_searched_or_some_passages(tmp_path, among, want):
  made = retriever.Retriever(
      settings(), worlds(tmp_path),
      Given([[1, 0], [0, 1]], [[1, 9], [2, 1], [8, 2], [9, 3]]),
      among=None if among is None else np.array(among, np.int32))
  found, scores = made.search_and_score(
      np.array([0, 1], np.int32), 3, np.array([[1, -1], [-1, 0]], np.int32))
  assert rows_of(found) == want
  assert scores.tolist() == [[2, NOTHING], [NOTHING, 9]]


def test_pairs_are_scored_some_at_a_time(tmp_path, monkeypatch):
  monkeypatch.setattr(retriever, '_PAIRS_AT_ONCE', 2)
  made = retriever.Retriever(
      settings(), numbered(tmp_path),
      Given([[1, 2]], [[n, 10 * n] for n in range(5)]))
  rows = np.array([[4, -1, 0], [1, 2, 3]], np.int32)
  scores = made.score(np.array([[1, 2], [-1, 0]], np.float32), rows)
  assert scores.dtype == np.float32
  assert scores.tolist() == [[84, NOTHING, 0], [-1, -2, -3]]


def test_pairs_of_several_vectors_are_scored(tmp_path):
  # The sum, over both vectors of the query, of the best of the passage's two.
  made = retriever.Retriever(
      settings(), numbered(tmp_path, 2), Given(
          [[1, 0, 0, 2]], [[3, 1, 1, 4], [-5, 1, -1, -2]],
          score=scoring.named('som', 2, 2)))
  scores = made.score(np.array([[1, 0, 0, 2]], np.float32),
                      np.array([[1, -1, 0]], np.int32))
  assert scores.tolist() == [[-1 + 2, NOTHING, 3 + 8]]


def test_found_passages_have_their_matching_parts(tmp_path):
  text = 'Some words are here, xx. More words are here, yyy.'
  source = corpora.write_beir(tmp_path / 'data', {'a': text, 'b': 'No such.'})
  dataset = corpora.data_of(tmp_path, source).load()
  letters = test_finding.Letters()
  made = retriever.Retriever(settings(), dataset, Given(
      [], letters.encode_passages([text, 'No such.']), letters))
  first, second = made.find('yy', 5)
  assert (first.passage.id, first.score) == ('a', 6)
  assert text[slice(*first.match)] == 'More words are here, yyy.'
  assert (second.passage.id, second.score) == ('b', 0)
  assert rows_of(made.search(['xx', 'z'], 1)) == [[0], [1]]
  with pytest.raises(ValueError, match='depth is 0; it must be at least 1'):
    made.find('yy', 0)
  with pytest.raises(ValueError, match='the query is blank'):
    made.find(' \n')


def test_it_is_made_where_vectors_and_index_are_kept(tmp_path):
  dataset, vecs = numbered(tmp_path), Given([[1]] * 2, [[1]] * 5)
  kept = retriever.Retriever(settings(), dataset, vecs, tmp_path)
  assert kept.is_exact and not kept.is_made()
  vecs.on_disk = True
  assert kept.is_made()
  assert not retriever.Retriever(settings(), dataset, vecs).is_made()
  scann = retriever.Retriever(settings(kind='scann'), dataset, vecs, tmp_path)
  assert not scann.is_exact and not scann.is_made()  # It has no index.


def test_an_exact_search_misses_nothing(tmp_path):
  made = retriever.Retriever(
      settings(), numbered(tmp_path), Given([[1]] * 2, [[1]] * 5))
  rows = np.array([0], np.int32)
  found, facts = measured(made, rows)
  assert rows_of(found) == rows_of(made.search_rows(rows, 2))
  assert facts == {'kind': 'exact'}


def test_what_approximate_search_misses_is_measured(tmp_path):
  made = retriever.Retriever(
      settings(kind='approx'), numbered(tmp_path),
      Given([[1], [2]], [[1], [5], [3], [4], [2]]))
  assert not made.is_exact
  found, facts = measured(made, np.array([0, 1], np.int32))
  assert rows_of(found) == [[1, 3], [1, 3]]
  assert facts == {'kind': 'approx', 'recall': 1.0, 'depth': 2, 'queries': 2}


@pytest.mark.parametrize('kind', ['scann', 'binary'])
def test_building_and_measuring_read_the_table_once_each(kind, tmp_path):
  pytest.importorskip('scann')
  dataset = numbered(tmp_path, 40)
  vecs = Given([[1], [-1]], [[n] for n in range(40)])
  made = retriever.Retriever(settings(kind=kind), dataset, vecs, tmp_path)
  counted = vecs._passages = Counted(vecs.passage_vecs)
  made.make()
  assert counted.in_order == 40
  found, facts = measured(made, np.array([0, 1], np.int32))
  assert rows_of(found) == [[39, 38], [0, 1]]
  assert facts['kind'] == kind and facts['recall'] == 1
  assert counted.in_order == 80
