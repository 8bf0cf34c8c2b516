"""The nearest passages by a dual encoder that is trained for mining.

A miner trains on gold pairs with in-batch negatives (Lu et al., section 4.2).
It starts from `model.init` or `negatives.miner_init`, never from stage 1.
"""

import abc
import functools

from neg_contrast.artifacts import folders
from neg_contrast.mining.strategies import dense_strategy
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import loading
from neg_contrast.training import encoder_run

FOLDER = 'miners'  # Of `negatives.mined_dir`.


class TrainedStrategy(dense_strategy.DenseStrategy):
  """Mines with an encoder of so many features."""

  trains_miner = True

  @property
  @abc.abstractmethod
  def features(self) -> int:
    """Of the miner's vectors."""

  @functools.cached_property
  def training(self) -> encoder_run.DualEncoderTraining:
    """The miner's, in a folder that its identity names."""
    task = self._task
    train = functools.partial(task.train_miner, self.features)
    code = folders.sha256_json(train(task.mined_dir).identity)[:12]
    name = f'{task.dataset.gold.name}-{self.name}-{code}'
    return train(task.mined_dir / FOLDER / name)

  @property
  def describes_miner(self) -> str:
    """Its size and place."""
    return (f'an encoder of {self.features} features in '
            f'{self._task.mined_dir / FOLDER}')

  @property
  def checkpoint(self) -> str:
    """The miner's folder."""
    return str(self.training.workdir)

  @property
  def model(self) -> loading.Model:
    """The trained miner."""
    return self.training.trained

  def lacks(self) -> str | None:
    """What the miner starts from; one that is trained first is no start."""
    init = self._task.negatives.miner_init or self._task.model_init
    if model_lib.is_workdir(init):
      return (f'{init}: {self.name} starts from a model that was not '
              'trained yet; name it with --config.negatives.miner_init')
    return model_lib.missing(init)

  def release(self) -> None:
    """Lets go of the miner's weights."""
    vars(self).pop('training', None)
