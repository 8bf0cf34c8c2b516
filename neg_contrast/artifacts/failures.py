"""What goes wrong while files are written, as one line for the user."""

import contextlib
import errno
import os
import pathlib
import sqlite3
import tempfile
from collections.abc import Iterator
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import places

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def while_writing(path: pathlib.Path) -> Iterator[None]:
  """Turns what goes wrong while a file or folder is written into one line.

  Args:
    path: of what is written; a scratch name begins with it.

  Raises:
    UserError: the disk is full, a file grew too large, or the place can't be
      written to or has vanished.
  """
  try:
    yield
  except sqlite3.OperationalError as e:
    raise not_written(path, e) from e
  except OSError as e:
    is_there = str(e.filename or '').startswith(str(places.on_disk(path)))
    # numpy's own error of a file that is cut off has no number.
    if e.errno is not None and e.errno not in _NO_SPACE and not is_there:
      raise
    raise not_written(path, e.strerror or e) from e


def not_written(path: pathlib.Path, reason: Any) -> errors.UserError:
  """The error for something that could not be written."""
  return errors.UserError(
      f'{path}: not written ({reason!s:.200}). Free some space, allow larger '
      f'files (ulimit -f), or name another {_places()}'
  )


def can_be_written(folder: pathlib.Path) -> bool:
  """Whether a folder, which need not be there, can be written to."""
  try:
    try_to_write(folder)
  except OSError:
    return False
  return True


def try_to_write(folder: pathlib.Path) -> None:
  """Makes a folder where it is not, and a file in it for a moment.

  Raises:
    OSError: either can't be made.
  """
  folder.mkdir(parents=True, exist_ok=True)
  if not places.is_remote(folder):
    tempfile.TemporaryFile(dir=folder).close()


def check_can_be_made(folder: pathlib.Path) -> None:
  """Refuses a folder whose first parent that there is takes none; makes none.

  Raises:
    UserError: it can't be created or written to.
  """
  if places.is_remote(folder):
    return
  there = next(one for one in (folder, *folder.absolute().parents)
               if one.exists())
  if not there.is_dir():
    raise not_writable(folder, f'{there} is a file')
  if not os.access(there, os.W_OK | os.X_OK):
    raise not_writable(folder, f'{there} takes no files')


def not_writable(folder: pathlib.Path, why: Any) -> errors.UserError:
  """The error for a folder that can't be made, or takes no files."""
  return errors.UserError(
      f'{folder}: not a folder that can be written to ({why}). '
      f'Choose another with {_places()}'
  )


def _places() -> str:
  """What says where files are written."""
  return (f'{errors.flag("workdir")}, --{errors.key("data.prepared_dir")} or '
          f'--{errors.key("negatives.mined_dir")}')
