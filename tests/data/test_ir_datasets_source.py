"""Data sets of ir_datasets, registered here from local files."""

import importlib
import sys
from typing import NamedTuple

import pytest

from neg_contrast import errors
from neg_contrast.data import dataset, preparation, records, sources
from neg_contrast.settings import config as config_lib

ir_datasets = pytest.importorskip('ir_datasets')


@pytest.fixture
def library(tmp_path, monkeypatch):
  """A data set `ours` with two parts."""
  (tmp_path / 'docs.tsv').write_text('d1\tÜnï code\nd2\ttwo words\nd3\tx\n')
  for part, lines in (('train', 'q1\tfirst\nq2\tsecond\n'),
                      ('test', 'q3\tthird?\n')):
    (tmp_path / f'{part}.tsv').write_text(lines)
  (tmp_path / 'train.qrels').write_text('q1 0 d1 1\nq1 0 d2 0\nq2 0 d2 2\n')
  (tmp_path / 'test.qrels').write_text('q3 0 d3 1\n')
  registry = type(ir_datasets.registry)()
  monkeypatch.setattr(ir_datasets, 'registry', registry)
  make = lambda **files: ir_datasets.create_dataset(
      docs_tsv=str(tmp_path / 'docs.tsv'), **files)
  registry.register('ours', make())
  for part in ('train', 'test'):
    registry.register(f'ours/{part}', make(
        queries_tsv=str(tmp_path / f'{part}.tsv'),
        qrels_trec=str(tmp_path / f'{part}.qrels')))
  registry.register('bare', ir_datasets.create_dataset(
      queries_tsv=str(tmp_path / 'test.tsv')))
  return tmp_path


def known(prepared, split):
  judged = prepared.judgements(split)
  return {(prepared.queries[int(query)].text,
           prepared.passages[int(row)].text): int(grade)
          for query, row, grade in zip(
              judged.query_rows, judged.passage_rows, judged.grades,
              strict=True)}


def test_parts_are_splits(library):
  prepared = preparation.prepare('ir_datasets:ours', library / 'out', False)
  assert prepared.splits == ('train', 'test')
  assert known(prepared, 'train') == {
      ('first', 'Ünï code'): 1, ('first', 'two words'): 0,
      ('second', 'two words'): 2}
  assert known(prepared, 'test') == {('third?', 'x'): 1}


def test_a_set_with_judgements_of_its_own_has_its_parts(library):
  """As mr-tydi, whose languages have those of all parts together."""
  (library / 'all.tsv').write_text('q1\tfirst\nq2\tsecond\nq3\tthird?\n')
  (library / 'all.qrels').write_text('q1 0 d1 1\nq3 0 d3 1\n')
  ir_datasets.registry._registered['ours'] = ir_datasets.create_dataset(
      docs_tsv=str(library / 'docs.tsv'), queries_tsv=str(library / 'all.tsv'),
      qrels_trec=str(library / 'all.qrels'))
  prepared = preparation.prepare('ir_datasets:ours', library / 'out', False)
  assert prepared.splits == ('train', 'test')
  assert known(prepared, 'test') == {('third?', 'x'): 1}


def test_a_part_alone(library):
  prepared = preparation.prepare('ir_datasets:ours/test', library / 'out',
                                 False)
  assert prepared.splits == ('test',) and len(prepared.passages) == 3


def test_it_is_read_again_when_a_file_changes(library):
  data = dataset.data_of(config_lib.DataConfig(
      source='ir_datasets:ours', prepared_dir=str(library / 'out')))
  assert data.lacks() is None and not data.is_made()
  data.fetch()
  data.load()
  assert data.is_made()
  (library / 'test.qrels').write_text('q3 0 d2 1\n')
  assert not data.is_made()


class _Document(NamedTuple):
  doc_id: str
  title: str
  text: str

  def default_text(self):
    return f'{self.title} {self.text}'


