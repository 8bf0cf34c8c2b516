"""What the command line does, from Python: `run`, and what it prints."""

import contextlib
import io
import logging as standard_logging
import os
import pathlib
import signal
import sys
from collections.abc import Iterator
from typing import Any

from absl import logging

from neg_contrast import jobs, listeners, terminal
from neg_contrast.api import bars, setting_keys
from neg_contrast.artifacts import leases, places, plan
from neg_contrast.jobs.common import sweeps
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import config_files, unread_keys
from neg_contrast.training import loop


def run(
    config_file: str | os.PathLike[str],
    workdir: str | os.PathLike[str] | None = None,
    sweep: str | None = None,
    on_step: listeners.OnStep | None = None,
    on_evaluation: listeners.OnEvaluation | None = None,
    on_progress: listeners.OnProgress | None = None,
    **settings: Any,
) -> pathlib.Path:
  """Does what `python -m neg_contrast.main` does: makes what is not made yet.

  Args:
    config_file: as `--config`: a path, or the name of a config that comes with
      the package; an argument after a colon included.
    workdir: as `--workdir`; None: what the config says, or
      `workdirs/<config name>`.
    sweep: as `--sweep`; None: the config runs once.
    on_step: see `listeners.Listener`.
    on_evaluation: likewise.
    on_progress: likewise.
    **settings: config keys with `__` for `.`, as in `optim__steps=100` or
      `stage1__optim__steps=50`.

  Returns:
    The workdir.

  Raises:
    UserError: there is no such file, a key or its value is wrong, or something
      is missing that the user has to provide.
  """
  name, _, arg = os.fspath(config_file).partition(':')
  path = config_files.find(name)
  keys = setting_keys.keys_of(settings)
  asked = '' if workdir is None else os.fspath(workdir)
  config = setting_keys.from_file(str(path), arg or None, keys, asked)
  if sweep is None:
    unread_keys.warn(config, keys)
  folder = places.path(workdir or config.workdir or f'workdirs/{path.stem}')
  job = jobs.make_job(config, folder) if sweep is None else sweeps.make_job(
      sweep, sweeps.Source(str(path), arg, keys, workdir=asked), config, folder
  )
  _run(job, folder, listeners.Listener(on_step, on_evaluation, on_progress),
       is_printed=True)
  return folder


def run_job(
    config: config_lib.Config,
    workdir: pathlib.Path,
    listener: listeners.Listener,
    is_printed: bool,
) -> Any:
  """Runs the job of a config, and returns it.

  Args:
    config: of the job.
    workdir: what it writes to.
    listener: hears how far it is.
    is_printed: whether plan and numbers are printed, as the command does; else
      a bar shows how far it is, where somebody looks.

  Raises:
    UserError: as `run`.
  """
  job = jobs.make_job(config, workdir)
  _run(job, workdir, listener, is_printed)
  return job


def _run(job, workdir, listener, is_printed) -> None:
  targets = job.targets()
  if is_printed:
    print(plan.describe(targets), flush=True)
  with leases.program(workdir), _screens(), bars.shown() as bar:
    with listeners.listening(bar, listener), _interruptions():
      plan.run(targets, is_described=is_printed)
    output = contextlib.nullcontext() if is_printed else (
        contextlib.redirect_stdout(io.StringIO())
    )
    with output:
      job.finish()


def _screens() -> contextlib.AbstractContextManager[None]:
  """After `show_progress`, a terminal has the command's live line."""
  is_wanted = (logging.get_verbosity() >= logging.INFO
               and terminal.is_steerable(sys.stdout)
               and not terminal.LIVE.is_on)
  return terminal.screens() if is_wanted else contextlib.nullcontext()


@contextlib.contextmanager
def _interruptions() -> Iterator[None]:
  """Ctrl-C in a training is what it is elsewhere in Python.

  Raises:
    KeyboardInterrupt: the training has saved its state, and would exit.
  """
  try:
    yield
  except loop.Interrupted as e:
    if e.code == 128 + signal.SIGINT:
      raise KeyboardInterrupt('the state is saved; the same call goes on from '
                              'there') from None
    raise


class _Printing(standard_logging.StreamHandler):
  """Writes to what standard output is at the time."""

  @property
  def stream(self) -> Any:
    """Standard output."""
    return sys.stdout

  @stream.setter
  def stream(self, stream: Any) -> None:
    del stream


def show_progress() -> None:
  """Prints what jobs log, as the command does: time and message.

  A terminal shows how far work is in one line that updates in place.
  """
  handler = _Printing()
  handler.setFormatter(standard_logging.Formatter('%(asctime)s  %(message)s',
                                                  '%H:%M:%S'))
  ours = str(pathlib.Path(__file__).parents[1])
  handler.addFilter(  # Libraries speak up when something is wrong.
      lambda record: record.levelno >= standard_logging.WARNING
      or record.pathname.startswith(ours)
  )
  logger = logging.get_absl_logger()
  logger.handlers, logger.propagate = [handler], False
  logging.set_verbosity(logging.INFO)
