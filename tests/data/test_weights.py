"""Weights of judgements: read, kept, refused; and nothing where there are none.
"""

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.data import (
  examples,
  judgement_writer,
  preparation,
  records,
)
from neg_contrast.data import prepared as prepared_lib
from tests.data import test_formats

HEADER = 'query-id\tcorpus-id\tscore\tweight\n'
QRELS = HEADER + 'q1\ta\t2\t0.5\nq1\t7\t1\t3\nq2\tc\t0\t9\nq2\ta\t1\t0\n'


def prepare(tmp_path, qrels, skip=False, name='data'):
  folder = test_formats.make_beir(tmp_path / name, qrels=qrels)
  return preparation.prepare(f'beir:{folder}', tmp_path / 'out', skip)


def test_weights_come_with_their_judgements(tmp_path):
  judged = prepare(tmp_path, QRELS).judgements('test')
  assert judged.passage_rows.tolist() == [0, 1, 0, 2]
  assert judged.grades.tolist() == [2, 1, 1, 0]
  # That of the negative says nothing.
  assert judged.weights.tolist() == [0.5, 3, 0, 1]
  assert judged.weights.dtype == np.float32
  assert judged.select(judged.grades > 1).weights.tolist() == [0.5]


def test_a_prepared_folder_gives_them_again(tmp_path):
  first = prepare(tmp_path, QRELS)
  again = preparation.prepare(f'tfds:{first.folder}', tmp_path / 'again', False)
  assert again.fingerprint == first.fingerprint
  assert again.judgements('test').weights.tolist() == [0.5, 3, 0, 1]


def test_data_without_weights_are_the_same_data(tmp_path):
  """The bytes, the fingerprint, and the manifest's keys."""
  plain = prepare(tmp_path, test_formats.QRELS)
  ones = prepare(tmp_path, HEADER + 'q1\ta\t2\t1\nq1\t7\t1\t1.0\nq2\tc\t0\t5\n',
                 name='ones')
  assert ones.fingerprint == plain.fingerprint
  for corpus in (plain, ones):
    assert corpus.judgements('test').weights is None
    assert prepared_lib.WEIGHTED not in corpus.manifest
    assert not (corpus.folder / 'weights-test.npy').exists()
  other = prepare(tmp_path, QRELS, name='other')
  more = prepare(tmp_path, QRELS.replace('0.5', '0.25'), name='more')
  assert len({one.fingerprint for one in (plain, other, more)}) == 3


@pytest.mark.parametrize('weight', ['-1', 'nan', 'inf', '-inf', '2e9'])
def test_weights_that_are_none(tmp_path, weight):
  qrels = QRELS.replace('0.5', weight)
  with pytest.raises(errors.UserError, match=(
      r'qrels/test.tsv:2: the weight of query "q1" and passage "a" is '
      rf'{float(weight)}; weights are numbers from 0 to 1e\+09')):
    prepare(tmp_path, qrels)
  judged = prepare(tmp_path, qrels, skip=True)
  assert judged.manifest['counts']['skipped'] == {'broken_record': 1}
  assert judged.judgements('test').weights.tolist() == [3, 0, 1]


@pytest.mark.parametrize('line', [
    'q1\ta\t2', 'q1\ta\t2\tx', 'q1\ta\t2\t', 'q1\ta\t2\t1_0',
    'q1\ta\t2\t١'])
def test_a_line_without_its_weight(tmp_path, line):
  with pytest.raises(errors.UserError, match=(
      'test.tsv:2: expected query-id, corpus-id, a whole-number score and a '
      'weight between tabs')):
    prepare(tmp_path, f'{HEADER}{line}\n')


def test_two_weights_of_one_pair(tmp_path):
  with pytest.raises(errors.UserError, match=(
      'test.tsv:6: query "q1" and passage "a" were judged before, with '
      'another grade than 2 or another weight than 7.0')):
    prepare(tmp_path, QRELS + 'q1\ta\t2\t7\n')
  same = prepare(tmp_path, QRELS + 'q1\ta\t2\t0.5\n')
  assert same.judgements('test').weights.tolist() == [0.5, 3, 0, 1]


def write_table(path: pathlib.Path, **values):
  rows = [{'question': 'how', 'text': 'so'},
          {'question': 'why', 'text': 'because', **values}]
  path.write_text(''.join(json.dumps({'weight': 2, **row}) + '\n'
                          for row in rows))
  return f'jsonl:{path}?test=0'


def test_a_column_of_own_data(tmp_path):
  spec = write_table(tmp_path / 'faq.jsonl', weight='0.5')
  judged = preparation.prepare(spec, tmp_path / 'out', False)
  assert judged.judgements('train').weights.tolist() == [2, 0.5]


@pytest.mark.parametrize('weight', [None, float('nan'), ' '])
def test_an_empty_cell_is_weight_one(tmp_path, weight):
  spec = write_table(tmp_path / 'faq.jsonl', weight=weight)
  judged = preparation.prepare(spec, tmp_path / 'out', False)
  assert judged.judgements('train').weights.tolist() == [2, 1]


