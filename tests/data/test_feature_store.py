"""Features of records: read from sources, kept as arrays, faults named."""

import gzip
import json
import shutil

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import buckets
from neg_contrast.data import feature_store, preparation
from neg_contrast.data.side_features import feature_kinds
from tests import bucket

PASSAGES = [
    {'_id': 'a', 'text': 'one', 'metadata': {'place': 'Łódź', 'price': 3}},
    {'_id': 'b', 'text': 'two', 'place': 'Oslo', 'price': 1.5},
    {'_id': 'c', 'text': 'three', 'metadata': {'place': 'Łódź', 'price': -2}},
]
QUERIES = [
    {'_id': 'q0', 'text': 'which', 'place': 'Oslo'},
    {'_id': 'unjudged', 'text': 'not kept', 'place': 7.5},
    {'_id': 'q1', 'text': 'what', 'metadata': {'place': 'Bern'}},
]


def lines_of(rows):
  return ''.join(json.dumps(row) + '\n' for row in rows)


@pytest.fixture
def write(tmp_path):
  """Writes a BEIR folder, and reads it."""

  def write(passages=PASSAGES, queries=QUERIES, skip=False):
    folder = tmp_path / 'data'
    (folder / 'qrels').mkdir(parents=True, exist_ok=True)
    with gzip.open(folder / 'corpus.jsonl.gz', 'wt') as f:
      f.write(passages if isinstance(passages, str) else lines_of(passages))
    (folder / 'queries.jsonl').write_text(lines_of(queries))
    (folder / 'qrels' / 'train.tsv').write_text(
        'query-id\tcorpus-id\tscore\nq0\tb\t1\nq1\tc\t1\n')
    return preparation.prepare(f'beir:{folder}', tmp_path / 'prepared', skip)

  return write


def kept(prepared, role, text, skip=False):
  return feature_store.kept(prepared, role, feature_kinds.parse(text), skip)


def test_fields_become_rows(write):
  prepared = write()
  places = kept(prepared, 'passage', 'place:categorical')
  assert places.vocabulary == ('Łódź', 'Oslo')
  assert places.values.tolist() == [[1], [2], [1]]
  assert kept(prepared, 'query', 'place:categorical-5').vocabulary == (
      'Oslo', 'Bern')  # Of the queries that are judged.
  prices = kept(prepared, 'passage', 'price:numeric')
  assert prices.values.tolist() == [[1, 3], [1, 1.5], [1, -2]]
  none = kept(prepared, 'query', 'price:numeric')  # No query has one.
  assert none.values.shape == (2, 2) and not none.values.any()
  ngrams = kept(prepared, 'query', 'text:char3')
  np.testing.assert_array_equal(
      ngrams.values,
      feature_kinds.parse('text:char3').keep(['which', 'what']).values)
  assert not kept(prepared, 'query', 'title:char3').values.any()
  table = feature_store.table_of(
      prepared, 'passage', feature_kinds.parse_all(['price:numeric']), False)
  assert table.values(np.array([1]))['price-numeric'].tolist() == [[1, 1.5]]
  assert feature_store.table_of(prepared, 'passage', (), False) is None


def test_a_source_in_a_bucket_has_features(write, tmp_path, monkeypatch):
  near = write()
  monkeypatch.setattr(buckets, '_TRUSTED_SECONDS', 0)
  prices = feature_kinds.parse_all(['price:numeric'])
  with bucket.running(tmp_path / 'cache'):
    def far(rows):
      (tmp_path / 'data' / 'corpus.jsonl.gz').write_bytes(
          gzip.compress(lines_of(rows).encode(), mtime=0))
      bucket.upload(tmp_path / 'data', f'{bucket.BUCKET}/data')
      return preparation.prepare(
          f'beir:{bucket.BUCKET}/data', tmp_path / 'far', False)

    prepared = far(PASSAGES)
    values = kept(prepared, 'passage', 'price:numeric').values
    np.testing.assert_array_equal(
        values, kept(near, 'passage', 'price:numeric').values)
    before = feature_store.contents_of(prepared, prices)
    assert feature_store.contents_of(far(PASSAGES), prices) == before
    prepared = far([{**row, 'price': 9} for row in PASSAGES])
    assert feature_store.contents_of(prepared, prices) != before


