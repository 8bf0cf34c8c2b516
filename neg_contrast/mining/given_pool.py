"""A pool that `config.negatives.pool` names: checked, never made."""

import dataclasses
import pathlib
from typing import Any

from absl import logging

from neg_contrast import errors
from neg_contrast.artifacts import artifact, folders, places
from neg_contrast.mining import pool_folder
from neg_contrast.models import given
from neg_contrast.negatives import pool as pool_lib


@dataclasses.dataclass(frozen=True)
class GivenPool(pool_folder.PoolFolder):
  """Refuses a pool of other data, or of a checkpoint that changed since."""

  @property
  def folder(self) -> pathlib.Path:
    """Where it lies."""
    return places.path(self.config.pool)

  @property
  def remedy(self) -> str:
    """What to do about a pool of something else."""
    return ('Put that back, or name a pool of what is here; without '
            f'{errors.key("negatives.pool")} one is mined')

  def describe(self) -> str:
    """Where it lies."""
    return f'hard negatives in {self.folder}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """What it has to belong to."""
    return {'data': self.task.data}

  def lacks(self) -> str | None:
    """The pool, or a whole one."""
    try:
      pool_lib.read(self.folder)
    except errors.UserError as e:
      said = str(e).replace('the same command makes', 'job=mine makes')
      return f'{errors.key("negatives.pool")}: {said}'
    return None

  def is_made(self) -> bool:
    """Whether it is there; raises if it belongs to something else."""
    return self.contents() is not None

  def build(self) -> None:
    """It is given; raises if it belongs to something else."""
    _ = self.contents()

  def read(self) -> pool_lib.Pool:
    """The pool, once it is known to belong here."""
    _ = self.contents()
    return super().read()

  def _find_contents(self, role: str) -> dict[str, Any] | None:
    """The identity that it was made with.

    Raises:
      UserError: it belongs to other data, or its checkpoint changed since.
    """
    del role
    if self.lacks() or self.task.data.contents('texts') is None:
      return None
    pool = pool_lib.read(self.folder)
    self._refuse(self._differences(pool))
    return pool.manifest['identity']

  def _differences(self, pool: pool_lib.Pool) -> list[str]:
    """Where it does not belong to the data at hand, a line each."""
    made, lines = pool.manifest, list[str]()
    identity = made['identity']
    # A judge's or a refreshed pool is made from another; `given` may be a
    # source as well.
    while below := [
        identity['needs'][role] for role in ('given', 'mined')
        if identity['needs'].get(role, {}).get('kind') == self.kind
    ]:
      identity = below[0]
    for source in made['sources']:
      there = identity['needs'][source]
      for role in ('texts', 'data'):
        lines += folders.differences(
            there['needs'][role], self.task.data.contents(role)
        )
      lines += folders.differences(
          there['settings']['split'], self.task.split, 'split'
      )
      if 'tokenizer' in there['needs'] and len(pool.halves):
        assert self.task.tokenizer is not None
        lines += folders.differences(
            there['needs']['tokenizer'], self.task.tokenizer.contents(),
            source,
        )
      if source in made['checkpoints']:
        lines += self._changed_model(
            source, made['checkpoints'][source],
            there['needs']['embeddings']['model'],
        )
    missing = {*self.config.strategies} - {*pool.sources}
    if missing:
      lines.append(
          f'it has {", ".join(pool.sources)}, and not '
          f'{", ".join(sorted(missing))}; name these in '
          f'{errors.key("negatives.sources")}, or all of them by pool:2'
      )
    return sorted(set(lines))

  def _changed_model(
      self, source: str, checkpoint: str, mined_with: str
  ) -> list[str]:
    """What changed in the checkpoint that a source was mined with."""
    if not places.path(checkpoint).is_dir():
      logging.warning('%s: whether %s is still the model that %s was mined '
                      'with is not checked; it is not there', self.folder,
                      checkpoint, source)
      return []
    model = given.Checkpoint(checkpoint, self.task.seed)
    lines = folders.differences(
        mined_with, model.load().fingerprint,
        f'the model of {source} ({checkpoint})',
    )
    model.release()
    return lines
