"""ScaNN indexes on disk: moved, damaged, planted, of other vectors."""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import threading
from concurrent import futures
from unittest import mock

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.retrieval import hits, quantized_files, quantized_index
from tests.retrieval import test_retriever
from tests.retrieval.test_quantized_index import SETTINGS, contents, same

pytest.importorskip('scann')


def test_moved_index_gives_the_same(corpus, index, saved, copied):
  vecs, queries, _ = corpus
  hidden = saved.rename(saved.with_name('hidden'))
  try:
    loaded = quantized_files.load(copied, vecs, threads=1)
    assert loaded.measured == index.measured
    same(loaded.search(queries, 50), index.search(queries, 50))
    assert str(saved.parent).encode() not in b''.join(contents(copied).values())
  finally:
    hidden.rename(saved)


_BUILD_ELSEWHERE = """
import pathlib, sys
import numpy as np
from neg_contrast.retrieval import quantized_files, quantized_index
folder = pathlib.Path(sys.argv[1])
vecs = np.load(folder / 'vecs.npy', mmap_mode='r')
settings = quantized_index.Settings(
    target_recall=0.9, recall_k=20, threads=2, shard_rows=100_000)
quantized_files.make(
    folder / 'index', vecs, np.load(folder / 'ranks.npy'), settings)
"""


def test_another_process_builds_the_same_bytes_from_a_memory_map(
    corpus, saved, tmp_path
):
  vecs, _, ranks = corpus
  np.save(tmp_path / 'vecs.npy', vecs)
  np.save(tmp_path / 'ranks.npy', ranks)
  root = pathlib.Path(quantized_index.__file__).parents[2]
  subprocess.run(
      [sys.executable, '-c', _BUILD_ELSEWHERE, tmp_path], check=True,
      cwd=root, env={**os.environ, 'PYTHONPATH': str(root)},
  )
  assert contents(tmp_path / 'index') == contents(saved)


SHARDED = dataclasses.replace(SETTINGS, shard_rows=1500)  # Four of 5,000.


@pytest.fixture(scope='module')
def sharded(corpus, tmp_path_factory):
  """(vectors, tie ranks, their index in four shards by one process)."""
  vecs, _, ranks = corpus
  vecs, ranks = vecs[:5000], hits.tie_ranks([f'{r:06d}' for r in ranks[:5000]])
  folder = tmp_path_factory.mktemp('sharded') / 'index'
  quantized_files.make(folder, vecs, ranks, SHARDED)
  return vecs, ranks, folder


def build_counted(monkeypatch, stop_at=None):
  """The first rows of the shards that are built from now on."""
  built, build_part = [], quantized_index.build_part

  def build(*args):
    rows = args[4]
    if rows.start == stop_at:
      raise KeyboardInterrupt
    built.append(rows.start)
    return build_part(*args)

  monkeypatch.setattr(quantized_index, 'build_part', build)
  return built


def test_two_build_at_once_what_one_builds(sharded, tmp_path, monkeypatch):
  vecs, ranks, alone = sharded
  built = build_counted(monkeypatch)
  both_build, build = threading.Barrier(2), quantized_index.build_part
  tuned, tune = [], quantized_index.tune

  def build_beside_another(*args):
    if args[4].start < 2500:
      both_build.wait(timeout=60)
    return build(*args)

  monkeypatch.setattr(quantized_index, 'build_part', build_beside_another)
  monkeypatch.setattr(quantized_index, 'tune',
                      lambda *args: tuned.append(1) or tune(*args))
  with futures.ThreadPoolExecutor(2) as pool:
    for done in [pool.submit(quantized_files.make, tmp_path / 'index', vecs,
                             ranks, SHARDED) for _ in range(2)]:
      done.result()
  assert sorted(built) == [0, 1250, 2500, 3750]  # Each once.
  assert len(tuned) == 1
  assert contents(tmp_path / 'index') == contents(alone)


