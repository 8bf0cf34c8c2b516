"""The files of a pool for other trainers, in a folder of a workdir."""

import dataclasses
import functools
import pathlib
from collections.abc import Iterator
from typing import Any

from absl import logging

from neg_contrast import progress
from neg_contrast.artifacts import arrays, artifact, folders
from neg_contrast.mining import pool_folder, training_files

FOLDER = 'for_trainers'  # Of a workdir.
_PASSAGES_HELD = 4096  # Texts in memory; several queries share a negative.


@dataclasses.dataclass(frozen=True)
class TrainerFiles(artifact.Named):
  """A pool as files of other libraries, see `training_files.py`.

  Attributes:
    pool: whose negatives are written.
    formats: of the files.
    workdir: they go to its folder `for_trainers`.
  """

  kind = 'files for other trainers'
  format = 3
  name = 'files'
  pool: pool_folder.PoolFolder
  formats: tuple[str, ...]
  workdir: pathlib.Path

  @property
  def folder(self) -> pathlib.Path:
    """Where they lie."""
    return self.workdir / FOLDER

  def describe(self) -> str:
    """Which, and where."""
    return f'{", ".join(self.formats)} in {self.folder}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """The pool, and texts and positives."""
    return {'pool': self.pool, 'data': self.pool.task.data}

  def settings(self) -> dict[str, Any]:
    """Formats, and whose queries."""
    return {'formats': self.formats, 'split': self.pool.task.split}

  def read(self) -> dict[str, dict[str, int]]:
    """File name -> `rows` it has, and queries `left_out` of it.

    Raises:
      UserError: a file is damaged.
    """
    arrays.check_folder(self.folder)
    manifest = folders.read_manifest(self.folder, self._format)
    assert manifest is not None, f'{self.folder}: not made'
    return manifest['files']

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Writes all formats in one reading of the pool."""
    manifest['files'] = training_files.write(
        scratch, self.pool.task.split, self.formats, self._items()
    )
    for name, counts in manifest['files'].items():
      logging.info('%s: %d rows%s', name, counts['rows'], (
          f'; left out {counts["left_out"]} queries that lack negatives'
          if counts['left_out'] else ''
      ))

  def _items(self) -> Iterator[training_files.Item]:
    task, pool = self.pool.task.open(), self.pool.load()
    say = progress.Ticker('writing', len(pool))
    for done, item in enumerate(training_files.read_items(
        pool, task.prepared.queries,
        training_files.positives_of(task.judgements),
        functools.lru_cache(_PASSAGES_HELD)(self.pool.texts),
        task.positives.most == 1,
    ), start=1):
      yield item
      say(done)
