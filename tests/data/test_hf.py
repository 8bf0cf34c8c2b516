"""Folders of Parquet files as the hub has them, and a stand-in for the hub."""

import pathlib

import huggingface_hub
import pyarrow
import pytest
from huggingface_hub import constants
from pyarrow import parquet

from neg_contrast import errors
from neg_contrast.data import dataset, preparation, records, sources
from neg_contrast.data.formats import hf
from neg_contrast.settings import config as config_lib
from tests import bucket
from tests.api import hub_server


def write(path: pathlib.Path, rows):
  path.parent.mkdir(parents=True, exist_ok=True)
  parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def known(prepared):
  """Split -> {(question, text): grade}."""
  found = {}
  for split in prepared.splits:
    judged = prepared.judgements(split)
    found[split] = {
        (prepared.queries[int(query)].text, prepared.passages[int(row)].text):
            int(grade) for query, row, grade in zip(
                judged.query_rows, judged.passage_rows, judged.grades,
                strict=True)}
  return found


def prepare(spec, out, skip=False):
  return preparation.prepare(spec, out, skip)


@pytest.fixture
def pairs(tmp_path):
  write(tmp_path / 'nq/data/train-00000-of-00002.parquet', [
      {'query': 'wér?', 'answer': 'Ünï, code', 'negative': 'no'},
      {'query': 'two', 'answer': 'b', 'negative': None},
  ])
  write(tmp_path / 'nq/data/train-00001-of-00002.parquet', [
      {'query': 'wér?', 'answer': 'no', 'negative': 'c'}])
  write(tmp_path / 'nq/data/validation-00000-of-00001.parquet', [
      {'query': 'three', 'answer': 'b', 'negative': 'c'}])
  return tmp_path / 'nq'


def test_rows_of_pairs(pairs, tmp_path):
  prepared = prepare(f'hf:{pairs}?text=answer', tmp_path / 'out')
  assert known(prepared) == {
      # What answers a question in one row is no negative of it in another.
      'train': {('wér?', 'Ünï, code'): 1, ('wér?', 'no'): 1, ('wér?', 'c'): 0,
                ('two', 'b'): 1},
      'dev': {('three', 'b'): 1, ('three', 'c'): 0},
  }
  assert len(prepared.passages) == 4
  assert all(not query.answers for query in prepared.queries)


def test_lists_numbered_negatives_and_nested_answers(tmp_path):
  write(tmp_path / 'x/en/test/0000.parquet', [{
      'anchor': 'q', 'positives': ['a', 'b', ' '], 'title': 'T',
      'negative_1': 'c', 'negative_2': 'd', 'answers': {'text': ['x', 'y']},
  }])
  write(tmp_path / 'x/de/test/0000.parquet', [
      {'anchor': 'f', 'positives': ['g']}])
  with pytest.raises(errors.UserError, match='configurations de, en; name one'):
    prepare(f'hf:{tmp_path / "x"}', tmp_path / 'out')
  with pytest.raises(errors.UserError, match=(
      'column "answers" holds text; .answer=answers/text takes one of them, '
      '.answer= none')):
    prepare(f'hf:{tmp_path / "x"}?config=en', tmp_path / 'out')
  prepared = prepare(f'hf:{tmp_path / "x"}?config=en&answer=answers/text',
                     tmp_path / 'out')
  assert known(prepared) == {'test': {
      ('q', 'a'): 1, ('q', 'b'): 1, ('q', 'c'): 0, ('q', 'd'): 0}}
  assert prepared.queries[0].answers == ('x', 'y')
  assert {one.title for one in prepared.passages} == {'T', ''}


@pytest.mark.parametrize('judged, columns', [
    ('qrels', ('query-id', 'corpus-id')), ('default', ('query_id', 'doc_id')),
])
def test_three_tables(tmp_path, judged, columns):
  write(tmp_path / 'b/corpus/corpus-0.parquet', [
      {'_id': '1', 'title': 'T', 'text': 'a'}, {'_id': '2', 'title': '',
                                                'text': 'b'}])
  write(tmp_path / 'b/queries/queries-0.parquet', [
      {'_id': 'q1', 'text': 'one'}, {'_id': 'q2', 'text': 'two'}])
  query, passage = columns
  write(tmp_path / f'b/{judged}/train-0.parquet', [
      {query: 'q1', passage: '1', 'score': 1.0}])
  write(tmp_path / f'b/{judged}/test-0.parquet', [
      {query: 'q2', passage: '2', 'score': 2.0},
      {query: 'q2', passage: '1', 'score': 0.0}])
  prepared = prepare(f'hf:{tmp_path / "b"}', tmp_path / 'out')
  assert known(prepared) == {
      'train': {('one', 'a'): 1}, 'test': {('two', 'b'): 2, ('two', 'a'): 0}}
  assert prepared.passages[0].title == 'T'


