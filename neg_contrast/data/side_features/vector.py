"""A feature that is a given vector, such as an embedding of a graph. Pure.

A linear layer has as inputs 1, and the vector as it is.
"""

import dataclasses
import re
from typing import Any

import numpy as np

from neg_contrast.data.side_features import numeric, side_feature


@dataclasses.dataclass(frozen=True)
class Vector(side_feature.SideFeature):
  """A list of finite numbers.

  Attributes:
    width: numbers of a vector.
  """

  kind = 'vector'
  forms = ('social:vector-64',)
  dtype = np.float32
  width: int = 1

  @classmethod
  def parse(cls, name: str, may_miss: bool, rest: str) -> 'Vector':
    """See `SideFeature.parse`."""
    found = re.fullmatch(r'-([1-9]\d{0,4})', rest)
    if found is None:
      raise ValueError('says no number of features, from 1 to 99,999')
    return cls(name, may_miss, int(found[1]))

  @property
  def parameters(self) -> str:
    """The width."""
    return f'-{self.width}'

  @property
  def columns(self) -> int:
    """1, and the vector."""
    return 1 + self.width

  def read(self, value: Any, vocabulary: dict[str, int]) -> np.ndarray:
    """`[1 + width] float32`: 1, and the vector."""
    del vocabulary
    numbers = (re.split(r'[\s,;]+', value.strip('[] \t')) if isinstance(
        value, str) else value)
    if not isinstance(numbers, (list, tuple, np.ndarray)):
      raise ValueError(f'holds {side_feature.shown(value)}, not a list of '
                       f'{self.width} numbers')
    if len(numbers) != self.width:
      raise ValueError(f'holds {len(numbers)} numbers, not {self.width}')
    if isinstance(numbers, np.ndarray):
      numbers = numbers.tolist()
    with np.errstate(over='ignore'):
      read = np.array([1, *map(numeric.number_of, numbers)]).astype(np.float32)
    if not np.isfinite(read).all():
      raise ValueError('holds a number that float32 has not')
    return read

  def for_model(
      self, vocabulary: tuple[str, ...]
  ) -> side_feature.ModelValues:
    """As they are kept."""
    del vocabulary
    return lambda kept: np.asarray(kept, np.float32)
