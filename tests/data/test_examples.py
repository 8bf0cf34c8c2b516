"""Pairs to train on, what they must not contrast, and the tune split."""

import json

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.data import examples, preparation
from tests import corpora, tiny

PASSAGES = {'a': 'One text', 'b': 'other', 'c': ' one  TEXT', 'd': 'third'}
QUERIES = {'q0': 'who', 'q1': 'what', 'q2': 'where'}
JUDGED = {
    'train': {'q0': {'c': 1, 'b': 0}, 'q2': {'d': 2, 'b': 1}},
    'test': {'q0': {'a': 1, 'd': 1}, 'q1': {'b': 1}},
}


def prepare(folder, passages=PASSAGES, **splits):
  source = corpora.write_beir(
      folder / 'data', passages, QUERIES, **(splits or JUDGED))
  return corpora.data_of(folder, source).load().prepared


def test_positives_are_padded_to_the_longest_asked_for():
  made = tiny.positives([[4, 7, 9], [], [2], [1, 3]])
  assert len(made) == 4 and made.most == 3
  assert made[np.array([2, 1])].tolist() == [[2], [-1]]
  assert made[np.array([3, 0, 1])].tolist() == [
      [1, 3, -1], [4, 7, 9], [-1, -1, -1]]
  assert made[np.array([[0, 2]])].tolist() == [[[4, 7, 9], [2, -1, -1]]]
  assert made[3].tolist() == [1, 3]
  assert made[np.zeros(0, int)].shape == (0, 1)


def test_nobody_has_a_positive():
  made = examples.Positives(np.zeros((0, 2), np.int32), 2)
  assert len(made) == 2 and made.most == 0
  assert made[np.array([0, 1])].tolist() == [[-1], [-1]]
  assert examples.Positives(np.zeros((0, 2), np.int32), 0).most == 0


def test_positives_of_a_split_are_its_examples(tmp_path):
  prepared = prepare(tmp_path)
  cuts = np.arange(12, dtype=np.int32).reshape(4, 3)
  judged = prepared.judgements('train')
  made = examples.make_examples(prepared, judged, cuts)
  # Sorted by query and passage: q0-b, q0-c, q2-b, q2-d; the first is none.
  assert len(made) == 3
  assert made.query_rows.tolist() == [0, 2, 2]
  assert made.positive_rows.tolist() == [2, 1, 3]
  assert made.cuts.tolist() == cuts[1:].tolist()
  assert examples.make_examples(prepared, judged).cuts is None


def test_positives_of_every_split_are_known_by_their_text(tmp_path):
  known = examples.known_positives(prepare(tmp_path))
  # `a` and `c` have equal texts, and are named by the first of them.
  assert known[np.arange(3)].tolist() == [[0, 3], [1, -1], [1, 3]]


def test_nothing_to_train_on_is_an_error(tmp_path):
  prepared = prepare(tmp_path, train={'q0': {'a': 0}}, test={'q0': {'b': 1}})
  with pytest.raises(errors.UserError, match='nothing to train on'):
    examples.make_examples(prepared, prepared.judgements('train'))


def write_documents(folder, order):
  """30 documents of a passage and a query each, in some order."""
  folder.mkdir()
  corpora.write_beir(
      folder, {f'p{n}': f'text {n}' for n in order},
      {f'q{n}': f'query {n}' for n in order},
      train={f'q{n}': {f'p{n}': 1, f'p{(n + 1) % 30}': 0} for n in order})
  return preparation.prepare(f'beir:{folder}', folder.parent / 'out', False)


def split_ids(prepared, fraction=0.3, **kwargs):
  """Ids of the passages that are positives of both parts."""
  parts = examples.split_by_document(
      prepared, prepared.judgements('train'), fraction, **kwargs)
  return [{(prepared.query_ids[query], prepared.passage_ids[row], grade)
           for query, row, grade in zip(part.query_rows, part.passage_rows,
                                        part.grades.tolist(), strict=True)}
          for part in parts]


def test_the_order_of_the_corpus_changes_no_part(tmp_path):
  one = split_ids(write_documents(tmp_path / 'one', range(30)))
  other = split_ids(write_documents(tmp_path / 'two', range(29, -1, -1)))
  assert one == other
  train, tune = one
  assert len(train) + len(tune) == 60 and not train & tune
  assert 2 * 3 <= len(tune) <= 2 * 16
  # A query is there with all its judgements.
  assert not {query for query, _, _ in train} & {query for query, _, _ in tune}