def test_grades_of_rows(tmp_path):
  rows = [{'query': 'q', 'passage': text, 'label': label, 'score': -3.5}
          for text, label in (('a', 1), ('b', 0), ('c', 2), ('a', 0),
                              ('d', None))]
  write(tmp_path / 'x/train.parquet', rows)
  graded = {('q', 'a'): 1, ('q', 'b'): 0, ('q', 'c'): 2, ('q', 'd'): 1}
  assert known(prepare(f'hf:{tmp_path / "x"}', tmp_path / 'out')) == {
      'train': graded}
  assert known(prepare(f'hf:{tmp_path / "x"}?grade=', tmp_path / 'out')) == {
      'train': dict.fromkeys(graded, 1)}
  with pytest.raises(errors.UserError, match='row 1: column "score" holds '
                     r'-3.5, not a whole number; \?grade= reads none'):
    prepare(f'hf:{tmp_path / "x"}?grade=score', tmp_path / 'out')


def test_names_of_columns_are_known_in_any_case(tmp_path):
  """As those of a user's tables."""
  write(tmp_path / 'x/train.parquet', [
      {'Question': 'q', 'Context': 'c', 'Label': 0},
      {'Question': 'q', 'Context': 'd', 'Label': 2}])
  assert known(prepare(f'hf:{tmp_path / "x"}', tmp_path / 'out')) == {
      'train': {('q', 'c'): 0, ('q', 'd'): 2}}


def test_an_id_is_that_of_one_question(tmp_path):
  write(tmp_path / 'x/train.parquet', [
      {'id': 0, 'query': 'one', 'text': 'a'},
      {'id': 0, 'query': 'one', 'text': 'b'},
      {'id': 1, 'query': 'two', 'text': 'c'}])
  write(tmp_path / 'x/test.parquet', [{'id': 1, 'query': 'three', 'text': 'd'}])
  spec = f'hf:{tmp_path / "x"}'
  with pytest.raises(errors.UserError, match='row 3: query id "1" was there '
                     r'before, with another question; \?id=&query_id= reads'):
    prepare(spec, tmp_path / 'out')
  first = {('one', 'a'): 1, ('one', 'b'): 1}
  prepared = prepare(spec, tmp_path / 'out', skip=True)
  assert known(prepared) == {'train': first, 'test': {('three', 'd'): 1}}
  assert prepared.query_ids.row_of('0') is not None
  assert prepared.manifest['counts']['skipped'] == {'duplicate_id': 1}
  assert known(prepare(f'{spec}?id=', tmp_path / 'out')) == {
      'train': {**first, ('two', 'c'): 1}, 'test': {('three', 'd'): 1}}


def test_columns_that_no_file_has_are_refused(tmp_path):
  write(tmp_path / 'x/train.parquet', [
      {'query': 'q', 'passage': 'a', 'score': 0}])
  spec = f'hf:{tmp_path / "x"}'
  with pytest.raises(errors.UserError, match='has no column scroe; its columns '
                     'are query, passage, score. Say which holds the grade'):
    prepare(f'{spec}?grade=scroe', tmp_path / 'out')
  assert known(prepare(f'{spec}?grade=score', tmp_path / 'out')) == {
      'train': {('q', 'a'): 0}}


def test_a_split_without_texts_can_be_skipped(tmp_path):
  write(tmp_path / 'x/train.parquet', [{'query': 'q', 'text': 'a'}])
  write(tmp_path / 'x/test.parquet', [{'query': 'other'}])
  spec = f'hf:{tmp_path / "x"}'
  with pytest.raises(errors.UserError, match='test.parquet: row 1: column '
                     '"text" is empty'):
    prepare(spec, tmp_path / 'out')
  prepared = prepare(spec, tmp_path / 'out', skip=True)
  assert len(prepared.judgements('train').grades) == len(prepared.queries) == 1


def test_opening_a_folder_in_a_bucket_fetches_nothing(pairs, tmp_path):
  with bucket.running(tmp_path / 'cache') as stand_in:
    bucket.upload(pairs, f'{bucket.BUCKET}/nq')
    stand_in.asked.clear()
    source = sources.open_source(
        f'hf:{bucket.BUCKET}/nq?text=answer', records.InvalidRecords(True))
    fetched = lambda: [path for _, path in stand_in.asked
                       if 'alt=media' in path]
    assert not fetched()
    assert list(source.passages()) and fetched()


def test_files_may_have_other_columns(tmp_path):
  write(tmp_path / 'x/dev.parquet', [{'query': 'q1', 'passage': 'a'}])
  write(tmp_path / 'x/train.parquet', [
      {'question': 'q2', 'passage': 'b', 'negative': 'c',
       'hard_negative_1': 'd', 'answers': ['x']}])
  prepared = prepare(f'hf:{tmp_path / "x"}', tmp_path / 'out')
  assert known(prepared) == {
      'dev': {('q1', 'a'): 1},
      'train': {('q2', 'b'): 1, ('q2', 'c'): 0, ('q2', 'd'): 0}}
  assert prepared.queries[1].answers == ('x',)


def test_a_folder_in_a_bucket(pairs, tmp_path):
  with bucket.running(tmp_path / 'cache'):
    bucket.upload(pairs, f'{bucket.BUCKET}/nq')
    prepared = prepare(f'hf:{bucket.BUCKET}/nq?text=answer', tmp_path / 'out')
    assert known(prepared) == known(
        prepare(f'hf:{pairs}?text=answer', tmp_path / 'out'))


