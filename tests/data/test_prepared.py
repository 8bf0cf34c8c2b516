"""A prepared corpus: random access, judgements, groups and documents."""

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.data import prepared as prepared_lib
from tests import corpora

PASSAGES = {'b': ('T', 'one'), 'a': ('  T ', 'two'), 'd': ('', 'One'),
            'c': ('t', ' ONE ')}


def load(folder, queries=None, passages=PASSAGES, **splits):
  return corpora.data_of(folder, corpora.write_beir(
      folder / 'data', passages, queries, **splits)).load().prepared


def test_records_are_read_by_row(tmp_path):
  corpus = load(tmp_path, passages={f'p{n}': f'text {n}' for n in range(2500)})
  records = corpus.passages
  assert len(records) == 2500
  assert records[1234].text == records[np.int32(1234)].text == 'text 1234'
  assert [one.id for one in records[7:1:-3]] == ['p7', 'p4']
  # Read some at a time, in order.
  assert [one.id for one in records] == [f'p{n}' for n in range(2500)]


def test_ids_are_rows_and_ties_go_to_the_larger(tmp_path):
  corpus = load(tmp_path)
  assert [corpus.passage_ids.row_of(name) for name in 'badcx'] == [
      0, 1, 2, 3, None]
  assert corpus.tie_ranks.tolist() == [2, 3, 0, 1]


def test_equal_texts_are_a_group_of_their_first_row(tmp_path):
  # Case and white space count for nothing, and titles do.
  assert load(tmp_path).passage_groups.tolist() == [0, 1, 2, 0]


def test_documents_of_equal_titles(tmp_path):
  corpus = load(tmp_path)
  assert corpus.passage_documents.tolist() == [-1] * 4
  for _ in range(2):  # Computed, and read.
    found = prepared_lib.documents_by_title(corpus)
    assert found[0] == found[1] >= 0 and found[2] == -1
    assert found[3] not in (found[0], -1)


def test_judgements_are_sorted(tmp_path):
  corpus = load(tmp_path, {'q0': 'x', 'q1': 'y', 'q2': 'z'},
                test={'q2': {'c': 3}, 'q0': {'d': 1, 'b': -1}})
  found = corpus.judgements('test')
  # Queries that no split has are not kept.
  assert [query.id for query in corpus.queries] == ['q0', 'q2']
  assert found.query_rows.tolist() == [0, 0, 1]
  assert found.passage_rows.tolist() == [0, 2, 3]
  assert found.grades.tolist() == [-1, 1, 3]
  assert found.queries.tolist() == [0, 1] and not len(found.unjudged)


def test_some_of_the_judgements_are_without_the_rest():
  whole = prepared_lib.Judgements(
      np.array([0, 0, 3], np.int32), np.array([4, 5, 6], np.int32),
      np.array([1, 0, 2], np.int32), np.array([True, False, False]),
      np.array([2, 7], np.int32))
  assert whole.queries.tolist() == [0, 2, 3, 7]
  part = whole.select(np.array([False, True, True]))
  assert part.query_rows.tolist() == [0, 3]
  assert part.passage_rows.tolist() == [5, 6]
  assert part.grades.tolist() == [0, 2]
  assert part.is_example.tolist() == [False, False]
  assert part.queries.tolist() == [0, 3]


def test_splits_that_are_not_there_are_refused(tmp_path):
  corpus = load(tmp_path / 'some', {'q0': 'x'}, dev={'q0': {'a': 1}}, empty={})
  assert set(corpus.splits) == {'dev', 'empty'}
  with pytest.raises(errors.UserError, match='no split "test"; it has '
                     r'(dev, empty|empty, dev)\. Name one with --config\.data'):
    corpus.judgements('test')
  with pytest.raises(errors.UserError, match='"empty" holds no judgements'):
    corpus.judgements('empty')
  alone = load(tmp_path / 'alone')
  assert alone.splits == () and list(alone.queries) == []
  assert len(alone.query_ids) == 0
  with pytest.raises(errors.UserError, match='it is a corpus alone. Give a '):
    alone.judgements('test')


def test_other_folders_are_refused(tmp_path):
  with pytest.raises(errors.UserError, match='not a prepared corpus'):
    prepared_lib.Prepared(tmp_path)
