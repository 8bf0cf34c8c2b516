"""`coarse`: the nearest passages by an encoder of few features."""

from neg_contrast.mining.strategies import trained_strategy


class Coarse(trained_strategy.TrainedStrategy):
  """Coarse negatives (Lu et al., section 4.2: 25 features)."""

  name = 'coarse'
  reads = (*trained_strategy.TrainedStrategy.reads, 'coarse_dim')

  @property
  def features(self):
    """As `negatives.coarse_dim` says."""
    return self.task.coarse_dim
