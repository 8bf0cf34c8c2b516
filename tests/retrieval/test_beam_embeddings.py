"""Vectors encoded by Beam's RunInference, and searched: as by one process."""

import os
import pathlib
import types

import numpy as np
import pytest

pytest.importorskip(
    'apache_beam', reason='Apache Beam is not installed: the extra [beam]')

from neg_contrast import beams
from neg_contrast.artifacts import artifact
from neg_contrast.retrieval import (
  beam_dense,
  corpus_vectors,
  embeddings,
  searched,
  vector_table,
)
from tests import beam_runs, corpora, dies_once, tiny
from tests.data.test_parallel import files_of
from tests.retrieval import test_corpus_vectors, test_retriever

PASSAGES = {f'p{n}': ('title', f'word{n % 50} word{n % 7}') for n in range(300)}


@pytest.fixture(autouse=True)
def no_runner():
  yield
  beams.choose('local')


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  root = tmp_path_factory.mktemp('beam')
  tiny.write_model(root / 'model')
  return root


@pytest.fixture(scope='module')
def data(root):
  data = corpora.data_of(root, corpora.write_beir(
      root / 'data', PASSAGES, {'q': 'word1'}, test={'q': {'p1': 1}}))
  data.build()
  return data


def encode(root, data, place):
  """Builds the vectors in a folder; their files, and themselves."""
  made = test_corpus_vectors.vectors(
      root, root / 'model', data, place, chunk_tokens=1, table_rows=64)
  made.build()
  assert made.is_made()
  (folder,) = (root / place).glob('*/embeddings')
  artifact.forget()
  return files_of(folder), made


def test_the_same_bytes(root, data, tmp_path, monkeypatch):
  """In threads, and by a process that is killed, and the one after it."""
  local, _ = encode(root, data, 'local')
  assert len([name for name in local if name.endswith('.npy')]) == 5
  beams.choose('direct', beam_runs.IN_THREADS)
  with monkeypatch.context() as patch:
    done = beam_runs.without_helper(patch)
    threads, _ = encode(root, data, 'threads')
  assert threads == local and len(done) == 1
  # Workers make all shards; nothing is left to this process.
  writer, here = vector_table.ShardWriter, os.getpid()
  monkeypatch.setattr(vector_table, 'ShardWriter', lambda *args: (
      pytest.fail('by this process') if os.getpid() == here
      else writer(*args)))
  flag = tmp_path / 'died'
  monkeypatch.setenv('DIES_ONCE', str(flag))
  monkeypatch.setattr(corpus_vectors, 'beams', types.SimpleNamespace(
      is_chosen=beams.is_chosen, run=beams.run,
      Inferred=lambda load, items: beams.Inferred(
          dies_once.DiesOnce(load, 3), items)))
  beams.choose('direct', beam_runs.ONE_PROCESS)
  killed, _ = encode(root, data, 'killed')
  assert killed == local and flag.exists()
  loads = pathlib.Path(f'{flag}.loads').read_text().split()
  assert len(loads) == len(set(loads)) >= 2  # Once a process.


def test_what_is_there_is_left_alone(root, data, monkeypatch):
  beam_runs.without_helper(monkeypatch)
  beams.choose('direct', beam_runs.IN_THREADS)
  made = test_corpus_vectors.vectors(
      root, root / 'model', data, 'begun', chunk_tokens=1, table_rows=64)
  shards = made.load().begin()
  shards.make(2)
  path = vector_table.shard_file(shards.folder, 2)
  before = path.stat().st_mtime_ns
  assert shards.missing() == [0, 1, 3, 4]
  made.build()
  assert not shards.missing() and path.stat().st_mtime_ns == before


class OnDisk(test_retriever.Given):
  """Vectors that a test writes out, in a table of shards of 10."""

  def __init__(self, folder, queries, passages):
    super().__init__(queries, passages)
    array, layout = self._passages, vector_table.Layout(
        *np.shape(passages), shard_rows=10)

    def encode(rows, out, _):
      out[0 : len(rows)] = array[rows.start : rows.stop]

    self._passages = embeddings.make_table(folder, {}, layout, encode)

  @property
  def identity(self):
    return {'of': 'a test'}


@pytest.mark.parametrize(
    'options', [beam_runs.IN_THREADS, '--direct_num_workers=2'])
def test_candidates_are_merged_by_our_rule_of_ties(
    tmp_path, monkeypatch, options):
  """Small whole numbers: many scores are equal."""
  beam_runs.without_helper(monkeypatch)
  monkeypatch.setattr(beam_dense, '_PART_ROWS', 16)
  rng = np.random.default_rng(0)
  draw = lambda *shape: rng.integers(-1, 2, shape).astype(np.float32)
  dataset = test_retriever.numbered(tmp_path, 60)
  vecs = OnDisk(tmp_path / 'vecs' / 'embeddings', draw(2, 3), draw(60, 3))
  search = lambda place: searched.search_dense(
      test_retriever.settings(25, block_rows=7), dataset, vecs,
      tmp_path / place, np.array([1, 0, 1], np.int32))
  alone = search('alone')
  assert (np.diff(alone.found.scores) == 0).sum() > 10
  monkeypatch.setattr(searched, 'search_and_measure', None)
  beams.choose('direct', options)
  divided = search('divided')
  np.testing.assert_array_equal(divided.found.rows, alone.found.rows)
  np.testing.assert_array_equal(divided.found.scores, alone.found.scores)
  assert divided.index == alone.index and not list(
      (tmp_path / 'divided').iterdir())
