"""`fine`: the nearest passages by an encoder of many features."""

from neg_contrast.mining.strategies import trained_strategy


class Fine(trained_strategy.TrainedStrategy):
  """Fine negatives (Lu et al., section 4.2: 512 features)."""

  name = 'fine'
  reads = (*trained_strategy.TrainedStrategy.reads, 'fine_dim')

  @property
  def features(self):
    """As `negatives.fine_dim` says."""
    return self.task.fine_dim
