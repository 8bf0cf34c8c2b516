"""tensorflow-datasets as a source: foreign data sets, and our own folders."""

import json
import os
import re
import shutil
import sys
from unittest import mock

import numpy as np
import pytest
import tensorflow_datasets as tfds
from array_record.python import array_record_module
from tensorflow_datasets.core import example_serializer
from tensorflow_datasets.question_answering import qa_utils

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.data import preparation, records, sources
from neg_contrast.data.formats import squad, tfds_source

STRICT = records.InvalidRecords(skip=False)
AWKWARD = 'Ünï one\u2028two\x85three\x0bfour\n\t"q"'


def answers(*texts):
  return {'text': list(texts), 'answer_start': [0] * len(texts)}


def row(name, question, context, *texts, title='Super_Bowl'):
  return {'id': name, 'question': question, 'context': context, 'title': title,
          'answers': answers(*texts)}


ROWS = {
    'train': [
        row('1', 'Who ' + AWKWARD, AWKWARD, 'a', 'b "c"', 'a'),
        row('2', 'impossible', AWKWARD),
        row('3', 'how', 'Another.', 'x'),
        row('4', 'where', AWKWARD, 'y'),
    ],
    'validation': [row('5', 'where', AWKWARD, 'y', title='Other')],
}


def store(folder, rows, features=None, file_format='array_record', shards=2):
  """Writes a data set as tensorflow-datasets does, row by row."""
  features = features or qa_utils.squadlike_features()
  serializer = example_serializer.ExampleSerializer(
      features.get_serialized_info())
  folder.mkdir(parents=True)
  infos = []
  for split, given in rows.items():
    files = tfds.core.ShardedFileTemplate(
        data_dir=folder, dataset_name='squad', split=split,
        filetype_suffix='array_record')
    parts = [given[i::shards] for i in range(shards)]
    for part, path in zip(parts, files.sharded_filepaths(num_shards=shards),
                          strict=True):
      writer = array_record_module.ArrayRecordWriter(str(path), 'group_size:1')
      for one in part:
        writer.write(
            serializer.serialize_example(features.encode_example(one)))
      writer.close()
    infos.append(tfds.core.SplitInfo(
        name=split, shard_lengths=list(map(len, parts)), num_bytes=1,
        filename_template=files))
  tfds.folder_dataset.write_metadata(
      data_dir=str(folder), features=features, split_infos=infos,
      check_data=False)
  info = folder / 'dataset_info.json'
  text = info.read_text()
  info.write_text(text.replace('"array_record"', f'"{file_format}"'))
  return folder


@pytest.fixture
def data_dir(tmp_path, monkeypatch):
  monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path / 'tfds'))
  return tmp_path / 'tfds'


def read(spec, invalid=STRICT):
  source = sources.open_source(spec, invalid)
  assert isinstance(source, records.Source)
  assert all(path.is_file() for path in source.files)
  once, twice = ((
      list(source.passages()),
      [(query, query.split) for query in source.queries()],
      {split: list(source.judgements(split)) for split in source.splits},
  ) for _ in range(2))
  assert once == twice
  return once


def test_a_foreign_data_set(tmp_path, data_dir):
  folder = store(data_dir / 'squad' / 'v1.1' / '3.10.0',
                 {'train': ROWS['train'], 'validation': ROWS['validation'] * 2})
  store(data_dir / 'squad' / 'v1.1' / '3.9.0', {'train': ROWS['train'][:1]},
        shards=1)
  passages, queries, judgements = read('tfds:squad')
  assert {(p.title, p.text, p.document_id) for p in passages} == {
      ('Super Bowl', AWKWARD, 'Super_Bowl'), ('Other', AWKWARD, 'Other'),
      ('Super Bowl', 'Another.', 'Super_Bowl')}
  assert len(passages) == 6 and len({p.id for p in passages}) == 3
  assert [query for query, _ in queries] == [  # Shard by shard; two have 5.
      records.Query('1', 'Who ' + AWKWARD, ('a', 'b "c"')),
      records.Query('3', 'how', ('x',)), records.Query('4', 'where', ('y',)),
      records.Query('5', 'where', ('y',)), records.Query('5', 'where', ('y',))]
  assert list(judgements) == ['train', 'validation']
  of = {p.id: p.text for p in passages}
  assert [(j.query_id, of[j.passage_id], j.grade, j.is_example)
          for j in judgements['train']] == [
      ('1', AWKWARD, 1, True), ('3', 'Another.', 1, True),
      ('4', AWKWARD, 1, True)]
  corpus = preparation.prepare('tfds:squad', tmp_path / 'out', False)
  assert corpus.manifest['counts']['judgements'] == {'train': 3,
                                                     'validation': 1}
  for spec in ('squad/v1.1', 'squad/v1.1:3.10.0', str(folder)):
    assert read(f'tfds:{spec}') == (passages, queries, judgements)
  assert len(read('tfds:squad/v1.1:3.9.0')[0]) == 1
  assert 'tensorflow' not in sys.modules


