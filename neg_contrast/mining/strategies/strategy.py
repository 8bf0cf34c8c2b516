"""The interface of a mined strategy: who proposes the candidates of a pool."""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from neg_contrast.artifacts import artifact, places
from neg_contrast.mining import candidates
from neg_contrast.mining import mining_task as task_lib


@dataclasses.dataclass(frozen=True)
class Proposer:
  """What a strategy mines with.

  Attributes:
    miner: proposes candidates.
    facts: to be kept in the manifest of the candidates.
    halves: parent row, first and end token of one half passage after another;
      the miner may add to them.
  """

  miner: candidates.Miner
  facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  halves: Sequence[int] = ()


@dataclasses.dataclass(frozen=True)
class Strategy(abc.ABC):
  """Proposes candidates for every query of a task.

  Attributes:
    name: in `config.negatives.sources`, `drop_answers`, plans and
      reports.
    is_ranked: whether candidates have ranks and scores, by a search or a run.
      Then ranks and margins filter them, reports compare scores, and all
      processes mine together: they divide the queries, or the corpus where the
      miner searches on the mesh.
    is_dense: whether a dual encoder finds the candidates, so that a training
      can replace them by those of its own model.
    trains_miner: whether a miner is trained first.
    queries_at_once: of a part, which one process mines; memory holds their
      candidates. 16 times as many of a search on the mesh.
    reads: fields of the task that it reads beside the common ones; it has only
      these, so that tasks which differ in others share candidates.
    task: data, split, depth, and those fields.
  """

  name: ClassVar[str]
  is_ranked: ClassVar[bool] = False
  is_dense: ClassVar[bool] = False
  trains_miner: ClassVar[bool] = False
  queries_at_once: ClassVar[int] = 4096
  reads: ClassVar[tuple[str, ...]] = ()
  task: task_lib.Task

  @property
  def checkpoint(self) -> str:
    """The place of the model that mines; empty: none does."""
    return ''

  def needs(self) -> dict[str, artifact.Artifact]:
    """What candidates are made from, beside the data."""
    return {}

  def settings(self) -> dict[str, Any]:
    """What they depend on, beside that, split and depth; json."""
    return {}

  def lacks(self) -> str | None:
    """What the user has to provide first; None: nothing."""
    return None

  def applies(self, task: task_lib.OpenTask) -> bool:
    """Whether the data has anything that it could propose."""
    del task
    return True

  def is_on_mesh(self, task: task_lib.OpenTask) -> bool:
    """Whether processes share the corpus in a search, and not the queries."""
    del task
    return False

  @abc.abstractmethod
  def proposer(self, task: task_lib.OpenTask) -> Proposer:
    """Reads what mining needs.

    Args:
      task: with the data, which is prepared.

    Raises:
      UserError: the strategy does not apply.
    """


def absolute(checkpoint: str) -> str:
  """The place of a folder; other names stay."""
  path = places.path(checkpoint)
  return str(path.resolve()) if path.is_dir() else checkpoint
