"""Workers give what one process gives, in order, and end with it."""

import functools
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from neg_contrast import errors, workers
from neg_contrast.data import records
from tests import processes

_SLEEPING = '''
import itertools, signal, time
from neg_contrast import workers
# A shell may have it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _ in workers.in_order(time.sleep, itertools.repeat(0.05), 2, 1):
  print('done')
'''


@pytest.mark.parametrize('count, alone', [(1, 0), (2, 0), (3, 2), (2, 5),
                                          (2, 9)])
def test_results_come_in_order(count, alone):
  texts = [str(n) * n for n in (7, 0, 500, 1, 3)]
  assert list(workers.in_order(len, iter(texts), count, alone)) == [
      7, 0, 1500, 1, 3]


def test_large_items_and_results_pass_each_other():
  items = [bytes([n]) * 5_000_000 for n in range(5)]
  assert list(workers.in_order(bytes, iter(items), 2, 1)) == items


@pytest.mark.parametrize('count', [1, 2])
def test_what_a_result_leaves_joins_the_next_item(count):
  """Sorted: a task whose last letter belongs to the next item."""
  join = lambda result, item: result[-1] + item if result[-1] > 'm' else item
  joined = workers.in_order(sorted, iter(['ax', 'b', 'c', 'dz', '']), count, 1,
                            join)
  assert list(map(''.join, joined)) == ['ax', 'bx', 'cx', 'dxz', 'z']


def read(some):
  """Items, and then a failure."""
  yield from some
  raise OSError('read no further')


@pytest.mark.parametrize('count', [1, 2, 3])
def test_the_first_failure_in_order_is_raised(count):
  done = workers.in_order(float, read(['1', '2']), count, 0)
  assert [next(done), next(done)] == [1, 2]
  with pytest.raises(OSError, match='no further'):
    next(done)
  done = workers.in_order(float, read(['1', 'a', 'b']), count, 0)
  assert next(done) == 1
  with pytest.raises((ValueError, RuntimeError), match="to float: 'a'"):
    next(done)


def test_users_errors_name_the_key_of_their_place():
  task = functools.partial(records.InvalidRecords(False).report, 'x', 'f:3')
  with (errors.within('stage1'), pytest.raises(
      errors.UserError, match=r'^f:3: bad\. .*config\.stage1\.data\.on_inv')):
    list(workers.in_order(task, iter(['bad']), 2, 0))


def test_a_worker_that_is_killed_is_one_line():
  with pytest.raises(errors.UserError, match='was ended by SIGKILL; is there'):
    list(workers.in_order(signal.raise_signal, iter([signal.SIGKILL]), 2, 0))


@pytest.mark.parametrize('has_helper', [False, True])
def test_a_helper_does_all_in_order(tmp_path, has_helper):
  made = tmp_path / 'a' / 'b' / 'c'
  with workers.aside(os.mkdir, has_helper) as make:
    for folder in (made.parent.parent, made.parent, made):
      make(folder)
  assert made.is_dir()


@pytest.mark.parametrize('count', [1, 2])
def test_a_helper_that_fails_is_heard_of(count):
  """At the next call, or at the end of the block."""
  task = functools.partial(records.InvalidRecords(False).report, 'x', 'f:3')
  calls = []
  with (pytest.raises(errors.UserError, match='^f:3: bad'),
        workers.aside(task, True) as report):
    for _ in range(count):
      report('bad')
      calls.append('bad')
  assert len(calls) == 1


def running(parent):
  """Numbers of the workers of a process."""
  found = []
  for folder in pathlib.Path('/proc').glob('[0-9]*'):
    try:
      status = (folder / 'status').read_text()
      command = (folder / 'cmdline').read_bytes()
    except OSError:  # It has ended.
      continue
    if f'\nPPid:\t{parent}\n' in status and b'.workers\0' in command:
      found.append(folder)
  return found


def has_ended(folder):
  try:
    return '\nState:\tZ' in (folder / 'status').read_text()
  except OSError:
    return True


@pytest.mark.parametrize('number', [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_process(number):
  process = processes.Process(_SLEEPING)
  for _, _ in zip(process.lines(), range(6), strict=False):
    pass
  found = running(process.pid)
  assert len(found) == 2
  process.send_signal(number)
  assert process.wait(30)
  until = time.monotonic() + 30
  while not all(map(has_ended, found)):
    assert time.monotonic() < until
    time.sleep(0.01)


@pytest.mark.parametrize('name', ['packed_records', 'token_bytes',
                                  'tfds_records'])
def test_what_workers_import_does_not_start_jax(name):
  subprocess.run([
      sys.executable, '-c', f'import sys, neg_contrast.data.{name}\n'
      'assert {"jax", "tensorflow"}.isdisjoint(sys.modules)',
  ], cwd=processes.ROOT, check=True)