def test_the_line_that_prepares_works(tmp_path, data_dir, shared_data):
  """It is run with the downloads replaced by a file that is here."""
  with pytest.raises(errors.UserError, match='Download and prepare') as caught:
    sources.open_source('tfds:squad', STRICT)
  line = re.search('python -c "(.*)"', str(caught.value)).group(1)
  text = json.loads(
      (shared_data / 'squad-v1.1-dev' / 'dev.squad.json').read_text())
  part = tmp_path / 'dev-v1.1.json'
  part.write_text(json.dumps({'version': '1.1', 'data': text['data'][:2]}))
  with mock.patch.object(
      tfds.download.DownloadManager, 'download_and_extract',
      lambda self, urls: dict.fromkeys(urls, str(part)),
  ), mock.patch.object(tfds.core.constants, 'DATA_DIR', str(data_dir)):
    exec(line, {})
  passages, queries, judgements = read('tfds:squad')
  by_json = squad.Squad(str(part), STRICT)
  plain = lambda found: {(p.title, p.text, p.document_id) for p in found}
  assert plain(passages) == plain(by_json.passages())
  assert {query for query, _ in queries} == set(by_json.queries())
  text_of = {p.id: p.text for p in (*passages, *by_json.passages())}
  assert {(j.query_id, text_of[j.passage_id])
          for j in judgements['validation']} == {
      (j.query_id, text_of[j.passage_id]) for j in by_json.judgements('dev')}
  assert 'tensorflow' not in sys.modules


def test_a_mapping_of_ones_own(tmp_path, data_dir, monkeypatch):
  text = tfds.features.Text()
  features = tfds.features.FeaturesDict({
      'number': np.int32, 'title': text,
      'qa': {'q': text, 'a': tfds.features.Sequence(text)}, 'body': text})
  rows = [{'number': n, 'title': 'T_1', 'body': f'body {n % 2}',
           'qa': {'q': f'q {n % 3}', 'a': []}} for n in range(6)]
  folder = store(data_dir / 'mine' / '1.0.0', {'test': rows}, features,
                 shards=1)
  with pytest.raises(errors.UserError,
                     match='nothing says .* is known of squad') as caught:
    sources.open_source('tfds:mine', STRICT)
  # The message shows how to write one; that mapping does not fit here.
  example = re.search(r"'mine': (Mapping\(.*\))", str(caught.value)).group(1)
  shown = eval(example, vars(tfds_source))
  monkeypatch.setitem(tfds_source.MAPPINGS, 'mine', shown)
  with pytest.raises(errors.UserError, match='"query" is mapped to the feature '
                     r'"question", but there are \[.body., .number., .qa.'):
    read('tfds:mine')
  monkeypatch.setitem(tfds_source.MAPPINGS, 'mine', tfds_source.Mapping(
      query='qa/q', text='body', passage_id='number', title='title'))
  passages, queries, _ = read(f'tfds:{folder.parent.name}')
  assert passages[3] == records.Passage('3', 'T_1', 'body 1')
  assert len({query.id for query, _ in queries}) == 3


def test_a_foreign_text_that_is_not_utf8(tmp_path, data_dir):
  store(data_dir / 'squad' / 'v1.1' / '3.0.0', {'train': [
      row('1', 'q', b'\xff', 'a'), row('2', b'\xff', 'fine', 'a'),
      row('3', 'q', 'fine', 'a')]}, shards=1)
  with pytest.raises(errors.UserError, match='train, row 0: not UTF-8'):
    preparation.prepare('tfds:squad', tmp_path / 'out', False)
  corpus = preparation.prepare('tfds:squad', tmp_path / 'out', True)
  assert corpus.manifest['counts']['skipped'] == {'broken_record': 2}
  assert [q.id for q in corpus.queries] == ['3']


