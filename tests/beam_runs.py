"""How tests run pipelines of Beam, with few programs started."""

import contextlib
import itertools
import os
import pickle
import sys
import threading
import types
from collections.abc import Callable

import pytest

from neg_contrast import beams, workers
from tests import processes

IN_THREADS = '--direct_running_mode=in_memory --direct_num_workers=1'
_WORKER = 'apache_beam.runners.worker.sdk_worker_main'
ONE_PROCESS = '--direct_num_workers=1'


def without_helper(
    patch: pytest.MonkeyPatch, have_own_caches: bool = False
) -> list:
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
  _fork_workers(patch, have_own_caches)
  # A thread that fails must not end the tests.
  patch.setattr(beams, '_end', threading.excepthook)
  return done


def _fork_workers(patch, have_own_caches):
  """Workers that this process starts have imported all that they need.

  Else each of them takes three seconds for that, and works for less.
  """
  from apache_beam.runners.portability import local_job_service

  numbers = itertools.count()

  def start(line, *, shell, env):
    assert shell and line.endswith(f' -m {_WORKER}'), line
    if have_own_caches:
      env['NEG_CONTRAST_CACHE'] += f'-of-worker-forked-{next(numbers)}'
    return processes.Process(
        f'import sys; from {_WORKER} import main; main(sys.argv)', env=env)

  patch.setattr(
      local_job_service, 'subprocess', types.SimpleNamespace(Popen=start))


def after_the_first(
    patch: pytest.MonkeyPatch, do: Callable[[], object]
) -> None:
  """Calls `do` when the first run of pipelines has ended, and never again."""
  run = beams.run

  def run_first(what, jobs):
    run(what, jobs)
    patch.setattr(beams, 'run', run)
    do()

  patch.setattr(beams, 'run', run_first)
