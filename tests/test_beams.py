"""The choice of a runner, and what comes of failures.

tests/data/test_beam.py has what Beam does. Tasks that workers get are here:
each worker imports the module of its task, and this one needs little else.
"""

import contextlib
import dataclasses
import functools
import importlib.util
import os
import pathlib
import pickle
import re
import signal
import sys
import threading
import types
from collections.abc import Callable

import pytest

from neg_contrast import beams, errors, hosts, workers

IN_THREADS = '--direct_running_mode=in_memory --direct_num_workers=1'
ONE_PROCESS = '--direct_num_workers=1'


def without_helper(patch: pytest.MonkeyPatch) -> list:
  """Pipelines are run by this process, which need not start another one.

  They, and what they run on, are copied as they are for a helper. The list that
  is returned gets the jobs of each that has ended.
  """
  done = []

  @contextlib.contextmanager
  def aside(task, has_helper):
    assert has_helper
    copy = lambda one: pickle.loads(pickle.dumps(one))
    task = copy(task)

    def send(jobs):
      task(copy(jobs))
      done.append(jobs)

    yield send

  patch.setattr(beams, 'workers', types.SimpleNamespace(
      aside=aside, Ended=workers.Ended))
  # For workers, if they are no threads.
  patch.setenv('PYTHONPATH', os.pathsep.join(filter(None, sys.path)))
  # A thread that fails must not end the tests.
  patch.setattr(beams, '_end', threading.excepthook)
  return done


@dataclasses.dataclass(frozen=True)
class DiesAt:
  """Calls a function; its process is killed at some value, the first time.

  The environment names a file, DIES_ONCE, which is there once that has been.

  Attributes:
    call: the function of a text, or of a block of one.
    pattern: of the text.
  """

  call: Callable
  pattern: str

  def __call__(self, value):
    flag = pathlib.Path(os.environ['DIES_ONCE'])
    text = str(getattr(value, 'data', value))
    if re.search(self.pattern, text) and not flag.exists():
      flag.touch()
      os.kill(os.getpid(), signal.SIGKILL)
    return self.call(value)


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
  beams.choose('direct', IN_THREADS)
  with pytest.raises(RuntimeError, match='no such thing'):
    beams.run('a test', [beams.Each(_fail, [1])])
  with pytest.raises(errors.UserError, match='failed 3 times: a worker'):
    beams.run('a test', [beams.Each(_die, [1])])


@pytest.mark.parametrize('options', [IN_THREADS, ONE_PROCESS])
@pytest.mark.parametrize('job', [
    lambda task: beams.Each(task, [1]),
    lambda task: beams.Grouped(task, print, [1]),
    lambda task: beams.Inferred(functools.partial(task, 1), [1])])
def test_a_mistake_of_the_user_is_one_line(beam, monkeypatch, options, job):
  """What a task says arrives as it was said, whatever a runner quotes."""
  beams.choose('direct', options)
  if options == IN_THREADS:
    without_helper(monkeypatch)
  with pytest.raises(errors.UserError) as e:
    beams.run('a test', [job(_refuse)])
  assert str(e.value) == 'a.jsonl:3: "b\'c" \\ is no number; \u96ea'


def _refuse(_):
  raise errors.UserError('a.jsonl:3: "b\'c" \\ is no number; \u96ea')


def _fail(_):
  raise ValueError('no such thing')


def _die(_):
  os.kill(os.getpid(), signal.SIGKILL)
