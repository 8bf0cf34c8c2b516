"""Which earlier batches a queue of their vectors holds. Pure.

The queue is a ring: the batch of step t stands at place t modulo its length.
So what it holds before a step follows from the step alone, and so do masks,
after a resume too.
"""

import numpy as np
from jaxtyping import Int


def steps_held(step: int, length: int) -> Int[np.ndarray, ' length']:
  """The step whose batch stands at each place before a step.

  Args:
    step: from 0.
    length: batches that the queue holds.

  Returns:
    `[length] int`; negative where nothing stands yet.
  """
  return step - 1 - (step - 1 - np.arange(length)) % length


def mean_age(step: int, length: int) -> float:
  """Steps since the vectors in the queue were made, on average; 0: none are."""
  held = steps_held(step, length)
  return float((step - held[held >= 0]).mean()) if step else 0.0
