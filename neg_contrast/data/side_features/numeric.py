"""A feature that is a number, such as a price. Pure.

A linear layer has two inputs of it: 1, and the number, less its mean in the
training data and divided by its standard deviation there.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from neg_contrast.data.side_features import side_feature


@dataclasses.dataclass(frozen=True)
class Numeric(side_feature.SideFeature):
  """A finite number.

  Attributes:
    mean: in the training data.
    deviation: standard deviation there.
  """

  kind = 'numeric'
  forms = ('price:numeric',)
  dtype = np.float64
  mean: float = 0.0
  deviation: float = 1.0

  @classmethod
  def parse(cls, name: str, may_miss: bool, rest: str) -> 'Numeric':
    """See `SideFeature.parse`."""
    if rest:
      raise ValueError('has something after its kind')
    return cls(name, may_miss)

  @property
  def parameters(self) -> str:
    """None."""
    return ''

  @property
  def columns(self) -> int:
    """1, and the number."""
    return 2

  def read(self, value: Any, vocabulary: dict[str, int]) -> np.ndarray:
    """`[2] float64`: 1, and the number."""
    del vocabulary
    return np.array([1, number_of(value)])

  def fitted(self, data: Sequence[side_feature.Kept]) -> 'Numeric':
    """With mean and standard deviation."""
    values = np.concatenate([kept.values for kept in data])
    values = values[values[:, 0] > 0, 1]
    return dataclasses.replace(
        self, mean=float(values.mean()),
        deviation=float(values.std()) or 1.0,
    )

  def for_model(
      self, vocabulary: tuple[str, ...]
  ) -> side_feature.ModelValues:
    """`[rows, 2] float32`, of mean 0 and deviation 1."""
    del vocabulary

    def values(kept):
      scaled = (kept[:, 1] - self.mean) / self.deviation
      return np.stack([kept[:, 0], kept[:, 0] * scaled], 1).astype(np.float32)

    return values

  def facts(self) -> dict[str, Any]:
    """Mean and deviation."""
    return {'mean': self.mean, 'deviation': self.deviation}


def number_of(value: Any) -> float:
  """A finite number, or one that stands in a text, as in tables.

  Raises:
    ValueError: it is something else.
  """
  try:
    number = (float(value) if isinstance(value, str)
              or side_feature.is_number(value) else math.nan)
  except (ValueError, OverflowError):
    number = math.nan
  if not math.isfinite(number):
    raise ValueError(f'holds {side_feature.shown(value)}, not a finite number')
  return number