@pytest.mark.parametrize(('weight', 'message'), [
    (-1, 'is -1.0; weights are'), ('nan', 'is nan; weights are'),
    ('much', "column \"weight\" holds 'much', not a number"),
    ('1_0', "column \"weight\" holds '1_0', not a number"),
    (True, 'column "weight" holds True, not a number'),
])
def test_a_column_that_holds_something_else(tmp_path, weight, message):
  spec = write_table(tmp_path / 'faq.jsonl', weight=weight)
  with pytest.raises(errors.UserError, match=f'faq.jsonl:2: .*{message}'):
    preparation.prepare(spec, tmp_path / 'out', False)


def test_examples_have_weights(tmp_path):
  """One of weight 0 is known, and not trained on."""
  corpus = prepare(tmp_path, QRELS)
  make = lambda **values: examples.make_examples(
      corpus, corpus.judgements('test'), **values)
  made = make()
  assert made.positive_rows.tolist() == [0, 1]
  assert made.weights.tolist() == [0.5, 3]
  assert made.weights_of(np.array([1, 1, 0])).tolist() == [3, 3, 0.5]
  assert 0 in made.positive_groups[1]
  assert make(weigh='graded').weights.tolist() == [1, 3]
  equal = make(weigh='equal')
  assert equal.weights is None and equal.weights_of(np.array([0])) is None
  assert equal.positive_rows.tolist() == [0, 1, 0]


def test_grades_are_weights_where_that_is_asked_for(tmp_path):
  corpus = prepare(tmp_path, test_formats.QRELS)
  make = lambda **values: examples.make_examples(
      corpus, corpus.judgements('test'), **values)
  assert make().weights is None
  assert make(weigh='graded').weights.tolist() == [2, 1]
  one = prepare(tmp_path, 'query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\t7\t2\n',
                name='one')
  alike = examples.make_examples(one, one.judgements('test'), weigh='graded')
  assert alike.count_alike and alike.weights_of(np.arange(2)) is None


def test_nothing_is_left_to_train_on(tmp_path):
  corpus = prepare(tmp_path, HEADER + 'q1\ta\t2\t0\n')
  with pytest.raises(errors.UserError, match='has a grade and a weight above'):
    examples.make_examples(corpus, corpus.judgements('test'))


def test_what_a_judge_adds_has_weight_one(tmp_path):
  corpus = prepare(tmp_path, QRELS)
  made = examples.make_examples(corpus, corpus.judgements('test'))
  more = made.relabelled(np.array([[0, 2]], np.int32), corpus.passage_groups)
  assert more.weights.tolist() == [0.5, 3, 1]
  heavy = dataclasses.replace(made, weights=np.float32([5, 5]))
  assert heavy.relabelled(
      np.array([[0, 2]], np.int32), corpus.passage_groups
  ).weights_of(np.arange(3)).tolist() == [5, 5, 1]
  plain = dataclasses.replace(made, weights=None)
  assert plain.relabelled(
      np.array([[0, 2]], np.int32), corpus.passage_groups).weights is None


def test_joined_sets_without_weights_have_one():
  some = examples.Examples(np.arange(2), np.arange(2),
                           examples.Positives(np.zeros((0, 2), int), 2))
  heavy = dataclasses.replace(some, weights=np.array([3, 0.5], np.float32))
  assert examples.joined_weights([some, some]) is None
  assert examples.joined_weights([some, heavy]).tolist() == [1, 1, 3, 0.5]


def test_a_set_of_equal_weights_keeps_them_among_others(tmp_path):
  """Alone they mean nothing; beside the weights of other sets they do."""
  def make(name, first, second):
    corpus = prepare(
        tmp_path, f'{HEADER}q1\ta\t1\t{first}\nq1\t7\t1\t{second}\n', name=name)
    return examples.make_examples(corpus, corpus.judgements('test'))

  heavy, other, light = make('a', 5, 5), make('b', 1, 2), make('c', 1, 1)
  assert heavy.weights_of(np.arange(2)) is None
  for some, want in (([heavy, other], [5, 5, 1, 2]),
                     ([light, heavy], [1, 1, 5, 5])):
    assert examples.joined_weights(some).tolist() == want
  assert light.weights is None


def test_unique_keeps_the_first_weight():
  pairs = np.array([5, 3, 5, 3, 4], np.int64)
  found = judgement_writer.unique(
      pairs, np.full(5, 3, np.int32),
      np.array([1, 2, 1, 7, 9], np.float32))
  assert found.weights.tolist() == [2, 9, 1]
  assert found.conflicts.tolist() == [3]


def test_a_weight():
  assert records.is_weight(0.0) and records.is_weight(1e9)
  assert not any(map(records.is_weight, (-1e-9, float('nan'), float('inf'))))
