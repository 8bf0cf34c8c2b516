"""`model`: the nearest passages by a checkpoint that is there already."""

from neg_contrast.mining.strategies import dense_strategy
from neg_contrast.models import given


class Model(dense_strategy.DenseStrategy):
  """Mines with `negatives.checkpoint`, or else the job's own."""

  name = 'model'
  reads = (*dense_strategy.DenseStrategy.reads, 'checkpoint', 'seed')

  @property
  def checkpoint(self):
    """As the config names it."""
    return self.task.checkpoint

  @property
  def model(self):
    """The checkpoint, with all its own settings."""
    return given.Checkpoint(self.task.checkpoint, self.task.seed)
