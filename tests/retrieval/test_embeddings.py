"""Tables on disk: what a dtype costs, reading, kills, processes, damage."""

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

from neg_contrast import errors, progress
from neg_contrast.artifacts import folders, parts
from neg_contrast.retrieval import embeddings, hits, vector_table
from neg_contrast.training import run_log

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
  return embeddings.make_table(
      folder, {**IDENTITY, 'dtype': dtype},
      vector_table.Layout(*vecs.shape, dtype, shard_rows),
      kwargs.pop('encode', encode_from(vecs)), **kwargs)


def contents(folder):
  return {path.relative_to(folder): path.read_bytes()
          for path in folder.rglob('*') if path.is_file()}


def test_float32_is_exact(tmp_path):
  vecs = make_vecs()
  made = write(tmp_path / 'a', vecs)
  np.testing.assert_array_equal(made[:], vecs)
  assert made.nbytes == vecs.nbytes
  assert sorted(path.name for path in (tmp_path / 'a').iterdir()) == [
      'manifest.json', *(f'passages-{n:05d}.npy{end}' for n in range(7)
                         for end in ('', '.checksums.json'))]
  np.testing.assert_array_equal(
      np.load(tmp_path / 'a' / 'passages-00006.npy'), vecs[48:])


def test_bfloat16_rounds_to_nearest_even(tmp_path):
  vecs = make_vecs(200)
  vecs[0] = [1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 1 + 2**-8 + 2**-20, 0, -0.0]
  made = write(tmp_path / 'a', vecs, 'bfloat16')
  np.testing.assert_array_equal(
      made[0], np.float32([1, 1 + 2**-6, -1, 1 + 2**-7, 0, 0]))
  bits = vecs.view(np.uint32)
  rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
  np.testing.assert_array_equal(
      np.load(tmp_path / 'a' / 'passages-00001.npy'), rounded[8:16])
  assert (np.abs(made[:] - vecs) <= 2.0**-8 * np.abs(vecs)).all()
  assert made.nbytes == vecs.nbytes / 2


def test_int8_keeps_its_bound(tmp_path):
  vecs = make_vecs(200)
  made = write(tmp_path / 'a', vecs, 'int8')
  largest = np.abs(vecs).max(axis=1, keepdims=True)
  error = np.abs(made[:] - vecs)
  assert (error <= largest / 254 * (1 + 1e-4)).all()
  assert (error > largest / 254 * 0.9).any()  # It is no looser than it must.
  np.testing.assert_allclose(np.abs(made[:]).max(axis=1), largest[:, 0], 1e-6)
  scales = np.load(tmp_path / 'a' / 'passages-00001.scales.npy')
  np.testing.assert_array_equal(scales, largest[8:16, 0] / np.float32(127))
  assert made.nbytes == 200 * (6 + 4)


@pytest.mark.parametrize('dtype', vector_table.DTYPES)
def test_scores_keep_their_bound(tmp_path, dtype):
  vecs = make_vecs(200)
  made = write(tmp_path / 'a', vecs, dtype)[:].astype(np.float64)
  query = np.random.default_rng(1).standard_normal(6)
  bound = {
      'float32': np.zeros(200),
      'bfloat16': 2.0**-8 * np.abs(vecs * query).sum(axis=1),
      'int8': np.abs(vecs).max(axis=1) / 254 * np.abs(query).sum() * (1 + 1e-4),
  }[dtype]
  assert (np.abs((made - vecs) @ query) <= bound).all()


@pytest.mark.parametrize('dtype', vector_table.DTYPES)
@pytest.mark.parametrize('shard_rows', [1, 8, 53, 1000])
def test_reads_as_an_array(tmp_path, dtype, shard_rows):
  made = write(tmp_path / 'a', make_vecs(), dtype, shard_rows)
  whole = np.stack([made[row] for row in range(53)])
  assert made.shape == whole.shape and made.ndim == 2 and len(made) == 53
  assert made.dtype == whole.dtype == np.float32
  rng = np.random.default_rng(0)
  for key in (
      0, 52, -1, -53, np.int64(7), slice(None), slice(3, 5), slice(7, 9),
      slice(6, 40), slice(8, 16), slice(-9, None), slice(40, 200), slice(9, 9),
      slice(9, 3), slice(None, None, 5), slice(50, 2, -3), [5, 3, 3, -1],
      np.arange(0), rng.integers(-53, 53, 30), rng.integers(0, 53, (4, 3, 2)),
      rng.permutation(53).astype(np.int32), np.uint8([1, 52]),
  ):
    found = made[key]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, whole[key], str(key))
  for key in (53, -54, [0, 53], np.ones(53, bool), [0.5]):
    with pytest.raises(IndexError):
      _ = made[key]


