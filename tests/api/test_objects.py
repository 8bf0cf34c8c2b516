"""Objects in memory as a source: what is understood, and every error."""

import csv
import pathlib

import numpy as np
import pandas
import polars
import pytest

from neg_contrast import errors
from neg_contrast.api import objects
from neg_contrast.artifacts import folders
from neg_contrast.data import preparation, records


def prepared(source, root):
  return preparation.prepare(source, root / 'prepared', False)


def pairs(corpus, split):
  judged = corpus.judgements(split)
  return {(corpus.queries[q].id, corpus.passages[p].id, g) for q, p, g in zip(
      judged.query_rows.tolist(), judged.passage_rows.tolist(),
      judged.grades.tolist(), strict=True)}


AWKWARD = ('a\tb', 'line\nbreak', '"quoted", \\ too', 'é\u2028ü 日本',
           '</script><b>', "'; --", '\x1b[31mred')


def test_texts_come_back_as_they_were(tmp_path):
  passages = {n: (text, f'{text} body') for n, text in enumerate(AWKWARD)}
  queries = {f'q {n}': text for n, text in enumerate(AWKWARD)}
  judged = {f'q {n}': [n] for n in range(len(AWKWARD))}
  source = objects.write(tmp_path, passages, queries, {'test': judged})
  corpus = prepared(source, tmp_path)
  assert [(p.id, p.title, p.text) for p in corpus.passages] == [
      (str(n), text, f'{text} body') for n, text in enumerate(AWKWARD)]
  assert [(q.id, q.text) for q in corpus.queries] == list(queries.items())
  assert pairs(corpus, 'test') == {
      (f'q {n}', str(n), 1) for n in range(len(AWKWARD))}


@pytest.mark.parametrize('passages', [
    {'0': 'one', '1': ('two', 'three')},
    ['one', ('two', 'three')],
    [{'text': 'one'}, {'id': 1, 'title': 'two', 'text': 'three'}],
    [{'_id': '0', 'title': None, 'text': 'one'}, ['two', 'three']],
    [records.Passage('0', '', 'one'), records.Passage('1', 'two', 'three')],
    {np.int64(0): 'one', np.int64(1): {'title': 'two', 'text': 'three'}},
    (text for text in ('one', ('two', 'three'))),
    pandas.DataFrame({'id': [0, 1], 'title': ['', 'two'],
                      'text': ['one', 'three']}),
    pandas.DataFrame({'title': [float('nan'), 'two'], 'text': ['one', 'three']},
                     index=[0.0, 1.0]),
    pandas.DataFrame({'title': ['two', ''], 'text': ['three', 'one']},
                     index=[1, 0]).sort_index(),
    pandas.Series(['one', ('two', 'three')], index=['0', '1']),
    polars.DataFrame({'title': ['', 'two'], 'text': ['one', 'three']}),
])
def test_passages_alike_are_one_source(tmp_path, passages):
  source = objects.write(tmp_path, passages)
  assert source == objects.write(tmp_path, {'0': 'one', '1': ('two', 'three')})
  corpus = prepared(source, tmp_path)
  assert [(p.id, p.title, p.text) for p in corpus.passages] == [
      ('0', '', 'one'), ('1', 'two', 'three')]


@pytest.mark.parametrize('judged', [
    {'a': ['x', 'y'], 'b': 'x'},
    {'a': {'y': 1, 'x': 1}, 'b': {'x'}},
    {'a': {'y', 'x'}, 'b': frozenset('x')},
    [('a', 'x'), ('a', 'y'), ('b', 'x')],
    [('a', 'x', 1), ['a', 'y', np.int64(1)], ('b', 'x')],
    np.array([('a', 'x'), ('a', 'y'), ('b', 'x')]),
    pandas.DataFrame({'q': ['a', 'a', 'b'], 'p': ['x', 'y', 'x'], 'g': 1}),
    pandas.DataFrame({'q': ['a', 'a', 'b'], 'p': ['x', 'y', 'x'], 'g': 1.0}),
    polars.DataFrame({'q': ['a', 'a', 'b'], 'p': ['x', 'y', 'x'], 'g': 1}),
    pandas.Series(['x', 'y', 'x'], index=['a', 'a', 'b']),
    pandas.Series([['x', 'y'], 'x'], index=['a', 'b']),
    [('a', ['x', 'y']), ('b', ('x',), 1)],
    pandas.DataFrame({'corpus-id': ['x', 'y', 'x'], 'score': 1,
                      'Query-ID': ['a', 'a', 'b'], 'more': 7}),
    polars.DataFrame({'passage': ['x', 'y', 'x'], 'query': ['a', 'a', 'b']}),
    [{'doc_id': 'x', 'query_id': 'a'}, {'query_id': 'a', 'doc_id': 'y'},
     {'query_id': 'b', 'doc_id': 'x', 'relevance': 1}],
])
def test_judgements_alike_are_one_source(tmp_path, judged):
  given = ({'x': 'one', 'y': 'two'}, {'a': 'q', 'b': 'r'})
  source = objects.write(tmp_path, *given, {'train': judged})
  assert source == objects.write(
      tmp_path, *given, {'train': {'a': ('x', 'y'), 'b': ('x',)}})
  assert pairs(prepared(source, tmp_path), 'train') == {
      ('a', 'x', 1), ('a', 'y', 1), ('b', 'x', 1)}