def test_more_documents_are_added_to_fewer(tmp_path):
  prepared = write_documents(tmp_path / 'one', range(30))
  before = set()
  for fraction in (0.2, 0.4, 0.6, 0.8):
    _, tune = split_ids(prepared, fraction)
    assert before < tune
    before = tune


def test_a_document_is_in_one_part(tmp_path):
  prepared = write_documents(tmp_path / 'one', range(30))
  documents = np.arange(30, dtype=np.int32) // 6
  train, tune = split_ids(prepared, 0.5, documents=documents)
  homes = [{documents[prepared.passage_ids.row_of(passage.decode())]
            for _, passage, grade in part if grade > 0}
           for part in (train, tune)]
  assert homes[0] | homes[1] == set(range(5)) and not homes[0] & homes[1]


def test_equal_texts_are_a_document_where_none_is_known(tmp_path):
  source = tmp_path / 'data'
  corpora.write_beir(
      source, {f'p{n}': f'text {n // 10}' for n in range(40)},
      {f'q{n}': f'query {n}' for n in range(40)},
      train={f'q{n}': {f'p{n}': 1} for n in range(40)})
  prepared = preparation.prepare(f'beir:{source}', tmp_path / 'out', False)
  _, tune = split_ids(prepared, 0.5)
  assert len(tune) in (10, 20, 30)


@pytest.mark.parametrize('fraction', [1e-9, 1 - 1e-9])
def test_an_empty_part_is_an_error(tmp_path, fraction):
  prepared = write_documents(tmp_path / 'one', range(30))
  with pytest.raises(errors.UserError, match=r'config\.data\.tune_fraction=.*'
                     'of 30 documents with positives it leaves (0|30) for'):
    split_ids(prepared, fraction)


def test_documents_that_no_query_asks_for_are_not_counted(tmp_path):
  source = tmp_path / 'data'
  corpora.write_beir(
      source, {f'p{n}': f'text {n // 10}' for n in range(40)},
      {f'q{n}': f'query {n}' for n in range(10)},
      train={f'q{n}': {f'p{n}': 1, f'p{n + 20}': 0} for n in range(10)})
  prepared = preparation.prepare(f'beir:{source}', tmp_path / 'out', False)
  with pytest.raises(errors.UserError,
                     match='of 1 documents with positives it leaves [01] for'):
    split_ids(prepared, 0.5)


def test_a_query_goes_with_its_first_positive(tmp_path):
  """With one of many documents too, and with its negatives."""
  source = tmp_path / 'data'
  corpora.write_beir(
      source, {f'p{n}': f'text {n}' for n in range(30)},
      {'q0': 'all', **{f'r{n}': f'query {n}' for n in range(30)}},
      train={'q0': {f'p{n}': int(n > 2) for n in range(30)},
             **{f'r{n}': {f'p{n}': 1} for n in range(30)}})
  prepared = preparation.prepare(f'beir:{source}', tmp_path / 'out', False)
  for fraction in (0.2, 0.5, 0.8):
    for part in split_ids(prepared, fraction):
      own = {passage for query, passage, _ in part if query == b'q0'}
      assert len(own) in (0, 30)
      if own:
        assert (b'r3', b'p3', 1) in part


def test_documents_of_the_reader_are_the_default(tmp_path):
  tiny.write_beir(tmp_path / 'data', documents=20)
  prepared = preparation.prepare(
      f'beir:{tmp_path / "data"}', tmp_path / 'out', False)
  rows = [json.loads(line) for line in
          (tmp_path / 'data' / 'corpus.jsonl').read_text().splitlines()]
  home = {row['_id']: row['metadata']['document_id'] for row in rows}
  train, tune = split_ids(prepared)
  homes = [{home[passage.decode()] for _, passage, grade in part if grade > 0}
           for part in (train, tune)]
  assert homes[0] and homes[1] and not homes[0] & homes[1]


def test_holds_is_a_look_into_the_table():
  rng = np.random.default_rng(0)
  known = [sorted(set(rng.integers(0, 40, n))) for n in (0, 1, 30, 2, 7, 0)]
  made = tiny.positives(known)
  queries, groups = rng.integers(0, 6, 50), rng.integers(-1, 41, (50, 9))
  expected = [[group in known[query] for group in line]
              for query, line in zip(queries, groups.tolist(), strict=True)]
  np.testing.assert_array_equal(made.holds(queries, groups), expected)
  nobody = examples.Positives(np.zeros((0, 2), np.int32), 2)
  assert not nobody.holds(np.array([1]), np.array([[0, 1]])).any()