class _Page(NamedTuple):
  doc_id: str
  title: str
  body: bytes

  def default_text(self):
    return self.body.decode()


@pytest.mark.parametrize('document, passage', [
    (_Document('d1', 'Only a title', ''), ('Only a title', '')),
    (_Document('d1', 'T', 'text'), ('T', 'text')),
    (_Page('d1', 'T', b'T of a page'), ('', 'T of a page')),
])
def test_documents_of_other_fields(library, monkeypatch, document, passage):
  monkeypatch.setattr(
      ir_datasets.load('ours/train').docs_handler(), 'docs_iter',
      lambda: iter([document]))
  source = sources.open_source(
      'ir_datasets:ours/train', records.InvalidRecords(True))
  [found] = source.passages()
  assert (found.title, found.text) == passage


def test_queries_of_parts_with_equal_ids(library):
  (library / 'test.tsv').write_text('q1\tthird?\n')
  (library / 'test.qrels').write_text('q1 0 d3 1\n')
  with pytest.raises(errors.UserError, match='query "q1" of test is another '
                     'than that of train; read each part alone: '
                     'ir_datasets:ours/PART'):
    preparation.prepare('ir_datasets:ours', library / 'out', True)
  prepared = preparation.prepare('ir_datasets:ours/test', library / 'out', True)
  assert known(prepared, 'test') == {('third?', 'x'): 1}
  (library / 'test.tsv').write_text('q1\tfirst\n')  # The same one again.
  prepared = preparation.prepare('ir_datasets:ours', library / 'out', False)
  assert known(prepared, 'test') == {('first', 'x'): 1}


@pytest.mark.parametrize('name, said', [
    ('nothing', 'no such data set'), ('bare', 'it has no documents'),
])
def test_names_that_are_none(library, name, said):
  with pytest.raises(errors.UserError, match=said) as error:
    sources.open_source(f'ir_datasets:{name}', records.InvalidRecords(True))
  assert '\n' not in str(error.value)


def test_what_is_not_here_is_downloaded_by_the_job(library):
  (library / 'docs.tsv').unlink()
  assert not sources.is_here('ir_datasets:ours')
  data = dataset.data_of(config_lib.DataConfig(
      source='ir_datasets:ours', prepared_dir=str(library / 'out')))
  assert data.lacks() is None
  with pytest.raises(errors.UserError, match="can't be downloaded"):
    data.fetch()


def test_without_the_library(monkeypatch):
  monkeypatch.setitem(sys.modules, 'ir_datasets', None)
  with pytest.raises(errors.UserError, match='pip install ir_datasets'):
    sources.open_source('ir_datasets:x', records.InvalidRecords(True))


def refuse(*args, **kwargs):
  raise ConnectionError('no route')


@pytest.fixture
def offline(tmp_path, monkeypatch):
  """The library's own data sets, of which none is here."""
  monkeypatch.setattr('requests.get', refuse)
  beir = importlib.import_module('ir_datasets.datasets.beir')
  monkeypatch.setenv('IR_DATASETS_HOME', str(tmp_path / 'home'))
  monkeypatch.setattr(ir_datasets, 'registry', type(ir_datasets.registry)())
  beir._init()


def test_a_set_of_beir_that_can_not_be_had(offline, tmp_path, capfd):
  source = 'ir_datasets:beir/scifact/test'
  assert not sources.is_here(source)  # So that a plan downloads nothing.
  data = dataset.data_of(config_lib.DataConfig(
      source=source, prepared_dir=str(tmp_path / 'out')))
  assert data.lacks() is None
  opened = sources.open_source(source, records.InvalidRecords(True))
  for call in (
      data.fetch, data.load, lambda: opened.files,
      lambda: list(opened.passages()), lambda: list(opened.queries()),
      lambda: list(opened.judgements('test'))):
    with pytest.raises(errors.UserError, match="can't be downloaded") as error:
      call()
    assert '\n' not in str(error.value)
  assert capfd.readouterr() == ('', '')