@pytest.mark.parametrize('held', [
    pandas.Series(['three', 'one'], index=[3, 1]),
    pandas.DataFrame({'text': ['three', 'one']}, index=[3, 1])])
def test_what_a_filter_has_left_keeps_its_ids(tmp_path, held):
  """An index is not the places in a table."""
  source = objects.write(tmp_path, held)
  assert [(p.id, p.text) for p in prepared(source, tmp_path).passages] == [
      ('3', 'three'), ('1', 'one')]


@pytest.mark.parametrize('name', [3, 3.0, np.int64(3), '3'])
def test_numbers_name_documents_as_they_name_passages(tmp_path, name):
  source = objects.write(tmp_path, pandas.DataFrame(
      {'text': ['one', 'two'], 'document_id': [name, None]}))
  assert [p.document_id for p in prepared(source, tmp_path).passages] == [
      '3', '']
  with pytest.raises(errors.UserError, match=(
      r'passages\[0\]\["document_id"\]: an id is text or a whole number, not '
      'float')):
    objects.write(tmp_path, [{'text': 'one', 'document_id': 3.5}])


def test_more_of_a_record_stays(tmp_path):
  source = objects.write(
      tmp_path, [{'id': 'x', 'text': 'one', 'document_id': 'd'}],
      [{'id': 'a', 'text': 'q', 'answers': 'one'},
       records.Query('b', 'r', ('two', 'three'))],
      {'train': {'a': {'x': 0}, 'b': {'x': 3}}})
  corpus = prepared(source, tmp_path)
  assert corpus.passages[0].document_id == 'd'
  assert [q.answers for q in corpus.queries] == [('one',), ('two', 'three')]
  assert pairs(corpus, 'train') == {('a', 'x', 0), ('b', 'x', 3)}
  as_squad = objects.write(tmp_path, ['one'], [
      {'text': 'q', 'answers': {'text': ['one', 'two'], 'answer_start': [0, 9]}}
  ], {'train': [(0, 0)]})
  assert prepared(as_squad, tmp_path).queries[0].answers == ('one', 'two')
  mention = objects.write(tmp_path, ['one'], [
      {'id': 'm', 'text': 'it', 'left': 'before', 'right': 'after'}],
      {'train': [('m', 0)]})
  assert prepared(mention, tmp_path).queries[0].context == ('before', 'after')


def test_equal_objects_are_written_once(tmp_path):
  source = objects.write(tmp_path, ['one'])
  path = pathlib.Path(source.removeprefix('beir:')) / folders.MANIFEST
  before = path.stat().st_mtime_ns
  assert objects.write(tmp_path, ['one']) == source
  assert path.stat().st_mtime_ns == before
  other = objects.write(tmp_path, ['one '])
  assert other != source
  # What stands in one text is no other text's.
  assert objects.write(tmp_path, [('a', 'b c')]) != objects.write(
      tmp_path, [('a b', 'c')])


PASSAGES, QUERIES = {'x': 'one', 'y': 'two'}, {'a': 'q'}


