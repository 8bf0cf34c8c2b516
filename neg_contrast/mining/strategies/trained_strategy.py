"""The nearest passages by a dual encoder that is trained for mining."""

import abc
from typing import ClassVar

from neg_contrast import errors
from neg_contrast.mining.strategies import dense_strategy
from neg_contrast.models import by_name as model_lib
from neg_contrast.training import run_artifacts


class TrainedStrategy(dense_strategy.DenseStrategy):
  """Mines with an encoder of so many features; see `miners.py`."""

  trains_miner = True
  reads: ClassVar[tuple[str, ...]] = (
      *dense_strategy.DenseStrategy.reads, 'miners'
  )

  @property
  @abc.abstractmethod
  def features(self) -> int:
    """Of the miner's vectors."""

  @property
  def model(self) -> run_artifacts.CachedRun:
    """The miner's training."""
    assert self.task.miners is not None
    return self.task.miners.run(self.name, self.features)

  @property
  def checkpoint(self) -> str:
    """The miner's folder."""
    return str(self.model.folder)

  def lacks(self) -> str | None:
    """What the miner starts from; one that is trained first is no start."""
    assert self.task.miners is not None
    init = self.task.miners.init
    if model_lib.is_workdir(init):
      return (f'{init}: {self.name} starts from a model that was not '
              'trained yet; name it with '
              f'--{errors.key("negatives.miner_init")}')
    return None