def test_an_interrupted_build_goes_on(sharded, tmp_path, monkeypatch):
  vecs, ranks, alone = sharded
  folder = tmp_path / 'index'
  with monkeypatch.context() as patch:
    built = build_counted(patch, stop_at=2500)
    with pytest.raises(KeyboardInterrupt):
      quantized_files.make(folder, vecs, ranks, SHARDED)
    assert built == [0, 1250]
  assert not quantized_files.is_made(folder, SHARDED)
  with pytest.raises(errors.UserError, match='no finished index'):
    quantized_files.load(folder, vecs)
  with monkeypatch.context() as patch:
    built = build_counted(patch)
    patch.setattr(quantized_index, 'tune',
                  mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
      quantized_files.make(folder, vecs, ranks, SHARDED)
    assert built == [2500, 3750]
  assert not quantized_files.is_made(folder, SHARDED)
  built = build_counted(monkeypatch)
  quantized_files.make(folder, vecs, ranks, SHARDED)
  assert built == []
  assert contents(folder) == contents(alone)


def test_one_shard_is_built_again(sharded, tmp_path, monkeypatch):
  vecs, ranks, alone = sharded
  folder = shutil.copytree(alone, tmp_path / 'index')
  shutil.rmtree(folder / 'shard-00002')
  assert not quantized_files.is_made(folder, SHARDED)
  with pytest.raises(errors.UserError, match='shard-00002: damaged'):
    quantized_files.load(folder, vecs)
  built = build_counted(monkeypatch)
  monkeypatch.setattr(quantized_index, 'tune', None)
  quantized_files.make(folder, vecs, ranks, SHARDED)
  assert built == [2500]
  assert contents(folder) == contents(alone)


def test_what_was_begun_for_something_else_is_replaced(
    sharded, tmp_path, monkeypatch
):
  vecs, ranks, _ = sharded
  folder = tmp_path / 'index'
  for other_vecs, settings in ((vecs * 2, SHARDED), (
      vecs, dataclasses.replace(SHARDED, recall_k=5))):
    with monkeypatch.context() as patch:
      build_counted(patch, stop_at=1250)
      with pytest.raises(KeyboardInterrupt):
        quantized_files.make(folder, other_vecs, ranks, settings)
  with monkeypatch.context() as patch:
    built = build_counted(patch)
    quantized_files.make(folder, vecs, ranks, SHARDED)
  assert built == [0, 1250, 2500, 3750]
  loaded = quantized_files.load(folder, vecs)
  assert loaded.settings.recall_k == SHARDED.recall_k


def test_building_reads_the_table_once(sharded, tmp_path):
  vecs, ranks, alone = sharded
  counted = test_retriever.Counted(vecs)
  quantized_files.make(tmp_path / 'index', counted, ranks, SHARDED)
  assert counted.in_order == len(vecs)
  assert contents(tmp_path / 'index') == contents(alone)
  # Beside it, 5,000 for the fingerprint, 512 x 65 for sample queries, and the
  # candidates of 256 of them.
  candidates = quantized_files.load(alone, vecs).measured.candidates
  assert counted.others <= 5000 + 512 * 65 + 256 * candidates


def test_memory_mapped_vectors(corpus, index, copied, tmp_path):
  vecs, queries, _ = corpus
  np.save(tmp_path / 'vecs.npy', vecs)
  mapped = np.load(tmp_path / 'vecs.npy', mmap_mode='r')
  loaded = quantized_files.load(copied, mapped)
  same(loaded.search(queries, 20), index.search(queries, 20))


def test_every_file_is_needed_and_checked(corpus, saved, copied):
  vecs, _, _ = corpus
  names = [path for path in contents(saved) if path.name != 'manifest.json']
  assert len(names) == 10
  for name in names:
    whole = (copied / name).read_bytes()
    changed = whole[:-1] + bytes([whole[-1] ^ 1])
    for broken, what in [(None, 'No such file'), (b'', '0 bytes, not'),
                         (whole[:-1], 'bytes, not'),
                         (changed, 'the checksum of bytes')]:
      (copied / name).unlink()
      if broken is not None:
        (copied / name).write_bytes(broken)
      with pytest.raises(errors.UserError, match=what) as e:
        quantized_files.load(copied, vecs)
      assert str(copied / name) in str(e.value)
      assert f'Remove {(copied / name.parts[0]).parent}' in str(e.value) or (
          f'Remove {copied / name.parts[0]}' in str(e.value))
      (copied / name).write_bytes(whole)
  quantized_files.load(copied, vecs)


def test_pickles_are_never_read(corpus, copied):
  vecs, _, _ = corpus
  planted = copied / 'shard-00000' / 'searcher' / 'scann_docids.pkl'
  planted.write_bytes(b'cos\nabort\n(tR.')
  with pytest.raises(errors.UserError, match='not a file of this index'):
    quantized_files.load(copied, vecs)


@pytest.mark.parametrize('change', [
    lambda m: m.update(format=99), lambda m: m.pop('passages'),
    lambda m: m.pop('kind'), lambda m: m.update(measured=[]),
    lambda m: m['settings'].update(target_recall=7),
    lambda m: m['settings'].update(unknown=7),
])
def test_strange_manifest(corpus, copied, change):
  vecs, _, _ = corpus
  manifest = folders.read_sealed(copied / 'manifest.json')
  change(manifest)
  folders.write_sealed(copied / 'manifest.json', manifest)
  with pytest.raises(errors.UserError, match=rf'Remove {copied}; the same'):
    quantized_files.load(copied, vecs)


def test_unfinished_index(corpus, copied):
  vecs, _, _ = corpus
  (copied / 'manifest.json').write_text('{"half')
  with pytest.raises(errors.UserError, match='not valid json'):
    quantized_files.load(copied, vecs)
  (copied / 'manifest.json').unlink()
  with pytest.raises(errors.UserError, match='no finished index'):
    quantized_files.load(copied, vecs)


def test_index_of_other_vectors(corpus, copied):
  vecs, _, _ = corpus
  for other in (vecs[:-1], np.roll(vecs, 1, axis=0), vecs * 2):
    with pytest.raises(errors.UserError, match=r'sha256 \w{64}, .* \w{64}'):
      quantized_files.load(copied, other)


def test_without_scann(corpus, copied, monkeypatch):
  vecs, _, ranks = corpus
  monkeypatch.setitem(sys.modules, 'scann', None)
  for attempt in (lambda: quantized_index.build(vecs, ranks, SETTINGS),
                  lambda: quantized_files.load(copied, vecs)):
    with pytest.raises(errors.UserError, match=r'config\.index\.kind=exact'):
      attempt()
