"""The interface of a mined strategy: who proposes the candidates of a pool."""

import abc
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from neg_contrast.mining import candidates
from neg_contrast.mining import task as task_lib
from neg_contrast.training import encoder_run


@dataclasses.dataclass(frozen=True)
class Proposer:
  """What a strategy mines with.

  Attributes:
    miner: proposes candidates.
    facts: to be kept in the manifest of the candidates.
    halves: (parent row, first and end token) of half passages; the miner may
      add to them.
  """

  miner: candidates.Miner
  facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  halves: Sequence[tuple[int, int, int]] = ()


class Strategy(abc.ABC):
  """Proposes candidates for every query of a task.

  Attributes:
    name: in `config.negatives.strategy`, `members`, `drop_answers`, plans and
      reports.
    is_ranked: whether candidates are ranked and scored by a search. Then ranks
      and margins filter them, reports compare scores, and processes divide the
      queries.
    trains_miner: whether a miner is trained first, see `training`.
  """

  name: ClassVar[str]
  is_ranked: ClassVar[bool] = False
  trains_miner: ClassVar[bool] = False

  def __init__(self, task: task_lib.Task):
    """Reads nothing yet."""
    self._task = task

  @property
  def training(self) -> encoder_run.DualEncoderTraining:
    """The training of the miner, where there is one."""
    raise NotImplementedError(f'{self.name} trains no miner')

  @property
  def describes_miner(self) -> str:
    """The miner in words, for the plan, where there is one."""
    return ''

  @property
  def checkpoint(self) -> str:
    """The place of the model that mines; empty: none does."""
    return ''

  def lacks(self) -> str | None:
    """What the user has to provide first; None: nothing."""
    return None

  @abc.abstractmethod
  def settings(self) -> dict[str, Any]:
    """What the candidates depend on beside data, split and depth; json."""

  @abc.abstractmethod
  def proposer(self) -> Proposer:
    """Reads what mining needs.

    Raises:
      UserError: the data has nothing that the strategy could propose.
    """

  def release(self) -> None:  # noqa: B027 - most hold none.
    """Lets go of weights; they are read again when asked for."""


def absolute(checkpoint: str) -> str:
  """The place of a folder; other names stay."""
  path = pathlib.Path(checkpoint)
  return str(path.resolve()) if path.is_dir() else checkpoint
