"""What each process of a program logs, in a file of its own in the workdir.

The first process prints what it logs, for all. Of the others the console shows
their troubles alone; `logs/process-00001.log` has all that the second one says.
"""

import contextlib
import logging as standard_logging
import pathlib
import threading
from collections.abc import Iterator

import jax
from absl import logging

from neg_contrast import errors, hosts
from neg_contrast.artifacts import folders, places

FOLDER = 'logs'
_UPLOAD_SECONDS = 60.0  # To a bucket, as a whole.
_LINE = standard_logging.Formatter('%(asctime)s  %(levelname)s  %(message)s')
_OURS = str(pathlib.Path(__file__).parents[1])


def quiet_console() -> None:
  """Lets the console of a process that is not the first show troubles alone."""
  logging.get_absl_handler().setLevel(standard_logging.WARNING)


def file_of(workdir: pathlib.Path, process: int) -> pathlib.Path:
  """Where a process that is not the first keeps what it logs."""
  return workdir / FOLDER / f'process-{process:05d}.log'


@contextlib.contextmanager
def kept(workdir: pathlib.Path) -> Iterator[None]:
  """Keeps what this process logs while the block runs, and how it fails.

  The first process keeps nothing. A program that goes on appends.

  Args:
    workdir: of the program; is there.

  Raises:
    UserError: no file can be made there.
  """
  if hosts.is_first():
    yield
    return
  path = file_of(workdir, jax.process_index())
  folders.make_folder(path.parent)
  growing, ended = places.Growing(path), threading.Event()
  handler = standard_logging.FileHandler(places.local(path), encoding='utf-8')
  handler.setFormatter(_LINE)
  handler.addFilter(  # Libraries speak up when something is wrong.
      lambda record: record.levelno >= standard_logging.WARNING
      or record.pathname.startswith(_OURS))
  putting = threading.Thread(
      target=_put, args=(growing, ended), daemon=True)
  putting.start()
  logger = logging.get_absl_logger()
  logger.addHandler(handler)
  try:
    yield
  except BaseException as e:
    handler.handle(logger.makeRecord(
        logger.name, standard_logging.ERROR,
        _OURS, 0, '%s', (str(e) or repr(e),), None))
    raise
  finally:
    logger.removeHandler(handler)
    handler.close()
    ended.set()
    putting.join()


def _put(growing: places.Growing, ended: threading.Event) -> None:
  """Puts a file in its bucket again and again, and at the end."""
  while not ended.wait(_UPLOAD_SECONDS):
    _try_to_put(growing)
  _try_to_put(growing)


def _try_to_put(growing: places.Growing) -> None:
  try:
    growing.put()
  except errors.UserError as e:  # No reason to end a training.
    logging.warning('%s', e)