@pytest.mark.parametrize(('passages', 'queries', 'judged', 'message'), [
    ('text', (), None, 'passages: a dict or a list is needed, not str'),
    (None, (), None, 'passages: a dict or a list is needed, not NoneType'),
    ([1], (), None, r'passages\[0\]: a passage is a text, .*, not int'),
    ([('a',)], (), None, r'passages\[0\]: a passage is'),
    ([('a', None, 'b')], (), None, r'passages\[0\]: a passage is'),
    ([('a', 1)], (), None, r'passages\[0\]: "text" is int, not text'),
    ([{'body': 'one'}], (), None, 'has the keys body; those of it are title, '),
    ([{}], (), None, r'passages\[0\]: has the keys of nothing'),
    ({'': 'one'}, (), None, r"passages\[''\]: the id '' is empty"),
    ({'a\tb': 'one'}, (), None, 'holds a tab'),
    ({'a\x1bb': 'one'}, (), None, 'not printed'),
    ({1.5: 'one'}, (), None, 'an id is text or a whole number, not float'),
    ({True: 'one'}, (), None, 'not bool'),
    ({'1': 'one', 1: 'two'}, (), None, r"passages\[1\]: the id '1' is there b"),
    (PASSAGES, [7], None, r'queries\[0\]: a query is a text or a dict'),
    (PASSAGES, [{'text': 'q', 'answers': [1]}], None, 'are text, not int'),
    (PASSAGES, [{'answers': 'q'}], None, 'are text, not NoneType'),
    (PASSAGES, QUERIES, {'b': 'x'}, r"judgements\['b'\]: no such query.*'a'"),
    (PASSAGES, QUERIES, {'a': 'z'}, "no such passage as 'z'; passages are 'x'"),
    (PASSAGES, QUERIES, {'a': {'x': 'good'}}, "the grade 'good' is no whole"),
    (PASSAGES, QUERIES, {'a': {'x': 0.5}}, 'the grade 0.5 is no whole'),
    (PASSAGES, QUERIES, {'a': {'x': float('nan')}}, 'the grade nan is'),
    (PASSAGES, QUERIES, [('a', 'x', 1), ('a', 'x', 0)],
     r"\[1\]: passage 'x' of query 'a' was judged before, with another"),
    ({'3': 'one'}, QUERIES, {'a': {3: 1, '3': 0}}, "id '3' is there twice"),
    ({'1': 'one'}, {'3': 'q', 3: 'r'}, None, "the id '3' is there before"),
    ({'1': 'one'}, {'3': 'q'}, {3: '1', '3': '1'}, "the id '3' is there twice"),
    (PASSAGES, QUERIES, {}, 'judgements of the split "train": there are none'),
    (pandas.DataFrame({'question': ['q']}), (), None,
     r'passages\[0\]: has the keys question; those of it are title, text'),
    (pandas.DataFrame({'text': [7.5]}), (), None,
     r'passages\[0\]: "text" is float, not text'),
    (pandas.Series(['one', 'two'], index=[4, 4]), (), None,
     'passages: the index has an id twice; give a column "id"'),
    (PASSAGES, QUERIES, [('a',)], r'\[0\]: \(query id, passage id\) or'),
    (PASSAGES, QUERIES, ['ax'], r'\[0\]: \(query id, passage id\) or'),
    (PASSAGES, QUERIES, 'ax', 'a dict or a list of pairs is needed, not str'),
    (PASSAGES, (), {'a': 'x'}, 'no such query; queries are not given'),
    (PASSAGES, QUERIES, [('a', {'x': 1})], r'\[0\]: an id is text or a whole'),
    (PASSAGES, QUERIES, [{'q': 'a', 'p': 'x'}],
     r'\[0\]: has q, p; name the query "query-id", the passage "corpus-id"'),
    (PASSAGES, QUERIES, pandas.DataFrame({'x': ['a'], 'query': ['x']}),
     'has x, query; name the query'),
    (PASSAGES, [{'text': 'q', 'answers': 3}], None,
     r'queries\[0\]: "answers" is a text, texts, or a dict with "text"'),
    (PASSAGES, [{'text': 'q', 'answers': {'starts': [3]}}], None,
     r'queries\[0\]: "answers" is a text, texts, or a dict with "text"'),
])
def test_what_is_not_understood(tmp_path, passages, queries, judged, message):
  splits = None if judged is None else {'train': judged}
  with pytest.raises(errors.UserError, match=message) as caught:
    objects.write(tmp_path, passages, queries, splits)
  assert '\n' not in str(caught.value) and len(str(caught.value)) < 400
  assert not list(tmp_path.iterdir())


def test_the_reader_tells_of_blank_texts_and_half_characters(tmp_path):
  for text, message in ((' ', 'passage "x" has no title or text'),
                        ('\udcff', 'no valid Unicode')):
    source = objects.write(tmp_path, {'x': text})
    with pytest.raises(errors.UserError, match=message):
      prepared(source, tmp_path)


def test_the_rule_that_sets_apart_is_that_of_tables(tmp_path):
  queries = {f'q{n}': f'question number {n}' for n in range(50)}
  judged = dict.fromkeys(queries, 0)
  train, test = objects.set_apart(queries, judged, 0.3)
  assert set(train) | set(test) == set(queries) and not set(train) & set(test)
  with open(tmp_path / 'faq.csv', 'w', newline='') as f:
    table = csv.writer(f)
    table.writerow(['question', 'text'])
    table.writerows([text, 'one'] for text in queries.values())
  corpus = prepared(f'csv:{tmp_path / "faq.csv"}?test=0.3', tmp_path)
  apart = {corpus.queries[row].text
           for row in corpus.judgements('test').queries.tolist()}
  assert {queries[name] for name in test} == apart
  assert 5 < len(test) < 25


def test_one_at_least_is_set_apart():
  queries = ['one', 'two']
  for share in (0.0, 1e-9, 0.999):
    train, test = objects.set_apart(queries, [(0, 'x'), (1, 'y')], share)
    assert len(train) == len(test) == 1
  with pytest.raises(errors.UserError, match='1 queries have some; two are'):
    objects.set_apart(queries, {0: 'x'}, 0.2)
  for share in (-0.1, 1, 20, float('nan')):
    with pytest.raises(errors.UserError, match='a share of the queries'):
      objects.set_apart(queries, {0: 'x', 1: 'y'}, share)
  with pytest.raises(errors.UserError, match='`train` takes judgements, too'):
    objects.set_apart(queries, {0: 'x', 1: 'y'}, {'a': 'x'})
  assert objects.set_apart(
      queries, [(0, 'x'), (1, 'y')], np.float32(0.5))[1]
