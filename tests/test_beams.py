"""The choice of a runner, and what comes of failures.

tests/data/test_beam.py has what Beam does. Tasks that workers get are here:
each worker imports the module of its task, and this one needs little else.
"""

import functools
import importlib.util
import os
import signal

import pytest

from neg_contrast import beams, errors, hosts
from tests import beam_runs


@pytest.fixture(autouse=True)
def no_runner():
  yield
  beams.choose('local')


@pytest.fixture
def has_beam(monkeypatch):
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: name)


def test_local_is_no_beam(has_beam):
  beams.choose('direct')
  assert beams.is_chosen()
  beams.choose('local')
  assert not beams.is_chosen()


def test_direct_takes_all_cores_unless_told(monkeypatch):
  monkeypatch.setattr(hosts, 'usable_cores', lambda: 3)
  assert beams.Runner('direct').all_options() == [
      '--runner=DirectRunner', '--direct_running_mode=multi_processing',
      '--default_sdk_harness_log_level=ERROR', '--direct_num_workers=3']
  # Of two options of a name, Beam takes the last one.
  options = beams.Runner('direct', ('--direct_num_workers=2',)).all_options()
  assert options[-2:] == ['--direct_num_workers=3', '--direct_num_workers=2']
  assert beams.Runner('DataflowRunner', ('--project=p',)).all_options() == [
      '--runner=DataflowRunner', '--project=p']


def test_mistakes(monkeypatch):
  with pytest.raises(errors.UserError, match='--runner=local has none'):
    beams.choose('local', '--project=p')
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  with pytest.raises(errors.UserError, match=r'install the extra \[beam\]'):
    beams.choose('FlinkRunner')
  monkeypatch.setattr(hosts, 'are_several', lambda: True)
  with pytest.raises(errors.UserError, match='by one process first'):
    beams.choose('direct')


@pytest.fixture
def beam():
  pytest.importorskip(
      'apache_beam', reason='Apache Beam is not installed: the extra [beam]')


def test_what_fails_again_and_again_is_a_mistake(beam):
  """Nobody starts a pipeline for ever whose process is killed each time."""
  beams.choose('direct', beam_runs.IN_THREADS)
  with pytest.raises(RuntimeError, match='no such thing'):
    beams.run('a test', [beams.Each(_fail, [1])])
  with pytest.raises(errors.UserError, match='failed 3 times: a worker'):
    beams.run('a test', [beams.Each(_die, [1])])


@pytest.mark.parametrize(
    'options', [beam_runs.IN_THREADS, beam_runs.ONE_PROCESS])
@pytest.mark.parametrize('job', [
    lambda task: beams.Each(task, [1]),
    lambda task: beams.Grouped(task, print, [1]),
    lambda task: beams.Inferred(functools.partial(task, 1), [1])])
def test_a_mistake_of_the_user_is_one_line(beam, monkeypatch, options, job):
  """What a task says arrives as it was said, whatever a runner quotes."""
  beams.choose('direct', options)
  if options == beam_runs.IN_THREADS:
    beam_runs.without_helper(monkeypatch)
  with pytest.raises(errors.UserError) as e:
    beams.run('a test', [job(_refuse)])
  assert str(e.value) == 'a.jsonl:3: "b\'c" \\ is no number; \u96ea'


def _refuse(_):
  raise errors.UserError('a.jsonl:3: "b\'c" \\ is no number; \u96ea')


def _fail(_):
  raise ValueError('no such thing')


def _die(_):
  os.kill(os.getpid(), signal.SIGKILL)
