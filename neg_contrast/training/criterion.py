"""What early stopping goes by: a metric, and which of two values is better."""

import dataclasses

from neg_contrast.evaluation import metrics


@dataclasses.dataclass(frozen=True)
class Criterion:
  """What evaluations of a training are compared by.

  Attributes:
    name: of a metric on the tune split.
    less_is_better: whether the smaller value is the better one.
  """

  name: str
  less_is_better: bool = False

  def is_better(self, value: float, best: float) -> bool:
    """Whether a value is better than the best one so far; equal is not."""
    return value < best if self.less_is_better else value > best


LOSS = Criterion('loss', less_is_better=True)


def of_metric(name: str) -> Criterion:
  """The criterion that `evaluation.criterion` names."""
  return Criterion(name, metrics.less_is_better(name))