def test_foreign_data_sets_that_are_not_there(data_dir):
  place = data_dir / 'squad' / 'v1.1'
  for name in ('squad', 'squad/v1.1', 'squad/v1.1:1.0.0'):
    with pytest.raises(errors.UserError, match=fr'not found in {place} [\s\S]*'
                       r"builder\('squad/v1.1'\)") as caught:
      sources.open_source(f'tfds:{name}', STRICT)
    assert 'file_format=' in str(caught.value)
  with pytest.raises(errors.UserError, match="builder\\('squad/v2.0'\\)"):
    sources.open_source('tfds:squad/v2.0', STRICT)
  with pytest.raises(errors.UserError, match='neither a folder with manifest'):
    sources.open_source('tfds:workdirs/prepared/none-12', STRICT)
  store(place / '3.0.0', ROWS, file_format='tfrecord')
  with pytest.raises(errors.UserError, match='stored as tfrecord, which only '):
    sources.open_source('tfds:squad', STRICT)
  shutil.rmtree(place)
  folder = store(place / '3.0.0', ROWS)
  next(folder.glob('*validation*')).unlink()
  with pytest.raises(errors.UserError, match='split "validation" has 1 of 2 '):
    sources.open_source('tfds:squad', STRICT)
  (folder / 'dataset_info.json').write_text('{')
  with pytest.raises(errors.UserError, match='dataset_info.json: not valid js'):
    sources.open_source('tfds:squad', STRICT)


@pytest.mark.parametrize('name, content, message', [
    ('features.json', None, 'lacks features.json'),
    ('features.json', b'{', 'damaged .*prepare it again'),
    ('features.json', b'{"pythonClassName": "none"}', 'damaged'),
    ('dataset_info.json', b'{"fileFormat": "array_record", "splits": null}',
     'names no splits'),
    ('dataset_info.json', b'{"fileFormat": "array_record", "splits": [null]}',
     'dataset_info.json: damaged'),
    ('dataset_info.json', b'\xff{', 'not valid json'),
    ('squad-train.array_record-00000-of-00001', b'\x07' * 70_000, 'damaged'),
])
def test_damaged_foreign_data_sets(data_dir, name, content, message):
  folder = store(data_dir / 'squad' / 'v1.1' / '3.0.0',
                 {'train': ROWS['train']}, shards=1)
  assert (folder / name).is_file()
  (folder / name).unlink()
  if content is not None:
    (folder / name).write_bytes(content)
  with pytest.raises(errors.UserError, match=message):
    list(sources.open_source('tfds:squad', STRICT).queries())


def test_where_it_is_called_from_does_not_matter(
    tmp_path, data_dir, monkeypatch
):
  """Nor does the mapping's file go unnoticed."""
  store(data_dir / 'squad' / 'v1.1' / '3.0.0', ROWS)
  folders = set()
  for name in 'ab':
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    made = preparation.prepare('tfds:squad', tmp_path / 'out', False)
    folders.add(made.folder)
  assert len(folders) == 1
  source = sources.open_source('tfds:squad', STRICT)
  assert os.path.realpath(tfds_source.__file__) in map(os.path.realpath,
                                                       source.files)


# Our own folders.

def make_source(folder):
  """DPR files, since they have all that a record can have."""
  folder.mkdir()
  context = lambda name, text, title='': {
      'passage_id': name, 'title': title, 'text': text}
  (folder / 'nq-train.json').write_text(json.dumps([
      {'question_id': 'q b', 'question': AWKWARD, 'answers': ['a', AWKWARD],
       'positive_ctxs': [context('é 1', AWKWARD, 'T'), context('2', 'two')],
       'hard_negative_ctxs': [context('0', 'zero'), context('3', 'three')]},
      {'question_id': 'a', 'question': 'second', 'answers': [],
       'positive_ctxs': [context('3', 'three')]}]))
  (folder / 'nq-dev.json').write_text(json.dumps([
      {'question_id': 'a', 'question': 'second', 'answers': [],
       'positive_ctxs': [context('2', 'two')]}]))
  (folder / 'nq-test.qa.csv').write_text("third\t['x']\nfourth\t[]\n")
  return f'dpr:{folder}'


