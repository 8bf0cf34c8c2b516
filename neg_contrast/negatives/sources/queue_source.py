"""`queue`: positives of earlier batches, with the vectors of then.

Cross-batch memory (Wang et al., 2020); with `negatives.momentum` MoCo's (He et
al., 2020). Which batches it holds follows from the step (`batches/queue.py`),
their vectors are kept in the state (`training/memory.py`).
"""

import numpy as np

from neg_contrast.negatives.sources import shared
from neg_contrast.settings import config as config_lib


class Queue(shared.Shared):
  """Encodes nothing: its passages were."""

  @staticmethod
  def check(negatives: config_lib.NegativesConfig, batch_size: int) -> None:
    """Refuses a queue that batches don't fill."""
    if negatives.queue % batch_size:
      near = max(1, round(negatives.queue / batch_size)) * batch_size
      raise negatives.error(
          'sources', 'have a queue of whole batches: a multiple of '
          f'data.batch_size={batch_size}, such as queue:{near}'
      )

  def draw(self, step: int) -> np.ndarray:
    """No row."""
    del step
    return np.zeros(0, np.int32)
