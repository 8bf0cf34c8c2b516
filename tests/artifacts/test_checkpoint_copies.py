"""Checkpoints in s3://, which Orbax writes to the disk and a thread puts."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import errors, hosts
from neg_contrast.artifacts import (
  buckets,
  checkpoint_copies,
  checkpoints,
  places,
)
from neg_contrast.training import state as train_state
from tests import bucket, s3_bucket

LIKE = {'a': jax.ShapeDtypeStruct((5,), jnp.float32)}
FOLDER = checkpoints.FOLDER


@pytest.fixture
def server(tmp_path, monkeypatch):
  monkeypatch.setattr(buckets, '_TRUSTED_SECONDS', 0.0)
  with bucket.running(tmp_path / 'cache', s3_bucket.Server) as running:
    running.leave_out_pauses(monkeypatch)
    yield running


@pytest.fixture
def work(server):
  return places.path(f'{server.address}/run')


def state(step, memory=None):
  return train_state.TrainState(
      jnp.int32(step), {'encoder': {'a': jnp.arange(5.0) + step}},
      {'m': jnp.ones(3)}, memory=memory or {})


def progress(**values):
  return checkpoints.Progress(**values)


def steps_of(work):
  return sorted({name.partition('/')[0]
                 for name in bucket.names(f'{work}/{FOLDER}')}, key=int)


def encoder_of(work, step):
  with checkpoints.reading(work) as opened:
    return opened.restore_params('encoder', LIKE, step)['a']


def elsewhere(monkeypatch, tmp_path, name='other'):
  """What follows runs on another machine."""
  monkeypatch.setenv('NEG_CONTRAST_CACHE', str(tmp_path / name))


def test_latest_and_best_are_kept_there(work):
  with checkpoints.writing(work) as opened:
    for step in (1, 2, 3, 4):
      opened.save(state(step), progress(best_step=2 if step > 1 else 1))
  assert steps_of(work) == ['2', '4']
  with checkpoints.reading(work) as opened:
    assert opened.latest_step() == 4 and opened.selected_step() == 2


def test_it_is_there_while_the_training_goes_on(work, tmp_path, monkeypatch):
  with checkpoints.writing(work) as opened:
    opened.save(state(1), progress())
    opened.wait()
    assert steps_of(work) == ['1']
    names = bucket.names(f'{work}/{FOLDER}/1')
    assert {'commit_success.txt', 'params/checksums.json'} < set(names)
    with monkeypatch.context() as patch:
      elsewhere(patch, tmp_path)
      np.testing.assert_array_equal(encoder_of(work, 1), np.arange(5.0) + 1)


def test_another_machine_goes_on_and_reads_what_it_needs(
    work, server, tmp_path, monkeypatch):
  with checkpoints.writing(work) as opened:
    opened.save(state(1), progress(best_step=1, best_value=0.5))
    opened.save(state(2), progress(best_step=1, best_value=0.5))
  elsewhere(monkeypatch, tmp_path, 'reader')
  before = len(server.asked)
  np.testing.assert_array_equal(encoder_of(work, 2), np.arange(5.0) + 2)
  assert not [path for _, path in server.asked[before:]
              if path.startswith(f'/bucket/run/{FOLDER}/2/optimizer/')]
  elsewhere(monkeypatch, tmp_path, 'writer')
  like = jax.eval_shape(lambda: state(0))
  device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
  like = jax.tree.map(lambda a: jax.ShapeDtypeStruct(
      a.shape, a.dtype, sharding=device), like)
  with checkpoints.writing(work) as opened:
    assert opened.latest_step() == 2
    restored, known = opened.restore(like, 2)
    assert int(restored.step) == 2 and known.best_value == 0.5
    np.testing.assert_array_equal(restored.opt_state['m'], np.ones(3))
    opened.save(state(3), progress(best_step=1))
  assert steps_of(work) == ['1', '3']  # That it never read.
  np.testing.assert_array_equal(encoder_of(work, 1), np.arange(5.0) + 1)


def test_memory_that_not_all_runs_have(work, tmp_path, monkeypatch):
  averaged = {'average': {'encoder': {'a': jnp.arange(5.0) - 7}}}
  with checkpoints.writing(work) as opened:
    opened.save(state(1, averaged), progress())
  elsewhere(monkeypatch, tmp_path)
  np.testing.assert_array_equal(encoder_of(work, 1), np.arange(5.0) - 7)


@pytest.mark.parametrize('puts', [0, 3, 6])
def test_a_connection_that_breaks_while_it_is_put(work, server, puts):
  """What was there before stays, and counts; the same training goes on."""
  with checkpoints.writing(work) as opened:
    opened.save(state(1), progress())
  count = []

  def trouble(method, path):
    count.extend([path] * server.writes(method, path))
    return 'break' if len(count) > puts else ''

  with pytest.raises(errors.Unreached, match='the connection failed'), (
      checkpoints.writing(work)) as opened:
    server.trouble = trouble
    opened.save(state(2), progress())
    opened.wait()
  server.trouble = lambda method, path: ''
  with checkpoints.reading(work) as opened:
    assert opened.latest_step() == 1
  np.testing.assert_array_equal(encoder_of(work, 1), np.arange(5.0) + 1)
  with checkpoints.writing(work) as opened:
    assert opened.latest_step() == 1 and steps_of(work) == ['1']
    opened.save(state(2), progress())
  np.testing.assert_array_equal(encoder_of(work, 2), np.arange(5.0) + 2)


def test_a_removal_that_breaks_leaves_no_checkpoint(work, server):
  with checkpoints.writing(work) as opened:
    opened.save(state(1), progress())
  removed = []

  def trouble(method, path):
    removed.extend([path] * (method == 'DELETE'))
    return 'break' if method == 'DELETE' and len(removed) > 1 else ''

  server.trouble = trouble
  with pytest.raises(errors.Unreached), checkpoints.writing(work) as opened:
    opened.save(state(2), progress())
  server.trouble = lambda method, path: ''
  assert '1' in steps_of(work)  # What is left of it.
  with checkpoints.reading(work) as opened:
    assert opened.latest_step() == 2
  with checkpoints.writing(work):
    assert steps_of(work) == ['2']


def test_a_flipped_bit_there_is_noticed(work, server, tmp_path, monkeypatch):
  with checkpoints.writing(work) as opened:
    opened.save(state(1), progress())
  folder = f'{work}/{FOLDER}/1/params'
  largest = max((name for name in bucket.names(folder) if '/d/' in name),
                key=lambda name: len(buckets.get_bytes(f'{folder}/{name}')))
  data = bytearray(buckets.get_bytes(f'{folder}/{largest}'))
  data[len(data) // 2] ^= 1
  buckets.put_bytes(bytes(data), f'{folder}/{largest}')
  elsewhere(monkeypatch, tmp_path)
  with pytest.raises(errors.UserError, match=f'{FOLDER}/1: damaged'):
    encoder_of(work, 1)


def test_what_is_here_of_another_run_is_not_read(work, tmp_path, monkeypatch):
  averaged = {'average': {'encoder': {'a': jnp.arange(5.0) - 7}}}
  with checkpoints.writing(work) as opened:
    opened.save(state(1, averaged), progress())
  here = os.environ['NEG_CONTRAST_CACHE']
  elsewhere(monkeypatch, tmp_path)
  places.remove(work)
  with checkpoints.writing(work) as opened:
    opened.save(state(1), progress())
  monkeypatch.setenv('NEG_CONTRAST_CACHE', here)
  np.testing.assert_array_equal(encoder_of(work, 1), np.arange(5.0) + 1)


def test_several_processes_are_refused(work, monkeypatch):
  assert checkpoint_copies.written_by_several(work) is None
  monkeypatch.setattr(hosts, 'are_several', lambda: True)
  with pytest.raises(errors.UserError, match=(
      "several processes can't write .* name a --workdir in gs://")):
    checkpoints.Checkpoints(work, writes=True)
  for other in ('gs://bucket/run', 'run'):
    assert checkpoint_copies.written_by_several(places.path(other)) is None
