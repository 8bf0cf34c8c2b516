"""`model`: the nearest passages by a checkpoint that is there already."""

import functools

from neg_contrast.mining.strategies import dense_strategy
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import loading


class Model(dense_strategy.DenseStrategy):
  """Mines with `negatives.checkpoint`, or else the job's own."""

  name = 'model'

  @property
  def checkpoint(self) -> str:
    """As the config names it."""
    return self._task.negatives.checkpoint or self._task.checkpoint

  def lacks(self) -> str | None:
    """The checkpoint."""
    return model_lib.missing(self.checkpoint)

  @functools.cached_property
  def model(self) -> loading.Model:
    """The checkpoint, with all its own settings."""
    return self._task.search.load(self.checkpoint)

  def release(self) -> None:
    """Lets go of the weights."""
    vars(self).pop('model', None)
