"""A pool that `config.negatives.pool` names: checked, never made."""

import functools
import pathlib
from typing import Any

from absl import logging

from neg_contrast import errors
from neg_contrast.artifacts import folders, plan
from neg_contrast.mining import pool_folder
from neg_contrast.negatives import pool as pool_lib


class GivenPool(pool_folder.PoolFolder):
  """Refuses a pool of other data, or of a checkpoint that changed since."""

  remedy = ('Put that back, or name a pool of what is here; without '
            'config.negatives.pool one is mined')

  def steps(self) -> list[plan.Step]:
    """One, which only looks."""
    return [plan.Step(
        'pool', f'hard negatives in {self.folder}', lambda: self._is_right,
        missing=self._missing,
    )]

  def is_made(self) -> bool:
    """Whether it is there; raises if it belongs to something else."""
    return self._missing() is None and self._is_right

  @property
  def identity(self) -> dict[str, Any] | None:
    """What it was made of."""
    made = folders.read_manifest(self.folder)
    return None if made is None else made['identity']

  @functools.cached_property
  def pool(self) -> pool_lib.Pool:
    """The pool, once it is known to belong here."""
    pool = pool_lib.read(self.folder)
    _ = self._is_right
    return pool

  def _missing(self) -> str | None:
    try:
      pool_lib.read(self.folder)
    except errors.UserError as e:
      return f'config.negatives.pool: {e}'
    return None

  @functools.cached_property
  def _is_right(self) -> bool:
    """Whether it belongs to the data at hand; always True.

    Raises:
      UserError: it does not, or its checkpoint changed since.
    """
    pool, task = pool_lib.read(self.folder), self._task
    made = pool.manifest
    identity, checkpoints = made['identity'], made['checkpoints']
    manifest = task.dataset.prepared.manifest
    here = {'corpus': manifest['corpus_fingerprint'],
            'queries': manifest['queries_fingerprint'],
            'data': manifest['fingerprint'],
            'split': task.split}
    lines = []
    for source, there in identity['inputs'].items():
      lines += folders.differences({key: there[key] for key in here}, here)
      if 'tokenizer' in there and len(pool.halves):
        lines += folders.differences(
            there['tokenizer'], task.tokenizer.sha256, f'{source}.tokenizer'
        )
      if source in checkpoints:
        lines += self._changed_model(
            source, checkpoints[source], there['embeddings']['model']
        )
    settings = task.negatives
    if settings.quotas and pool.sources != settings.members:
      lines.append(f'quotas are for {settings.members}, and its sources '
                   f'are {pool.sources}; set config.negatives.members to these')
    self._refuse(sorted(set(lines)))
    return True

  def _changed_model(
      self, source: str, checkpoint: str, mined_with: str
  ) -> list[str]:
    """What changed in the checkpoint that a source was mined with."""
    if not pathlib.Path(checkpoint).is_dir():
      logging.warning('%s: whether %s is still the model that %s was mined '
                      'with is not checked; it is not there', self.folder,
                      checkpoint, source)
      return []
    model = self._task.search.load(checkpoint)
    return folders.differences(
        mined_with, model.fingerprint, f'the model of {source} ({checkpoint})'
    )