def test_a_slice_within_a_shard_is_a_view(tmp_path):
  made = write(tmp_path / 'a', make_vecs())
  assert np.shares_memory(made[9:12], made[8:16])
  assert not made[9:12].flags.writeable
  assert type(made[9:12]) is np.ndarray


def test_no_passages(tmp_path):
  made = write(tmp_path / 'a', np.zeros((0, 6), np.float32))
  assert made[:].shape == made[np.arange(0)].shape == (0, 6)


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


def test_another_identity_and_the_old_layout_are_replaced(tmp_path):
  vecs = make_vecs()
  write(tmp_path / 'a', vecs)
  made = write(tmp_path / 'a', vecs + 1, 'bfloat16')
  assert made.nbytes == vecs.nbytes / 2
  assert embeddings.open_table(
      tmp_path / 'a', {**IDENTITY, 'dtype': 'float32'}) is None
  manifest = tmp_path / 'a' / 'manifest.json'
  np.save(tmp_path / 'a' / 'passages.npy', vecs)
  folders.write_sealed(manifest, {'identity': {
      'model': 'some', 'sizes': [1, 2], 'dtype': 'bfloat16'}})
  write(tmp_path / 'a', vecs, 'bfloat16')
  assert not (tmp_path / 'a' / 'passages.npy').exists()
  # Begun, by another model.
  os.rename(manifest, manifest.with_name('unfinished.json'))
  np.testing.assert_array_equal(write(tmp_path / 'a', vecs)[:], vecs)


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


def damage(path, how):
  if how == 'missing':
    path.unlink()
  elif how == 'short':
    path.write_bytes(path.read_bytes()[:-1])
  elif how == 'empty':
    path.write_bytes(b'')
  elif how == 'fewer rows':
    np.save(path, np.load(path)[:-1])
  else:
    np.save(path, np.load(path).astype(np.float64))


@pytest.mark.parametrize('how', ['missing', 'short', 'empty', 'fewer rows',
                                 'other dtype'])
@pytest.mark.parametrize('file', ['passages-00002.npy',
                                  'passages-00002.scales.npy'])
def test_damaged_shards(tmp_path, how, file):
  vecs = make_vecs()
  write(tmp_path / 'a', vecs, 'int8')
  damage(tmp_path / 'a' / file, how)
  made = write(tmp_path / 'a', vecs, 'int8')
  assert made[0:16].shape == (16, 6)  # Others can be read.
  for key in (16, slice(10, 20), np.array([3, 23])):
    with pytest.raises(errors.UserError) as e:
      _ = made[key]
    assert f'{tmp_path / "a" / file}: damaged' in str(e.value)
    assert f'Remove {tmp_path / "a"}; the same' in str(e.value)


def test_too_many_open_files_are_no_damage(tmp_path, monkeypatch):
  made = write(tmp_path / 'a', make_vecs())

  def load(*_, **__):
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

  monkeypatch.setattr(np, 'memmap', load)
  with pytest.raises(errors.UserError, match='ulimit -n') as e:
    _ = made[0]
  assert 'Remove' not in str(e.value)


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


def test_what_was_there_is_no_speed(monkeypatch):
  now, said = [100.0], []
  monkeypatch.setattr(run_log.time, 'monotonic', lambda: now[0])
  monkeypatch.setattr(run_log.logging, 'info',
                      lambda text, *args: said.append(text % args))
  tick = progress.Ticker('encoding', 1000, before=800)
  now[0] += 10
  tick(900)
  assert said == ['encoding: 900/1000  10/s  ETA 0:00:10']


@pytest.mark.parametrize('dtype, least', [('bfloat16', 0.99), ('int8', 0.97)])
def test_recall_of_smaller_dtypes(tmp_path, dtype, least):
  """Scores of unit vectors of 64 features have deviation 1/8, so that near the
  20th of 4,000 there are 460 a unit. An error of deviation e makes 0.56 · 460 e
  of the 20 change places with others. int8: e = s / √12 with s about
  0.3 / 127, hence 0.7e-3, 0.2 of 20. bfloat16: e about 2^-8 / √12 · 1/8, a
  fifth of that."""
  rng = np.random.default_rng(0)
  draw = lambda count: rng.standard_normal((count, 64), np.float32)
  vecs, queries = draw(4000), draw(100)
  vecs /= np.linalg.norm(vecs, axis=1, keepdims=True)
  queries /= np.linalg.norm(queries, axis=1, keepdims=True)
  made = write(tmp_path / 'a', vecs, dtype, 1000)
  ranks = np.arange(4000, dtype=np.int32)
  best, found = (hits.top_k(queries @ of.T, ranks, 20).rows
                 for of in (vecs, made[:]))
  recall = np.mean([np.isin(*pair).mean()
                    for pair in zip(best, found, strict=True)])
  assert least <= recall < 1
