"""Run files of other programs: TREC's, and Zeshel's candidates."""

import pathlib
from collections.abc import Iterable

from neg_contrast import errors
from neg_contrast.data.formats import files, zeshel
from neg_contrast.evaluation import (
  trec,
)


def read_run(path: pathlib.Path) -> trec.Run:
  """A run file: TREC's, or Zeshel's candidates (.json).

  Raises:
    UserError: it is no such file.
  """
  is_json = files.plain_name(path).endswith('.json')
  return zeshel.read_candidates(path) if is_json else trec.read_run(path)


def read_runs(paths: Iterable[pathlib.Path]) -> trec.Run:
  """Run files of different queries as one.

  Raises:
    UserError: one is no run file, or a query is in two of them.
  """
  joined: trec.Run = {}
  for path in paths:
    run = read_run(path)
    repeated = next((query for query in run if query in joined), None)
    if repeated is not None:
      raise errors.UserError(
          f'{path}: query "{repeated}" was in a run file before; name files of '
          'different queries'
      )
    joined.update(run)
  return joined


def run_name(path: pathlib.Path) -> str:
  """The system of a run file, after its name."""
  return path.name.removesuffix('.gz').rpartition('.')[0] or path.name


def missing_run(path: pathlib.Path) -> str | None:
  """What is wrong with the place of a run file."""
  return None if path.is_file() else f'{path}: no such file'
