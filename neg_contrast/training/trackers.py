"""Where curves go beside `log.jsonl`: TensorBoard, and Weights & Biases.

Both are imported where a training opens them. TensorBoard is always written;
Weights & Biases where `checkpointing.wandb_project` names a project.
"""

import hashlib
import pathlib
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from neg_contrast import errors
from neg_contrast.artifacts import places

TENSORBOARD = 'tensorboard'
"""Folder of its events, in a workdir."""


@runtime_checkable
class Tracker(Protocol):
  """Takes values by name and step."""

  def add_scalar(self, name: str, value: float, step: int) -> None:
    """Records a value; steps never go back."""
    ...

  def flush(self) -> None:
    """Puts on disk what was recorded."""
    ...

  def close(self) -> None:
    """Ends it."""
    ...


class Trackers:
  """Several as one."""

  def __init__(self, trackers: list[Tracker]):
    """Takes them over."""
    self._trackers = trackers

  def add_scalar(self, name: str, value: float, step: int) -> None:
    """Records a value in each."""
    for tracker in self._trackers:
      tracker.add_scalar(name, value, step)

  def flush(self) -> None:
    """Flushes each."""
    for tracker in self._trackers:
      tracker.flush()

  def close(self) -> None:
    """Closes each."""
    for tracker in self._trackers:
      tracker.close()


class WandB:
  """A run of Weights & Biases; the values of a step are sent together."""

  def __init__(self, project: str, workdir: pathlib.Path,
               config: Mapping[str, Any]):
    """Opens the run of a workdir, or goes on with it.

    Args:
      project: as its site names it.
      workdir: gives the run its name, and holds what is kept offline.
      config: keys and values of the training.

    Raises:
      UserError: the package is missing, or refuses the run.
    """
    try:
      import wandb
    except ImportError:
      raise errors.UserError(
          f'{errors.key("checkpointing.wandb_project")}={project!r}: the '
          'package is missing; pip install wandb'
      ) from None
    try:
      self._run: Any = wandb.init(
          project=project, name=workdir.name, dir=str(places.on_disk(workdir)),
          id=hashlib.sha256(str(workdir.absolute()).encode()).hexdigest()[:16],
          resume='allow', config=dict(config),
      )
    except Exception as e:  # Of any kind: no login, no network.
      raise errors.UserError(
          f'{errors.key("checkpointing.wandb_project")}={project!r}: {e}. Log '
          'in (wandb login), or set WANDB_MODE=offline and send it later'
      ) from None
    self._step, self._values = 0, dict[str, float]()

  def add_scalar(self, name: str, value: float, step: int) -> None:
    """Records a value, to be sent with those of its step."""
    if step != self._step:
      self.flush()
    self._step = step
    self._values[name] = value

  def flush(self) -> None:
    """Sends the values of the last step."""
    if self._values:
      self._run.log(self._values, step=self._step)
      self._values = {}

  def close(self) -> None:
    """Ends the run."""
    self.flush()
    self._run.finish()


def opened(
    workdir: pathlib.Path, start_step: int, wandb_project: str = '',
    config: Mapping[str, Any] | None = None,
) -> Trackers:
  """The trackers of a training.

  Args:
    workdir: of the run.
    start_step: steps that it has behind it; what TensorBoard has of later ones
      is forgotten.
    wandb_project: of Weights & Biases; empty: without it.
    config: keys and values, for those that show them.

  Raises:
    UserError: one can't be opened.
  """
  import tensorboardX  # Slow to import, and only training needs it.

  trackers: list[Tracker] = [tensorboardX.SummaryWriter(
      str(places.on_disk(workdir / TENSORBOARD)), purge_step=start_step + 1
  )]
  if wandb_project:
    trackers.append(WandB(wandb_project, workdir, config or {}))
  return Trackers(trackers)