def test_tables_without_ids(tmp_path):
  write(tmp_path / 'b/corpus/0.parquet', [
      {'_id': None, 'text': 'a'}, {'_id': '0', 'text': 'b'}])
  write(tmp_path / 'b/queries/0.parquet', [{'_id': 0, 'text': 'one'}])
  write(tmp_path / 'b/qrels/test.parquet', [
      {'query-id': 0, 'corpus-id': '0', 'score': 1},
      {'query-id': 0, 'corpus-id': None, 'score': 1}])
  spec = f'hf:{tmp_path / "b"}'
  with pytest.raises(errors.UserError, match='row 1: column "_id" is empty'):
    prepare(spec, tmp_path / 'out')
  prepared = prepare(spec, tmp_path / 'out', skip=True)
  assert known(prepared) == {'test': {('one', 'b'): 1}}
  assert prepared.manifest['counts']['skipped'] == {'broken_record': 2}


def test_rows_that_can_not_be_read(pairs, tmp_path):
  write(pairs / 'data/train-00001-of-00002.parquet', [
      {'query': '', 'answer': 'b', 'negative': 'c'},
      {'query': 'five', 'answer': None, 'negative': 'c'}])
  spec = f'hf:{pairs}?text=answer'
  with pytest.raises(errors.UserError,
                     match='row 1: column "query" is empty'):
    prepare(spec, tmp_path / 'out')
  prepared = prepare(spec, tmp_path / 'out', skip=True)
  assert prepared.manifest['counts']['skipped'] == {'broken_record': 2}


@pytest.mark.parametrize('more, said', [
    ('', 'no column text; its columns are query, answer, negative. Say which'),
    ('?text=gone', 'no column gone'),
    ('?colour=red', '"colour=red" is none of config=NAME, question=COLUMN'),
    ('?text=answer&config=x', 'has the configurations '),
])
def test_mistakes(pairs, tmp_path, more, said):
  with pytest.raises(errors.UserError, match=said) as error:
    prepare(f'hf:{pairs}{more}', tmp_path / 'out')
  assert '\n' not in str(error.value)


def test_a_folder_without_tables(tmp_path):
  (tmp_path / 'empty').mkdir()
  with pytest.raises(errors.UserError, match='holds no .parquet files'):
    prepare(f'hf:{tmp_path / "empty"}', tmp_path / 'out')
  with pytest.raises(errors.UserError, match='neither a folder here nor a'):
    prepare(f'hf:{tmp_path / "gone"}', tmp_path / 'out')


@pytest.fixture
def stand_in(pairs, monkeypatch):
  """A hub that holds the pairs, converted; lists what it is asked for."""
  asked, kept = [], []
  empty = pairs.parent / 'empty'
  empty.mkdir()

  def snapshot_download(name, *, repo_type, allow_patterns, revision=None,
                        local_files_only=False):
    assert repo_type == 'dataset' and allow_patterns == ['*.parquet']
    if local_files_only and not kept:
      raise OSError('not here')
    if name != 'someone/nq':
      raise OSError('no such data set')
    if not local_files_only:
      asked.append(revision)
      kept.append(name)
    return str(pairs if revision == hf._CONVERTED else empty)

  monkeypatch.setattr(huggingface_hub, 'snapshot_download', snapshot_download)
  return asked


def test_it_is_downloaded_once_and_not_in_a_plan(stand_in, tmp_path):
  spec = 'hf:someone/nq?text=answer'
  data = dataset.data_of(config_lib.DataConfig(
      source=spec, prepared_dir=str(tmp_path / 'out')))
  assert data.lacks() is None and not data.is_made()
  assert stand_in == []  # A plan only looks.
  data.fetch()
  assert stand_in == [None, hf._CONVERTED]
  prepared = data.load().prepared
  assert set(known(prepared)) == {'train', 'dev'} and data.is_made()
  assert len(stand_in) == 2


def test_what_can_not_be_downloaded(stand_in):
  assert not sources.is_here('hf:someone/else')
  with pytest.raises(errors.UserError, match='could be downloaded'):
    sources.fetch('hf:someone/else')
  with pytest.raises(errors.UserError, match='could be downloaded'):
    sources.open_source('hf:someone/else', records.InvalidRecords(True))


def test_a_plan_asks_whether_the_hub_has_it(monkeypatch):
  monkeypatch.setenv('HF_TOKEN', hub_server.TOKEN)
  with hub_server.running() as hub:
    hub.files['someone/nq'] = {}
    monkeypatch.setattr(constants, 'ENDPOINT', hub.url)
    assert sources.problem('hf:someone/nq?text=answer') is None
    assert 'hf:someone/nx: neither a folder here nor a data set of the hub' in (
        sources.problem('hf:someone/nx'))
  monkeypatch.setattr(constants, 'ENDPOINT', 'http://127.0.0.1:9')
  said = sources.problem('hf:someone/nq')  # Nobody listens there.
  assert "the hub can't be reached" in said and '\n' not in said
