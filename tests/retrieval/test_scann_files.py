"""ScaNN indexes on disk: moved, damaged, planted, of other vectors."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.retrieval import scann_files, scann_index
from tests.retrieval.test_scann_index import SETTINGS, contents, same

pytest.importorskip('scann')


def test_moved_index_gives_the_same(corpus, index, saved, copied):
  vecs, queries, _ = corpus
  hidden = saved.rename(saved.with_name('hidden'))
  try:
    loaded = scann_files.load(copied, vecs, threads=1)
    assert loaded.measured == index.measured
    same(loaded.search(queries, 50), index.search(queries, 50))
    assert str(saved.parent).encode() not in b''.join(contents(copied).values())
  finally:
    hidden.rename(saved)


def test_saving_a_loaded_index_changes_nothing_else(corpus, copied, tmp_path):
  vecs, _, _ = corpus
  scann_files.save(
      scann_files.load(copied, vecs, threads=2), tmp_path / 'again')
  assert contents(tmp_path / 'again') == contents(copied)


_BUILD_ELSEWHERE = """
import pathlib, sys
import numpy as np
from neg_contrast.retrieval import scann_files, scann_index
folder = pathlib.Path(sys.argv[1])
vecs = np.load(folder / 'vecs.npy', mmap_mode='r')
settings = scann_index.Settings(
    target_recall=0.9, recall_k=20, threads=2, shard_rows=100_000)
scann_files.save(
    scann_index.build(vecs, np.load(folder / 'ranks.npy'), settings),
    folder / 'index')
"""


def test_another_process_builds_the_same_bytes_from_a_memory_map(
    corpus, saved, tmp_path
):
  vecs, _, ranks = corpus
  np.save(tmp_path / 'vecs.npy', vecs)
  np.save(tmp_path / 'ranks.npy', ranks)
  root = pathlib.Path(scann_index.__file__).parents[2]
  subprocess.run(
      [sys.executable, '-c', _BUILD_ELSEWHERE, tmp_path], check=True,
      cwd=root, env={**os.environ, 'PYTHONPATH': str(root)},
  )
  assert contents(tmp_path / 'index') == contents(saved)


def test_memory_mapped_vectors(corpus, index, copied, tmp_path):
  vecs, queries, _ = corpus
  np.save(tmp_path / 'vecs.npy', vecs)
  mapped = np.load(tmp_path / 'vecs.npy', mmap_mode='r')
  loaded = scann_files.load(copied, mapped)
  same(loaded.search(queries, 20), index.search(queries, 20))


def test_every_file_is_needed_and_checked(corpus, saved, copied):
  vecs, _, _ = corpus
  names = [path for path in contents(saved) if path.name != 'manifest.json']
  assert len(names) == 7
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
        scann_files.load(copied, vecs)
      assert str(copied / name) in str(e.value)
      assert f'Remove {copied}' in str(e.value)
      (copied / name).write_bytes(whole)
  scann_files.load(copied, vecs)


def test_pickles_are_never_read(corpus, copied):
  vecs, _, _ = corpus
  planted = copied / 'shard-00000' / 'scann_docids.pkl'
  planted.write_bytes(b'cos\nabort\n(tR.')
  with pytest.raises(errors.UserError, match='not a file of this index'):
    scann_files.load(copied, vecs)


@pytest.mark.parametrize('change', [
    lambda m: m.update(format=99), lambda m: m.pop('shards'),
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
    scann_files.load(copied, vecs)


def test_unfinished_index(corpus, copied):
  vecs, _, _ = corpus
  (copied / 'manifest.json').write_text('{"half')
  with pytest.raises(errors.UserError, match='not valid json'):
    scann_files.load(copied, vecs)
  (copied / 'manifest.json').unlink()
  with pytest.raises(errors.UserError, match='no finished index'):
    scann_files.load(copied, vecs)


def test_index_of_other_vectors(corpus, copied):
  vecs, _, _ = corpus
  for other in (vecs[:-1], np.roll(vecs, 1, axis=0), vecs * 2):
    with pytest.raises(errors.UserError, match=r'sha256 \w{64}, .* \w{64}'):
      scann_files.load(copied, other)


def test_without_scann(corpus, copied, monkeypatch):
  vecs, _, ranks = corpus
  monkeypatch.setitem(sys.modules, 'scann', None)
  for attempt in (lambda: scann_index.build(vecs, ranks, SETTINGS),
                  lambda: scann_files.load(copied, vecs)):
    with pytest.raises(errors.UserError, match=r'config\.index\.kind=exact'):
      attempt()
