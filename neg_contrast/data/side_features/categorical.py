"""A feature with categories, such as a location or a language. Pure.

A category has a row of a table of embeddings. Row 1 is that of all categories
that the model does not know; row 0 is of no text.
"""

import collections
import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neg_contrast.data.side_features import side_feature

UNKNOWN = 1
MOST = 2**16
"""Categories of a feature that says nothing of how many it has."""


@dataclasses.dataclass(frozen=True)
class Categorical(side_feature.SideFeature):
  """A text or a whole number, of which equal ones are the same category.

  Attributes:
    most: the most frequent so many of the training data are known; 0: all are.
    categories: the known ones.
  """

  kind = 'categorical'
  forms = ('location:categorical', 'location:categorical-1000')
  dtype = np.int32
  most: int = 0
  categories: tuple[str, ...] = ()

  @classmethod
  def parse(cls, name: str, may_miss: bool, rest: str) -> 'Categorical':
    """See `SideFeature.parse`."""
    found = re.fullmatch(r'(?:-([1-9]\d{0,6}))?', rest)
    if found is None:
      raise ValueError('has another number of categories than 1 to 9,999,999')
    return cls(name, may_miss, int(found[1] or 0))

  @property
  def parameters(self) -> str:
    """The number of known categories."""
    return f'-{self.most}' if self.most else ''

  @property
  def kept_as(self) -> str:
    """The same whatever the model knows."""
    return self.key

  @property
  def columns(self) -> int:
    """A number."""
    return 1

  @property
  def table_rows(self) -> int:
    """One of a category, and two more."""
    return 2 + (self.most or len(self.categories))

  def read(self, value: Any, vocabulary: dict[str, int]) -> np.ndarray:
    """`[1] int32`: the number of a category."""
    is_one = isinstance(value, str) or (
        side_feature.is_number(value) and not isinstance(value, float)
    )
    if not is_one:
      raise ValueError(f'holds {side_feature.shown(value)}, not a text or a '
                       'whole number')
    number = vocabulary.setdefault(str(value), len(vocabulary) + 1)
    return np.array([number], np.int32)

  def fitted(self, data: Sequence[side_feature.Kept]) -> 'Categorical':
    """With the most frequent categories; of equally frequent ones, by name."""
    counts: collections.Counter[str] = collections.Counter()
    for kept in data:
      often = np.bincount(kept.values[:, 0], minlength=len(kept.vocabulary) + 1)
      counts.update(dict(zip(kept.vocabulary, often[1:].tolist(), strict=True)))
    found = sorted((name for name, often in counts.items() if often),
                   key=lambda name: (-counts[name], name))
    if not self.most and len(found) > MOST:
      raise ValueError(
          f'has {len(found):,} categories; say how many of them have '
          f'embeddings of their own, as in {self.name}:categorical-{MOST}'
      )
    return dataclasses.replace(
        self, categories=tuple(found[:self.most or None])
    )

  def for_model(
      self, vocabulary: tuple[str, ...]
  ) -> side_feature.ModelValues:
    """Numbers of the data's categories -> rows of the table."""
    rows = {name: row for row, name in enumerate(self.categories, 2)}
    table = np.array(
        [0, *(rows.get(name, UNKNOWN) for name in vocabulary)], np.int32
    )
    return lambda kept: table[kept]

  def facts(self) -> dict[str, Any]:
    """The known categories."""
    return {'categories': list(self.categories)}

  def with_facts(self, facts: Mapping[str, Any]) -> 'Categorical':
    """With the known categories."""
    return dataclasses.replace(self, categories=tuple(facts['categories']))
