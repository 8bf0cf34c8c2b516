"""Folders of jobs that Python starts: the user's, or a temporary one."""

import atexit
import functools
import os
import pathlib
import shutil
import tempfile
from typing import Any

from neg_contrast.artifacts import places

NAME = 'objects'
"""Of a data set that came as objects, in `metrics.json`."""


def folder_or_temporary(
    folder: str | os.PathLike[str] | None, name: str = ''
) -> pathlib.Path:
  """A folder of the user; else a place that goes when the process ends.

  It stays the same where the program changes its current folder later.

  Args:
    folder: of the user; None: there is none.
    name: of the temporary place; equal names are one place.
  """
  return (places.path(folder).absolute() if folder is not None
          else _temporary() / name)


def settings_of(root: pathlib.Path) -> dict[str, Any]:
  """Settings of jobs on objects: all they keep lies below one folder.

  Ids of queries and passages are apart: equal ones mean nothing.
  """
  return {
      'data__name': NAME,
      'data__prepared_dir': str(root / 'prepared'),
      'data__drop_own_passage': False,
      'negatives__mined_dir': str(root / 'mined'),
  }


@functools.cache
def _temporary() -> pathlib.Path:
  folder = tempfile.mkdtemp(prefix='neg_contrast_')
  atexit.register(shutil.rmtree, folder, ignore_errors=True)
  return pathlib.Path(folder)