@pytest.mark.parametrize('kind', ['dpr', 'beir', 'corpus'])
def test_our_own_folder_is_read_back(tmp_path, request, kind):
  if kind == 'dpr':
    spec = make_source(tmp_path / 'data')
  else:
    whole = request.getfixturevalue('shared_data') / 'squad-v1.1-dev'
    part = tmp_path / 'data'
    part.mkdir()
    (part / 'corpus.jsonl').symlink_to(whole / 'corpus.jsonl')
    if kind == 'beir':
      (part / 'queries.jsonl').symlink_to(whole / 'queries.jsonl')
      (part / 'qrels').mkdir()
      qrels = (whole / 'qrels' / 'dev.tsv').read_text().splitlines()[:500]
      (part / 'qrels' / 'dev.tsv').write_text('\n'.join(qrels))
    spec = f'beir:{part}'
  first = preparation.prepare(spec, tmp_path / 'out', False)
  again_spec = f'tfds:{os.path.relpath(first.folder)}'
  again = preparation.prepare(again_spec, tmp_path / 'out', False)
  assert again.folder != first.folder
  for key in ('corpus_fingerprint', 'queries_fingerprint', 'fingerprint'):
    assert again.manifest[key] == first.manifest[key]
  assert list(again.passages) == list(first.passages)
  assert list(again.queries) == list(first.queries)
  assert again.splits == first.splits
  for split in first.splits:
    for name in ('judgements', 'unjudged'):
      path = f'{name}-{split}.npy'
      assert ((again.folder / path).read_bytes()
              == (first.folder / path).read_bytes())
  read(again_spec)
  assert preparation.is_prepared(again_spec, tmp_path / 'out', False)


def test_our_own_folder_that_lacks_a_file(tmp_path):
  first = preparation.prepare(make_source(tmp_path / 'data'), tmp_path / 'out',
                           False)
  (first.folder / 'unjudged-test-qa.npy').unlink()
  with pytest.raises(errors.UserError, match='not a corpus that this version '
                     r'prepared \(unjudged-test-qa.npy is missing\); prepare '
                     f'dpr:{tmp_path / "data"} again'):
    sources.open_source(f'tfds:{first.folder}', STRICT)
  other = tmp_path / 'other'
  other.mkdir()
  folders.write_sealed(other / 'manifest.json', {'format': 1})
  with pytest.raises(errors.UserError, match='of format 1; this revision reads '
                     'a prepared corpus of format 5'):
    sources.open_source(f'tfds:{other}', STRICT)


@pytest.mark.parametrize('name, content, message', [
    ('manifest.json', b'{"counts": null}', 'there is no checksum in it'),
    ('manifest.json', b'\xff', 'not UTF-8'),
    ('manifest.json', b'{"counts": 5, "checksum": 1}',
     'manifest.json: damaged'),
    ('judgements-train.npy', b'', 'damaged'),
    ('judgements-train.npy', b'\x93NUMPYx', 'damaged'),
    ('unjudged-test-qa.npy', b'PK', 'damaged'),
    ('passages.ends.bin', b'', 'damaged'),
    ('passages.ends.bin', b'123', 'damaged'),
    ('queries/features.json', b'{', 'damaged'),
])
def test_our_own_folder_that_is_damaged(tmp_path, name, content, message):
  folder = preparation.prepare(make_source(tmp_path / 'data'), tmp_path / 'out',
                            False).folder
  (folder / name).write_bytes(content)
  with pytest.raises(errors.UserError, match=message):
    preparation.prepare(f'tfds:{folder}', tmp_path / 'out', False)


def test_our_own_folder_with_other_rows(tmp_path):
  folder = preparation.prepare(make_source(tmp_path / 'data'), tmp_path / 'out',
                            False).folder
  table = np.load(folder / 'judgements-train.npy')
  for row in (99, -1):
    table[0, 1] = row
    np.save(folder / 'judgements-train.npy', table)
    with pytest.raises(errors.UserError, match='damaged .*checksum'):
      preparation.prepare(f'tfds:{folder}', tmp_path / 'out', False)
