"""Run files as one, and rankings by ids as rows of a corpus."""

import json
import logging
import pathlib

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.evaluation import runs
from neg_contrast.retrieval import hits
from tests import corpora

NOTHING = -np.inf
BOTH = np.array([0, 1], np.int32)


def plain(folder):
  """The prepared form of three passages and two queries."""
  return corpora.data_of(folder, corpora.write_beir(
      folder / 'data', {'a': 'one', 'b': 'two', 'c': 'three'},
      {'q0': 'who', 'q1': 'what'}, test={'q0': {'a': 1}, 'q1': {'b': 1}},
  )).load().prepared


def worlds(folder):
  """That of two worlds, each with a query."""
  return corpora.data_of(folder, corpora.write_worlds(
      folder / 'data',
      {'air': {'a0': 'wind', 'a1': 'kite'},
       'sea': {'s0': 'ship', 's1': 'sail'}},
      [('m0', 'a0', 0, 'a1'), ('m1', 's0', 0, 's1')],
  )).load().prepared


def make(rows, scores):
  return hits.Hits(np.array(rows, np.int32), np.array(scores, np.float32))


def write_trec(path, run):
  path.write_text(''.join(
      f'{query} Q0 {passage} 0 {score} tag\n'
      for query, found in run.items() for passage, score in found))
  return path


def test_hits_have_ids_and_padding_has_none(tmp_path):
  found = make([[2, 0, -1], [-1, -1, -1]],
               [[0.5, 0.25, NOTHING], [NOTHING] * 3])
  assert runs.to_ids(found, BOTH[::-1], plain(tmp_path)) == {
      'q1': [('c', 0.5), ('a', 0.25)], 'q0': []}


def test_rows_are_the_ids_again(tmp_path, caplog):
  prepared = plain(tmp_path)
  run = {'q1': [('c', 2.0), ('a', 1.5), ('b', 1.0)], 'q0': [('b', 3.0)]}
  with caplog.at_level(logging.WARNING):
    found = runs.to_rows(run, BOTH, prepared, 2)
  assert found.rows.tolist() == [[1, -1], [2, 0]]
  assert found.scores.tolist() == [[3, NOTHING], [2, 1.5]]
  assert not caplog.records
  assert runs.to_ids(found, BOTH, prepared) == {
      'q0': [('b', 3.0)], 'q1': [('c', 2.0), ('a', 1.5)]}


def test_other_worlds_leave_their_place_to_the_next(tmp_path, caplog):
  run = {'m0': [('s1', 9.0), ('a1', 8.0), ('s0', 7.0), ('a0', 6.0)],
         'm1': [('s0', 5.0), ('a0', 4.0)]}
  with caplog.at_level(logging.WARNING):
    found = runs.to_rows(run, BOTH, worlds(tmp_path), 2)
  assert found.rows.tolist() == [[1, 0], [2, -1]]
  assert found.scores.tolist() == [[8, 6], [5, NOTHING]]
  assert '3 passages of other worlds' in caplog.text


def test_what_is_below_the_depth_is_not_looked_at(tmp_path, caplog):
  run = {'m0': [('a1', 8.0), ('s0', 7.0)], 'm1': [('s0', 5.0), ('none', 4.0)]}
  with caplog.at_level(logging.WARNING):
    runs.to_rows(run, BOTH, worlds(tmp_path), 1)
  assert 'other worlds' not in caplog.text


def test_a_passage_of_another_corpus_is_refused(tmp_path):
  with pytest.raises(errors.UserError, match='passage "z" is not in beir:'):
    runs.to_rows({'q0': [('a', 2.0), ('z', 1.0)]}, BOTH, plain(tmp_path), 2)


def test_a_run_of_other_queries_is_refused(tmp_path):
  for run in ({'x': [('a', 1.0)]}, {}, {'q0': []}):
    with pytest.raises(errors.UserError, match='ranks nothing for the queries '
                       r'of the split.*--config\.data\.split'):
      runs.to_rows(run, BOTH, plain(tmp_path), 2)


def test_queries_that_only_one_of_both_has_are_told(tmp_path, caplog):
  run = {'q1': [('a', 1.0)], 'x': [('a', 1.0)], 'y': [('b', 1.0)]}
  with caplog.at_level(logging.WARNING):
    found = runs.to_rows(run, BOTH, plain(tmp_path), 1)
  assert found.rows.tolist() == [[-1], [0]]
  assert '1 of the 2 queries of the split' in caplog.text
  assert 'ranks 2 queries that' in caplog.text and '"x"' in caplog.text


def test_queries_of_another_split_are_no_mistake(tmp_path, caplog):
  run = {'q0': [('a', 1.0)], 'q1': [('a', 1.0)]}
  with caplog.at_level(logging.WARNING):
    runs.to_rows(run, BOTH[:1], plain(tmp_path), 1)
  assert not caplog.records


def test_files_of_different_queries_are_one_run(tmp_path):
  first = write_trec(tmp_path / 'a.trec', {'q0': [('a', 1.0), ('b', 2.0)]})
  second = tmp_path / 'b.json'
  second.write_text(json.dumps(
      {'mention_id': 'm1', 'tfidf_candidates': ['s1', 's0']}) + '\n')
  assert runs.read_runs([first, second]) == {
      'q0': [('b', 2.0), ('a', 1.0)], 'm1': [('s1', -1.0), ('s0', -2.0)]}
  assert runs.read_runs([]) == {}
  again = write_trec(tmp_path / 'c.trec', {'q1': [('a', 1.0)],
                                           'q0': [('c', 1.0)]})
  with pytest.raises(errors.UserError, match='c.trec: query "q0" was in a run'):
    runs.read_runs([first, again])


@pytest.mark.parametrize(('name', 'system'), [
    ('mine.trec', 'mine'), ('mine.v2.run.gz', 'mine.v2'), ('mine', 'mine'),
    ('.trec', '.trec'),
])
def test_a_system_is_named_by_its_file(name, system):
  assert runs.run_name(pathlib.Path('some.folder') / name) == system


def test_a_file_that_is_missing_is_told(tmp_path):
  assert runs.missing_run(tmp_path) == f'{tmp_path}: no such file'
  assert runs.missing_run(write_trec(tmp_path / 'run', {})) is None