def test_a_source_prepared_by_a_relative_path(write, tmp_path, monkeypatch):
  """It is read by the path that it has now; another one may lie at the old."""
  write()
  shutil.rmtree(tmp_path / 'prepared')
  monkeypatch.chdir(tmp_path)
  first = preparation.prepare('beir:data', tmp_path / 'prepared', False)
  elsewhere = tmp_path / 'elsewhere'
  shutil.copytree(tmp_path / 'data', elsewhere / 'data')
  with gzip.open(elsewhere / 'data' / 'corpus.jsonl.gz', 'wt') as f:
    f.write(lines_of([{**row, 'price': 9} for row in PASSAGES]))
  monkeypatch.chdir(elsewhere)
  spec = f'beir:{tmp_path / "data"}'
  again = preparation.prepare(spec, tmp_path / 'prepared', False)
  assert again.folder == first.folder
  assert again.fingerprint == first.fingerprint
  prices = kept(again, 'passage', 'price:numeric')
  assert prices.values[:, 1].tolist() == [3, 1.5, -2]
  with pytest.raises(errors.UserError, match=f'{spec}: no split "dev"'):
    again.judgements('dev')


@pytest.mark.parametrize('name', ['values.npy', 'vocabulary.json'])
def test_damage_is_told(write, name):
  prepared = write()
  kept(prepared, 'passage', 'place:categorical')
  path = next(prepared.folder.rglob(f'features/passage-*/{name}'))
  data = path.read_bytes()
  path.write_bytes(data.replace(b'Oslo', b'Osla') if name[-4:] == 'json' else
                   data[:-1] + bytes([data[-1] ^ 1]))
  with pytest.raises(errors.UserError, match=f'{name}: damaged'):
    kept(prepared, 'passage', 'place:categorical')


def test_values_are_kept_until_files_change(write, monkeypatch):
  prepared = write()
  first = kept(prepared, 'passage', 'price:numeric')
  monkeypatch.setattr(feature_store, '_fields', None)
  assert kept(prepared, 'passage', 'price:numeric').values.tolist() == (
      first.values.tolist())
  monkeypatch.undo()
  before = feature_store.contents_of(
      prepared, feature_kinds.parse_all(['price:numeric']))
  dearer = [{**row, 'price': 9} for row in PASSAGES]
  prepared = write(dearer)
  assert kept(prepared, 'passage', 'price:numeric').values[:, 1].tolist() == [
      9, 9, 9]
  features = feature_kinds.parse_all(['price:numeric', 'text:char3'])
  assert feature_store.contents_of(prepared, features) != before
  assert feature_store.contents_of(prepared, features[1:]) == {}


@pytest.mark.parametrize(('value', 'text', 'message'), [
    ('dear', 'price:numeric', r'"price" holds \'dear\', not a finite number'),
    ([1, 2], 'price:vector-3', 'holds 2 numbers, not 3'),
    (1.5, 'price:categorical', 'not a text or a whole number'),
    (None, 'price:numeric', 'has no "price", as 1 of 3 passages'),
    ('', 'price:categorical', r'write price\?:categorical'),
    (float('nan'), 'price:numeric', 'has no "price"'),
])
def test_faults_name_file_and_line(write, value, text, message):
  good = [1, 2, 3] if 'vector' in text else 2
  rows = [{**row, 'metadata': {}, 'price': good} for row in PASSAGES]
  rows[2]['price'] = value
  prepared = write(rows)
  with pytest.raises(errors.UserError, match=message) as refused:
    kept(prepared, 'passage', text)
  assert 'corpus.jsonl.gz:3: ' in str(refused.value)
  assert 'data.on_invalid=skip' in str(refused.value)
  some = kept(prepared, 'passage', text, skip=True)
  assert some.values[:, 0].tolist() == [1, 1, 0]
  with pytest.raises(errors.UserError, match=message):
    kept(prepared, 'passage', text)  # What was skipped is an error again.
  name, kind = text.split(':')
  if value is None or value == '' or value != value:
    optional = kept(prepared, 'passage', f'{name}?:{kind}')
    assert optional.values[:, 0].tolist() == [1, 1, 0]
  else:
    with pytest.raises(errors.UserError, match=message):
      kept(prepared, 'passage', f'{name}?:{kind}')


