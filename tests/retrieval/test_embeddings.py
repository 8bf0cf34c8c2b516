"""Tables are made once: kills, processes, full disks, progress."""

import errno
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import folders, parts
from neg_contrast.retrieval import embeddings, vector_table

IDENTITY = {'model': 'some', 'sizes': (1, 2)}
BLOCK = 5  # Rows that are written at once.


def make_vecs(passages=53, features=6, seed=0):
  """Of many sizes; one is zero."""
  rng = np.random.default_rng(seed)
  vecs = rng.standard_normal((passages, features))
  vecs *= 10.0 ** rng.integers(-6, 6, (passages, 1))
  vecs[passages // 2] = 0
  return vecs.astype(np.float32)


def encode_from(vecs, before_block=lambda row: None):
  """An `Encode` that copies, and says where it is before every block."""

  def encode(rows, out, on_progress):
    for start in range(0, len(rows), BLOCK):
      part = rows[start : start + BLOCK]
      before_block(part.start)
      out[start : start + len(part)] = vecs[part.start : part.stop]
      on_progress(start + len(part))

  return encode


def write(folder, vecs, dtype='float32', shard_rows=8, **kwargs):
  passages, features = vecs.shape
  return embeddings.make_table(
      folder, {**IDENTITY, 'dtype': dtype},
      vector_table.Layout(passages, features, dtype, shard_rows),
      kwargs.pop('encode', encode_from(vecs)), **kwargs)


def contents(folder):
  return {path.relative_to(folder): path.read_bytes()
          for path in folder.rglob('*') if path.is_file()}


@pytest.mark.parametrize('dtype', vector_table.DTYPES)
def test_goes_on_after_kills(tmp_path, dtype):
  vecs, rng = make_vecs(), np.random.default_rng(0)
  write(tmp_path / 'whole' / 't', vecs, dtype)
  encoded, finished = [], {}

  def stop_after(blocks):
    end = len(encoded) + blocks

    def before_block(row):
      if len(encoded) == end:
        raise KeyboardInterrupt
      encoded.append(row)

    return before_block

  for blocks in [*rng.integers(1, 6, 30), 1000]:
    try:
      write(tmp_path / 'killed' / 't', vecs, dtype,
            encode=encode_from(vecs, stop_after(blocks)))
      break
    except KeyboardInterrupt:
      there = contents(tmp_path / 'killed' / 't')
      assert not any('partial' in path.name for path in there)
      assert there.items() >= finished.items()
      finished = there
  else:
    raise AssertionError('never ended')
  assert contents(tmp_path / 'killed') == contents(tmp_path / 'whole')
  # With its second block a shard is finished, and that is not done again.
  assert all(encoded.count(row) == 1 for row in range(5, 48, 8))


_ELSEWHERE = """
import pathlib, sys, time
import numpy as np
from neg_contrast.retrieval import embeddings
from tests.retrieval import test_embeddings as t
place = pathlib.Path(sys.argv[1])
(place / f'ready-{sys.argv[2]}').touch()
while len(list(place.glob('ready-*'))) < int(sys.argv[3]):
  time.sleep(0.01)
def say(row):
  print(row, flush=True)
  time.sleep(0.03)
vecs = t.make_vecs(200)
t.write(place / 'table', vecs, 'int8', encode=t.encode_from(vecs, say))
"""


def start(folder, name, processes):
  return subprocess.Popen(
      [sys.executable, '-c', _ELSEWHERE, folder, str(name), str(processes)],
      cwd=pathlib.Path(__file__).parents[2], stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
  folder = tmp_path_factory.mktemp('whole') / 'table'
  write(folder, make_vecs(200), 'int8')
  return contents(folder)


def test_goes_on_after_sigkill(tmp_path, whole):
  process = start(tmp_path, 'killed', 1)
  while len(list((tmp_path / 'table').glob('*.scales.npy'))) < 5:
    assert process.poll() is None
    time.sleep(0.01)
  process.send_signal(signal.SIGKILL)
  process.communicate()
  assert embeddings.open_table(
      tmp_path / 'table', {**IDENTITY, 'dtype': 'int8'}) is None
  encoded = []
  vecs = make_vecs(200)
  write(tmp_path / 'table', vecs, 'int8',
        encode=encode_from(vecs, encoded.append))
  assert encoded[0] >= 4 * 8
  assert contents(tmp_path / 'table') == whole


def test_four_processes_divide_the_work(tmp_path, whole):
  processes = [start(tmp_path, name, 4) for name in range(4)]
  outputs = [process.communicate(timeout=300)[0] for process in processes]
  assert [process.returncode for process in processes] == [0] * 4
  assert contents(tmp_path / 'table') == whole
  rows = [int(row) for output in outputs for row in output.split()]
  assert sorted(rows) == sorted(
      row for first in range(0, 200, 8) for row in (first, first + 5))
  assert sum(bool(output) for output in outputs) > 1


def test_processes_of_a_program_begin_apart(tmp_path, monkeypatch):
  vecs = make_vecs()
  for index, order in ((0, [0, 3, 6, 1, 4, 2, 5]), (2, [2, 5, 0, 3, 6, 1, 4])):
    monkeypatch.setattr(parts, 'jax', types.SimpleNamespace(
        process_count=lambda: 3, process_index=lambda index=index: index))
    rows = []
    write(tmp_path / str(index) / 't', vecs,
          encode=encode_from(vecs, rows.append))
    assert list(dict.fromkeys(row // 8 for row in rows)) == order
  assert contents(tmp_path / '0') == contents(tmp_path / '2')


def test_what_another_makes_is_left_to_it(tmp_path, monkeypatch):
  """Another thread, for a lock, is another process."""
  vecs, encoded = make_vecs(), []
  begun, end = threading.Event(), threading.Event()

  def stay(row):
    begun.set()
    end.wait()

  other = threading.Thread(target=write, args=(tmp_path / 'a', vecs), kwargs={
      'encode': encode_from(vecs, stay)})
  other.start()
  begun.wait()

  def sleep(_):
    assert sorted({row // 8 for row in encoded}) == [1, 2, 3, 4, 5, 6]
    end.set()
    other.join()

  monkeypatch.setattr(parts.time, 'sleep', sleep)
  made = write(tmp_path / 'a', vecs, encode=encode_from(vecs, encoded.append))
  assert end.is_set() and 0 not in encoded
  np.testing.assert_array_equal(made[:], vecs)


def test_files_of_another_size_are_kept(tmp_path):
  vecs = make_vecs()

  def stop(row):
    if row > 20:
      raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    write(tmp_path / 'a', vecs, encode=encode_from(vecs, stop))
  encoded = []
  for _ in range(2):
    made = write(tmp_path / 'a', vecs, shard_rows=30,
                 encode=encode_from(vecs, encoded.append))
    np.testing.assert_array_equal(made[:], vecs)
  assert min(encoded) == 16 and len(encoded) == len(set(encoded))


def test_another_identity_is_replaced(tmp_path):
  vecs = make_vecs()
  write(tmp_path / 'a', vecs)
  made = write(tmp_path / 'a', vecs + 1, 'bfloat16')
  assert made.nbytes == vecs.nbytes / 2
  assert embeddings.open_table(
      tmp_path / 'a', {**IDENTITY, 'dtype': 'float32'}) is None
  # Begun, by another model.
  manifest = tmp_path / 'a' / 'manifest.json'
  os.rename(manifest, manifest.with_name('unfinished.json'))
  np.testing.assert_array_equal(write(tmp_path / 'a', vecs)[:], vecs)


@pytest.mark.parametrize('name', ['manifest.json', 'unfinished.json'])
def test_another_format_is_refused(tmp_path, name):
  vecs = make_vecs()
  write(tmp_path / 'a', vecs)
  made = folders.read_sealed(tmp_path / 'a' / 'manifest.json')
  (tmp_path / 'a' / 'manifest.json').unlink()
  folders.write_sealed(tmp_path / 'a' / name, {**made, 'format': 7})
  with pytest.raises(errors.UserError, match='a table of vectors of format 7; '
                     'this revision reads a table of vectors of format 2.*Rem'):
    write(tmp_path / 'a', vecs)


def test_what_others_left_is_not_replaced(tmp_path):
  (tmp_path / 'a').mkdir()
  (tmp_path / 'a' / 'thesis.tex').write_text('dear')
  with pytest.raises(errors.UserError, match='not made by this program'):
    write(tmp_path / 'a', make_vecs())


def test_vectors_must_be_finite(tmp_path):
  for dtype in vector_table.DTYPES:
    vecs = make_vecs()
    vecs[20, 3] = np.nan
    with pytest.raises(ValueError, match='passage vector is not finite'):
      write(tmp_path / dtype, vecs, dtype)
    assert not list((tmp_path / dtype).glob('*.partial'))


def test_a_full_disk_is_said(tmp_path, monkeypatch):
  def fallocate(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

  monkeypatch.setattr(os, 'posix_fallocate', fallocate)
  with pytest.raises(errors.UserError, match='Free some space'):
    write(tmp_path / 'a', make_vecs())
  assert not list((tmp_path / 'a').glob('*.partial'))


def test_progress_counts_what_was_there(tmp_path):
  vecs, told = make_vecs(), []

  def stop(row):
    if row == 24:
      raise KeyboardInterrupt

  def ticker(before):
    told.append(before)
    return told.append

  with pytest.raises(KeyboardInterrupt):
    write(tmp_path / 'a', vecs, encode=encode_from(vecs, stop), ticker=ticker)
  assert told == [0, 5, 8, 13, 16, 21, 24]
  told.clear()
  write(tmp_path / 'a', vecs, ticker=ticker)
  assert told == [24, 29, 32, 37, 40, 45, 48, 53]
