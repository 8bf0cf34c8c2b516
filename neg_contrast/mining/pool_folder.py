"""A folder with the pool of a task, whoever made it."""

import abc
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.mining import task as task_lib
from neg_contrast.mining import texts as texts_lib
from neg_contrast.negatives import pool as pool_lib


class PoolFolder(abc.ABC):
  """What mined and given pools share.

  Attributes:
    folder: of the pool.
    remedy: what to do about a pool of something else.
  """

  remedy = ''

  def __init__(self, task: task_lib.Task, folder: pathlib.Path):
    """Reads nothing yet."""
    self._task, self.folder = task, folder

  @abc.abstractmethod
  def steps(self) -> list[plan.Step]:
    """What has to be there before there is a pool."""

  @abc.abstractmethod
  def is_made(self) -> bool:
    """Whether the pool is there; raises if it belongs to something else."""

  @property
  @abc.abstractmethod
  def identity(self) -> dict[str, Any] | None:
    """What the pool depends on, made or not; None: that is not known yet."""

  @functools.cached_property
  def pool(self) -> pool_lib.Pool:
    """The finished pool.

    Raises:
      UserError: there is none, a file is damaged, or it belongs to something
        else.
    """
    return pool_lib.read(self.folder)

  @property
  def dataset(self) -> dataset_lib.Dataset:
    """The data whose queries the negatives are for."""
    return self._task.dataset

  @functools.cached_property
  def texts(self) -> texts_lib.Texts:
    """Passages and half passages of the pool."""
    return self._task.texts(self.pool.halves)

  def release(self) -> None:  # noqa: B027 - a given pool holds none.
    """Lets go of weights; they are read again when asked for."""

  def _refuse(self, lines: Sequence[str]) -> None:
    """Raises UserError if there are lines that say what differs."""
    if lines:
      raise errors.UserError(
          f'{self.folder}: these negatives were mined from something else:\n'
          + '\n'.join(f'  {line}' for line in lines) + f'\n{self.remedy}'
      )
