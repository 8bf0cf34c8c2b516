"""Mining and filters that are interrupted go on, and end the same."""

import time

import pytest

from neg_contrast.artifacts import plan
from neg_contrast.mining import candidates, pool_files
from tests import hosts_worker, processes
from tests.mining import test_mined_pool


def make(folder, data):
  """Mines a pool into a folder, in small parts."""
  config = test_mined_pool.make_config(
      data, negatives__sources=('bm25+model+context:2',),
      negatives__checkpoint=str(data / 'model'),
      negatives__mined_dir=str(folder / 'mined'),
      negatives__drop_answers=('bm25', 'model'))
  plan.run([test_mined_pool.declare(config, folder / 'work')])


def files_of(folder):
  return {path.relative_to(folder): path.read_bytes()
          for path in folder.rglob('*.npy')}


@pytest.fixture(autouse=True)
def small(monkeypatch):
  hosts_worker.use_small_parts(monkeypatch.setattr)
  monkeypatch.setattr(candidates, '_ON_MESH', 1)


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
  """Data, and what is mined of it without an interruption."""
  folder = tmp_path_factory.mktemp('whole')
  with pytest.MonkeyPatch.context() as patch:
    hosts_worker.use_small_parts(patch.setattr)
    patch.setattr(candidates, '_ON_MESH', 1)
    make(folder / 'alone', folder)
  return folder, files_of(folder / 'alone')


def interrupted(monkeypatch, module, name, at):
  """Lets a function raise at its n-th call; the calls that end."""
  original, calls = getattr(module, name), []

  def call(*args, **kwargs):
    if len(calls) == at:
      calls.append('interrupted')
      raise KeyboardInterrupt
    made = original(*args, **kwargs)
    calls.append(made)
    return made

  monkeypatch.setattr(module, name, call)
  return calls


@pytest.mark.parametrize(('module', 'name', 'at', 'calls'), [
    (pool_files, 'drop', 3, 5),  # Of 36 queries, 8 at once.
    (candidates, 'write_part', 1, 6),  # 16 at once: of bm25, and of model.
    (candidates, 'write_part', 4, 6),
    (candidates, 'write', 1, 3),  # What is mined is not joined yet.
    (pool_files, 'write', 0, 1),
])
def test_an_interruption_loses_one_part(
    whole, tmp_path, monkeypatch, module, name, at, calls
):
  data, alone = whole
  done = interrupted(monkeypatch, module, name, at)
  with pytest.raises(KeyboardInterrupt):
    make(tmp_path, data)
  assert len(done) == at + 1
  make(tmp_path, data)
  assert len(done) == calls + 1  # Nothing but what was interrupted, twice.
  assert files_of(tmp_path) == alone
  assert not list(tmp_path.rglob('*.parts'))


_SLOW = '''
import pathlib, sys, time
import pytest
from neg_contrast.mining import candidates, pool_files
from tests import hosts_worker
from tests.mining import test_interrupted
hosts_worker.use_small_parts()
candidates._ON_MESH = 1
drop = pool_files.drop
def slowly(*args):
  print('filters', flush=True)
  time.sleep(0.3)
  return drop(*args)
pool_files.drop = slowly
test_interrupted.make(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
'''


def test_killed_filters_go_on(whole, tmp_path, monkeypatch):
  """kill -9 of one that filters, and later of both; a third does the rest."""
  data, alone = whole
  start = lambda: processes.Process(_SLOW, [tmp_path, data])
  started = [start(), start()]
  folder = tmp_path / 'work' / 'pool.parts'
  made = lambda: len(list(folder.glob('*/dropped_by/0*/manifest.json')))
  for number, one in enumerate(started):
    end = time.monotonic() + 300
    while made() <= number:
      assert time.monotonic() < end and one.poll() is None, one.communicate()
      time.sleep(0.01)
    one.kill()
    one.wait()
  left = made()
  assert 1 < left < 5 and not (tmp_path / 'work' / 'pool').exists()
  done = interrupted(monkeypatch, pool_files, 'drop', -1)
  make(tmp_path, data)
  assert len(done) == 5 - left
  assert files_of(tmp_path) == alone
