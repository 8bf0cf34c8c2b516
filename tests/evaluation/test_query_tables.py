"""A ranking, query by query, as readers of tables and of DPR take it."""

import json
import logging

import numpy as np

from neg_contrast.data import prepared as prepared_lib
from neg_contrast.evaluation import per_query, query_tables
from neg_contrast.retrieval import hits
from tests import corpora

PASSAGES = {'a': ('Alpha', 'one'), 'b': 'two', 'c': 'three'}
QUERIES = {'q0': 'who', 'q1': 'what', 'q2': 'where'}
JUDGED = {'q0': {'c': 1, 'b': 2, 'a': 0}, 'q1': {'a': 0, 'b': 1},
          'q2': {'c': -1, 'a': 0, 'b': 1}}


def load(folder, passages=PASSAGES):
  return corpora.data_of(folder, corpora.write_beir(
      folder / 'data', passages, QUERIES, test=JUDGED)).load().prepared


def make(rows):
  rows = np.array(rows, np.int32)
  scores = np.where(rows < 0, -np.inf, 3 - np.arange(rows.shape[1]))
  return hits.Hits(rows, scores.astype(np.float32))


def test_ranks_and_first_passages(tmp_path):
  prepared = load(tmp_path)
  by_query = {'mrr': {'q0': 0.5, 'q1': 1.0, 'q2': 0.0}, 'some': {'q1': 0.25}}
  query_tables.write_per_query(
      tmp_path, prepared, prepared.judgements('test'),
      make([[0, 1, 2], [1, 0, -1], [-1, -1, -1]]), by_query)
  header, *lines = (tmp_path / per_query.FILE).read_text().splitlines()
  assert header.split('\t')[6:] == ['mrr', 'some']
  assert [line.split('\t') for line in lines] == [
      ['q0', 'who', '2', 'a', '0', '', '0.5', ''],
      ['q1', 'what', '1', 'b', '1', '', '1.0', '0.25'],
      ['q2', 'where', '', '', '0', '', '0.0', ''],
  ]


def test_queries_without_judgements_have_their_line(tmp_path):
  prepared = load(tmp_path)
  whole = prepared.judgements('test')
  alone = whole.select(whole.query_rows == 1)
  alone = prepared_lib.Judgements(
      alone.query_rows, alone.passage_rows, alone.grades, alone.is_example,
      np.array([0], np.int32))
  query_tables.write_per_query(
      tmp_path, prepared, alone, make([[2], [0]]), {})
  lines = (tmp_path / per_query.FILE).read_text().splitlines()[1:]
  assert [line.split('\t')[:5] for line in lines] == [
      ['q0', 'who', '', 'c', '0'], ['q1', 'what', '', 'a', '0']]


def test_an_id_that_no_table_can_hold_is_told(tmp_path, caplog):
  prepared = load(tmp_path, {**PASSAGES, 'b\tb': 'odd'})
  row = prepared.passage_ids.row_of('b\tb')
  with caplog.at_level(logging.WARNING):
    query_tables.write_per_query(
        tmp_path, prepared, prepared.judgements('test'),
        make([[row], [0], [0]]), {})
  assert 'no per_query.tsv is written' in caplog.text
  assert not (tmp_path / per_query.FILE).exists()


def test_readers_get_texts_and_scores_of_what_was_found(tmp_path):
  prepared = load(tmp_path)
  query_tables.write_dpr(
      tmp_path, prepared, np.array([2, 0], np.int32),
      make([[0, -1], [2, 1]]), 'string')
  made = json.loads((tmp_path / query_tables.DPR_FILE).read_text())
  assert [one['question'] for one in made] == ['where', 'who']
  assert [[(of['id'], of['title'], of['text'], float(of['score']))
           for of in one['ctxs']] for one in made] == [
      [('a', 'Alpha', 'one', 3.0)],
      [('c', '', 'three', 3.0), ('b', '', 'two', 2.0)],
  ]