def test_one_id_has_one_value(write):
  prepared = write([*PASSAGES, PASSAGES[0]])
  assert len(kept(prepared, 'passage', 'price:numeric').values) == 3
  for again, message in (({'price': 4}, 'another "price" here than before'),
                         ({}, 'has no "price", and had one before')):
    prepared = write([*PASSAGES, {**PASSAGES[0], 'metadata': again}])
    with pytest.raises(errors.UserError, match=f'gz:4: .*{message}'):
      kept(prepared, 'passage', 'price:numeric')


def test_a_corpus_alone_has_no_queries(tmp_path):
  (tmp_path / 'corpus.jsonl').write_text(lines_of(PASSAGES))
  prepared = preparation.prepare(
      f'beir:{tmp_path}', tmp_path / 'prepared', False)
  for text in ('price:numeric', 'text:char3'):
    assert kept(prepared, 'query', text).values.shape[0] == 0
    assert len(kept(prepared, 'passage', text).values) == 3


def test_columns_of_own_data(tmp_path):
  rows = [
      {'question': 'Where?', 'text': 'Here.', 'query_place': 'Oslo',
       'passage_place': 'Bern', 'passage_price': 4},
      {'question': 'When?', 'text': 'Now.', 'query_place': 'Lima',
       'passage_place': 'Oslo', 'passage_price': 5},
  ]
  (tmp_path / 'faq.jsonl').write_text(lines_of(rows))
  prepared = preparation.prepare(
      f'jsonl:{tmp_path / "faq.jsonl"}?test=0', tmp_path / 'prepared', False)
  assert kept(prepared, 'query', 'place:categorical').vocabulary == (
      'Oslo', 'Lima')
  assert kept(prepared, 'passage', 'place:categorical').vocabulary == (
      'Bern', 'Oslo')
  assert kept(prepared, 'passage', 'price:numeric').values[:, 1].tolist() == [
      4, 5]
  (tmp_path / 'pages.csv').write_text(
      'id,text,price,social\nx,Here.,4,0.5 1\ny,Now.,dear,"2,3"\n')
  (tmp_path / 'clicks.csv').write_text(
      'question,document,query_price\nWhere?,x,1\nWhen?,y,2\n')
  prepared = preparation.prepare(
      f'csv:{tmp_path / "clicks.csv"}?documents={tmp_path / "pages.csv"}'
      '&test=0', tmp_path / 'prepared', False)
  np.testing.assert_array_equal(
      kept(prepared, 'passage', 'social:vector-2').values,
      [[1, 0.5, 1], [1, 2, 3]])
  assert kept(prepared, 'query', 'price:numeric').values[:, 1].tolist() == [
      1, 2]
  with pytest.raises(errors.UserError, match="pages.csv:3: .*'dear'"):
    kept(prepared, 'passage', 'price:numeric')


def test_formats_without_features_are_refused(tmp_path):
  (tmp_path / 'pages').mkdir()
  (tmp_path / 'pages' / 'a.txt').write_text('Some text.')
  prepared = preparation.prepare(
      f'text:{tmp_path / "pages"}', tmp_path / 'prepared', False)
  assert kept(prepared, 'passage', 'text:char3').values.any()
  with pytest.raises(errors.UserError, match='have no features beside text, '
                     'and the model reads "place" .*beir:, csv:'):
    kept(prepared, 'passage', 'place:categorical')


def test_texts_in_no_corpus():
  features = feature_kinds.parse_all(['place:categorical', 'text:char3'])
  table = feature_store.table_in_memory(features, 'query', [
      ('', 'which', {'place': 'Oslo'}), ('', 'what', {})])
  values = table.values(np.arange(2))
  assert values['place-categorical'].tolist() == [[1], [0]]  # Unknown, none.
  assert values['text-char'].any(axis=1).all()
  with pytest.raises(errors.UserError, match='with "color": the model reads '
                     'place beside text'):
    feature_store.table_in_memory(features, 'query', [('', 'a', {'color': 1})])
  with pytest.raises(errors.UserError, match='reads nothing beside text'):
    feature_store.table_in_memory((), 'query', [('', 'a', {'color': 1})])
  with pytest.raises(errors.UserError, match='a query: "place" holds'):
    feature_store.table_in_memory(features, 'query', [('', 'a', {'place': []})])
