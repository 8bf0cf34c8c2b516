"""Processes of this host that share the work of this one, in order.

They are no forks, which JAX's threads forbid, and import no main program, of
which users have any. Each ends when its socket is closed, however the process
ends that it works for.

    python -m neg_contrast.workers SOCKET

is what a worker runs; `in_order` starts it.
"""

import collections
import contextlib
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import connection
from typing import Any, TypeVar

from neg_contrast import errors

Item = TypeVar('Item')
Result = TypeVar('Result')
_LEAVING_SECONDS = 10


class Ended(errors.UserError):
  """A worker process was ended from outside."""


def in_order(
    task: Callable[[Item], Result],
    items: Iterable[Item],
    count: int,
    alone: int,
    rejoin: Callable[[Result, Item], Item] | None = None,
) -> Iterator[Result]:
  """`task(item)` of each item, in the order of the items.

  A worker has one item at a time: memory holds `count` items and results. What
  goes wrong is raised in the order of the items, whoever meets it first.

  Args:
    task: can be pickled, and gives equal results in any process.
    items: none is None; at most `count` are read ahead.
    count: of workers; below 2 this process works alone.
    alone: items that this process works at alone before it starts workers, who
      are not worth their start for few.
    rejoin: changes an item by the result of the one before it; the same object
      if there is nothing to change.

  Raises:
    UserError: a worker was ended from outside; or as `task` and `items` do.
  """
  failures: list[Exception] = []
  waiting = _until_failure(items, failures)
  free: collections.deque[Any] = collections.deque([_Here(task)])
  busy: collections.deque[Any] = collections.deque()
  taken = 0
  with contextlib.ExitStack() as stack:

    def send_items() -> None:
      nonlocal taken
      while free and (item := next(waiting, None)) is not None:
        if taken == alone and count > 1:
          free.clear()
          free.extend(stack.enter_context(_processes(task, count)))
        taken += 1
        free[0].send(item)
        busy.append((free.popleft(), item))

    send_items()
    while busy:
      worker, _ = busy.popleft()
      outcome = worker.receive()
      free.append(worker)
      send_items()  # Before the result is used: no worker waits for that.
      result = _value(outcome)
      if rejoin is not None and busy:
        following, item = busy[0]
        joined = rejoin(result, item)
        if joined is not item:
          following.forget()
          following.send(joined)
          busy[0] = following, joined
      yield result
  if failures:
    raise failures[0]


@contextlib.contextmanager
def aside(
    task: Callable[[Item], object], has_helper: bool
) -> Iterator[Callable[[Item], object]]:
  """Gives a function that has one worker call `task(item)`, in order.

  The function returns when the worker has the item, and has ended the one
  before; the block ends when it has ended all.

  Args:
    task: can be pickled.
    has_helper: if not, there is no worker, and the function is the task.

  Raises:
    UserError: the worker was ended from outside; or as `task` does.
  """
  if not has_helper:
    yield task
    return
  with _processes(task, 1) as (worker,):
    is_busy = False

    def send(item: Item) -> None:
      nonlocal is_busy
      if is_busy:
        _value(worker.receive())
      worker.send(item)
      is_busy = True

    yield send
    if is_busy:
      _value(worker.receive())


def _until_failure(
    items: Iterable[Item], failures: list[Exception]
) -> Iterator[Item]:
  """The items until there is a failure, which is kept for its turn."""
  try:
    yield from items
  except Exception as e:
    failures.append(e)


class _Here:
  """Works in this process, when the result is wanted."""

  def __init__(self, task: Callable):
    self._task, self._item = task, None

  def send(self, item: Any) -> None:
    self._item = item

  def receive(self) -> tuple[Any, Exception | None]:
    try:
      return self._task(self._item), None
    except Exception as e:
      return None, e

  def forget(self) -> None:
    """Does not work at the item."""


class _Process:
  """Works in a process of its own."""

  def __init__(self):
    ours, theirs = socket.socketpair()
    with theirs:
      self._process = subprocess.Popen(
          [sys.executable, '-m', 'neg_contrast.workers', str(theirs.fileno())],
          pass_fds=(theirs.fileno(),), stdout=subprocess.DEVNULL,
          process_group=0,  # Ctrl-C ends this process, and that ends it.
          env={**os.environ, 'TOKENIZERS_PARALLELISM': 'false',
               'PYTHONPATH': os.pathsep.join(filter(None, sys.path))},
      )
    self._connection = connection.Connection(ours.detach())

  def send(self, item: Any) -> None:
    with self._talking():
      self._connection.send(item)

  def receive(self) -> tuple[Any, Exception | None]:
    with self._talking():
      return self._connection.recv()

  def forget(self) -> None:
    """Waits for the end of the work at the item."""
    self.receive()

  def end(self) -> None:
    self._connection.close()
    if self._process.returncode is None:  # With all that it started.
      with contextlib.suppress(ProcessLookupError):
        os.killpg(self._process.pid, signal.SIGKILL)
    self._process.wait()

  @contextlib.contextmanager
  def _talking(self) -> Iterator[None]:
    try:
      yield
    except (EOFError, OSError) as e:  # At a message's end, or within it.
      try:
        code = self._process.wait(_LEAVING_SECONDS)
      except subprocess.TimeoutExpired:
        self._process.kill()
        code = self._process.wait()
      reason = (f'by {signal.Signals(-code).name}' if code < 0 else
                f'with exit code {code}')
      raise Ended(
          f'a worker process was ended {reason}; is there enough memory? The '
          'same command starts again'
      ) from e


@contextlib.contextmanager
def _processes(task: Callable, count: int) -> Iterator[list[_Process]]:
  """Workers at a task, until the block ends."""
  with contextlib.ExitStack() as stack:
    workers = []
    for _ in range(count):
      workers.append(_Process())
      stack.callback(workers[-1].end)
    for worker in workers:  # When all have begun to start.
      worker.send((errors.place(), task))
    yield workers


def _value(outcome: tuple[Any, Exception | None]) -> Any:
  value, failure = outcome
  if failure is not None:
    raise failure
  return value


def _work(task: Callable, item: Any) -> tuple[Any, Exception | None]:
  """What `receive` returns; all that may go wrong can be pickled."""
  try:
    return task(item), None
  except errors.UserError as e:
    return None, errors.UserError(str(e))
  except Exception:
    return None, RuntimeError(traceback.format_exc())


def main() -> None:
  """Works until the socket is closed."""
  with contextlib.suppress(EOFError, ConnectionError):
    asked = connection.Connection(int(sys.argv[1]))
    place, task = asked.recv()
    with errors.at(place):
      while True:
        asked.send(_work(task, asked.recv()))


if __name__ == '__main__':
  main()
