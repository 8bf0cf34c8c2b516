"""Processes of tests, which start with everything imported already.

A server that has imported the command, and has not started JAX's devices, forks
each of them. A process has its own environment, folder and output, and ends as
`python -c` would: only the seconds of the imports are gone.
"""

import atexit
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence

ROOT = pathlib.Path(__file__).parents[1]
_SERVER = multiprocessing.get_context('forkserver')
_SERVER.set_forkserver_preload([
    'neg_contrast.main', 'neg_contrast.api', 'tests.hosts_worker',
    'tests.jobs.test_train', 'tests.jobs.test_stage1', 'tests.preloaded',
])


class Process:
  """Like a `subprocess.Popen` whose outputs go to files."""

  def __init__(
      self,
      code: str,
      arguments: Sequence[str] = (),
      env: Mapping[str, str] = os.environ,
      cwd: pathlib.Path = ROOT,
  ):
    """Starts it.

    Args:
      code: that it runs as `__main__`.
      arguments: `sys.argv[1:]` there.
      env: all of its environment.
      cwd: the folder that it works in.
    """
    self._folder = tempfile.TemporaryDirectory(prefix='neg_contrast_process_')
    self._files = [pathlib.Path(self._folder.name, name)
                   for name in ('stdout', 'stderr')]
    self._process = _SERVER.Process(target=_run, args=(
        code, list(map(str, arguments)), dict(env), str(cwd),
        list(map(str, self._files)),
    ))
    self._process.start()
    self.pid = self._process.pid

  @property
  def returncode(self) -> int | None:
    """None while it runs; -N: ended by signal N."""
    return self._process.exitcode

  def poll(self) -> int | None:
    """The same."""
    return self.returncode

  def wait(self, timeout: float | None = None) -> int:
    """Its return code, once it has ended.

    Raises:
      TimeoutExpired: it takes longer than so many seconds.
    """
    self._process.join(timeout)
    if self.returncode is None:
      raise subprocess.TimeoutExpired('python', timeout or 0)
    return self.returncode

  def communicate(self, timeout: float | None = None) -> tuple[str, str]:
    """What it printed on each of both, once it has ended; raises as `wait`."""
    self.wait(timeout)
    return self._printed()

  def lines(self) -> Iterator[str]:
    """Each line on standard output when it is there, to the end."""
    given, has_ended = 0, False
    while not has_ended:
      has_ended = self.poll() is not None
      lines = self._printed()[0].splitlines(keepends=True)
      whole = lines if has_ended else [x for x in lines if x.endswith('\n')]
      yield from whole[given:]
      given = len(whole)
      time.sleep(0.002)

  def _printed(self) -> tuple[str, str]:
    out, err = (file.read_text() if file.exists() else ''
                for file in self._files)
    return out, err

  def send_signal(self, number: int) -> None:
    """Sends a signal, unless it has ended."""
    if self.poll() is None:
      os.kill(self.pid, number)

  def kill(self) -> None:
    """SIGKILL."""
    self.send_signal(signal.SIGKILL)


def command(*flags: str, **kwargs) -> Process:
  """`python -m neg_contrast.main FLAGS`."""
  return Process('from neg_contrast import main\nmain._run()', flags, **kwargs)


def with_devices(count: int) -> str:
  """XLA_FLAGS of the tests, with another number of simulated devices."""
  flags = os.environ.get('XLA_FLAGS', '')
  return f'{flags} --xla_force_host_platform_device_count={count}'


def run(process: Process) -> subprocess.CompletedProcess:
  """Waits for it, as `subprocess.run` does."""
  out, err = process.communicate()
  return subprocess.CompletedProcess('python', process.returncode, out, err)


def _run(code, arguments, env, cwd, files):
  for number, file in enumerate(files, 1):
    opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(opened, number)
  sys.stdout.reconfigure(line_buffering=True)
  os.environ.clear()
  os.environ.update(env)
  os.chdir(cwd)
  sys.argv = ['main', *arguments]
  sys.path.insert(0, '')
  os._exit(_run_whole(code))


def _run_whole(code):
  """Runs code as the interpreter does, to its end; the return code."""
  ended = 0
  try:
    exec(compile(code, '<process>', 'exec'), {'__name__': '__main__'})
  except SystemExit as e:
    ended = e.code if isinstance(e.code, int) else int(e.code is not None)
  except BaseException:
    traceback.print_exc()
    ended = 1
  threading._shutdown()  # type: ignore[attr-defined]
  atexit._run_exitfuncs()
  sys.stdout.flush()
  sys.stderr.flush()
  return ended
