"""Beam cuts documents to the same bytes as this program alone."""

import dataclasses
import re

import pytest

pytest.importorskip(
    'apache_beam', reason='Apache Beam is not installed: the extra [beam]')

from neg_contrast import beams
from neg_contrast.artifacts import folders
from neg_contrast.data import beam_documents, cut_documents, passages
from neg_contrast.models import given
from tests import beam_runs, corpora, dies_once, tiny
from tests.data.test_parallel import files_of

DOCUMENTS = {
    f'd{n}': (f'T{n % 3}', ' ' if n % 11 == 4 else '  '.join(
        f'word{i % 8 + 1}\u2028' for i in range(n % 7 + 1)))
    for n in range(40)
}


@pytest.fixture(autouse=True)
def no_runner(monkeypatch):
  monkeypatch.setattr(beam_documents, '_PART_DOCUMENTS', 9)
  yield
  beams.choose('local')


def documents(folder):
  """Documents with questions that some of them answer."""
  data = corpora.data_of(folder, corpora.write_beir(
      folder / 'data', DOCUMENTS, {'q1': 'word2', 'q2': 'what is word1'},
      test={'q1': {'d6': 1, 'd4': 1}, 'q2': {'d13': 2, 'd1': 0}}))
  data.build()
  return data


def cut(data, workdir, **changes):
  """The files of the passages, and the counts of their manifest."""
  made = dataclasses.replace(
      passages.Passages(data, workdir, 3, 0, None), **changes)
  made.build()
  files = files_of(made.folder)
  del files['manifest.json']
  return files, folders.read_manifest(made.folder)['counts']


@pytest.mark.parametrize('by_tokens', [False, True])
def test_the_same_bytes(tmp_path, monkeypatch, by_tokens):
  data = documents(tmp_path)
  changes = {}
  if by_tokens:
    tiny.write_model(tmp_path / 'model', words=[*tiny.WORDS, 'wo'],
                     vocab_size=66)
    changes = {'tokens': 2,
               'tokenizer': given.Tokenizer(str(tmp_path / 'model'))}
  local = cut(data, tmp_path / 'local', **changes)
  beam_runs.without_helper(monkeypatch)
  beams.choose('direct', beam_runs.IN_THREADS)
  assert cut(data, tmp_path / 'beam', **changes) == local
  files, counts = local
  assert set(files) == {'corpus.jsonl', 'queries.jsonl', 'qrels/test.tsv'}
  assert counts['blank'] == 4 and counts['passages'] > 60
  assert counts['lost_judgements'] == 1


def test_a_killed_worker_leaves_no_trace(tmp_path, monkeypatch):
  """Two processes of Beam; one is killed while it cuts."""
  data = documents(tmp_path)
  local = cut(data, tmp_path / 'local')
  flag = tmp_path / 'died'
  monkeypatch.setenv('DIES_ONCE', str(flag))
  prepared = data.load().prepared
  beams.choose('direct', '--direct_num_workers=2')
  cutter = dies_once.DiesAt(
      cut_documents.Cutter(3, 0, None), re.escape(DOCUMENTS['d20'][1]))
  counts = beam_documents.write(
      prepared, cutter, tmp_path / 'lines', tmp_path / 'scratch')
  assert flag.exists() and not (tmp_path / 'scratch').exists()
  assert (tmp_path / 'lines').read_bytes() == local[0]['corpus.jsonl']
  assert counts.items() <= local[1].items()
