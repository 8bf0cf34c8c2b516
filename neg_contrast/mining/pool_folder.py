"""A folder with the pool of a task, whoever made it."""

import abc
import dataclasses
import pathlib
from collections.abc import Sequence

from neg_contrast import errors
from neg_contrast.artifacts import artifact
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.mining import mining_task as task_lib
from neg_contrast.mining import pool_verdicts
from neg_contrast.mining import texts as texts_lib
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.settings import config as config_lib


@dataclasses.dataclass(frozen=True)
class PoolFolder(artifact.Artifact):
  """What mined and given pools share; they load as a `Pool`.

  Attributes:
    task: whose queries they are for.
    config: sources and filters, or the place of the pool.
  """

  kind = pool_lib.FORMAT.kind
  format = pool_lib.FORMAT.number
  name = 'pool'
  task: task_lib.Task
  config: config_lib.NegativesConfig

  @property
  @abc.abstractmethod
  def folder(self) -> pathlib.Path:
    """Where it lies."""

  @property
  @abc.abstractmethod
  def remedy(self) -> str:
    """What to do about a pool of something else."""

  @property
  def pool(self) -> pool_lib.Pool:
    """The finished pool.

    Raises:
      UserError: there is none, a file is damaged, or it belongs to something
        else.
    """
    return self.load()

  @property
  def verdicts(self) -> pool_verdicts.PoolVerdicts | None:
    """What a judge says of its candidates; None: none was asked."""
    return None

  @property
  def dataset(self) -> dataset_lib.Dataset:
    """The data whose queries the negatives are for."""
    return self.task.data.load()

  @property
  def texts(self) -> texts_lib.Texts:
    """Passages and half passages of the pool."""
    return self.task.texts(self.pool.halves)

  def read(self) -> pool_lib.Pool:
    """Maps it."""
    return pool_lib.read(self.folder)

  def _refuse(self, lines: Sequence[str]) -> None:
    """Raises UserError if there are lines that say what differs."""
    if lines:
      raise errors.UserError(
          f'{self.folder}: these negatives were mined from something else:\n'
          + '\n'.join(f'  {line}' for line in lines) + f'\n{self.remedy}'
      )
