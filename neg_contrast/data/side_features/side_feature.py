"""A feature beside text: how it is read, kept, and given to a model. Pure.

A value is kept as a row of a plain array. In all arrays zeros stand for no
value, so that padding and what is missing add nothing to a vector.
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from jaxtyping import Shaped

Self = TypeVar('Self', bound='SideFeature')
ModelValues = Callable[[np.ndarray], np.ndarray]
"""`[rows, columns]` as kept -> the same as a model takes it."""


@dataclasses.dataclass(frozen=True)
class Kept:
  """The values of a feature in some texts.

  Attributes:
    values: `[rows, columns]` of the feature's `dtype`; zeros: no value.
    vocabulary: of a feature with categories, those that row values name: value
      k is category k - 1.
  """

  values: Shaped[np.ndarray, 'rows columns']
  vocabulary: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class SideFeature(abc.ABC):
  """A named feature of queries and passages.

  Attributes:
    name: of the field of a record that holds it.
    may_miss: whether records may lack it.
  """

  kind: ClassVar[str]
  forms: ClassVar[tuple[str, ...]]
  """As it may be written, for messages."""
  of_text: ClassVar[bool] = False
  """Whether it is made of title and text, and no field holds it."""
  dtype: ClassVar[Any]
  """Of the array that is kept."""

  name: str
  may_miss: bool = False

  @classmethod
  @abc.abstractmethod
  def parse(cls: type[Self], name: str, may_miss: bool, rest: str) -> Self:
    """The feature that a text names.

    Args:
      name: before the colon.
      may_miss: whether there is a `?`.
      rest: what stands after the kind.

    Raises:
      ValueError: that is not its form.
    """

  @property
  @abc.abstractmethod
  def parameters(self) -> str:
    """What stands after the kind."""

  @property
  def text(self) -> str:
    """As it is written."""
    return (f'{self.name}{"?" if self.may_miss else ""}:'
            f'{self.kind}{self.parameters}')

  @property
  def key(self) -> str:
    """Its name among the features of a model, and of its parameters."""
    return f'{self.name}-{self.kind}'

  @property
  def kept_as(self) -> str:
    """Name of the array that is kept; one serves all that read it so."""
    return f'{self.key}{self.parameters}'

  @property
  @abc.abstractmethod
  def columns(self) -> int:
    """Numbers of a value."""

  @property
  def table_rows(self) -> int:
    """Rows of the table of embeddings, of which a value names some.

    0: a linear layer has the numbers of a value as input.
    """
    return 0

  @abc.abstractmethod
  def read(self, value: Any, vocabulary: dict[str, int]) -> np.ndarray:
    """`[columns]` of a value as a record has it, which is not None.

    Args:
      value: from json, or text from a table.
      vocabulary: categories by number, from 1; new ones are added.

    Raises:
      ValueError: what it holds instead of a value.
    """

  def fitted(self: Self, data: Sequence[Kept]) -> Self:
    """The feature with what it takes from the data that is trained on.

    Args:
      data: its values in queries and in passages.

    Raises:
      ValueError: these are no values to train with.
    """
    del data
    return self

  @abc.abstractmethod
  def for_model(self, vocabulary: tuple[str, ...]) -> ModelValues:
    """What makes a model's input of values with that vocabulary."""

  def facts(self) -> dict[str, Any]:
    """As json, what `fitted` took from the data."""
    return {}

  def with_facts(self: Self, facts: Mapping[str, Any]) -> Self:
    """The feature with what `facts` gave."""
    return dataclasses.replace(self, **facts)

  def to_json(self) -> dict[str, Any]:
    """As json."""
    return {'feature': self.text, **self.facts()}

  def keep(self, values: Sequence[Any]) -> Kept:
    """Values as records have them; None: there is none.

    Raises:
      ValueError: as `read`.
    """
    kept = np.zeros((len(values), self.columns), self.dtype)
    vocabulary: dict[str, int] = {}
    for row, value in enumerate(values):
      if value is not None:
        kept[row] = self.read(value, vocabulary)
    return Kept(kept, tuple(vocabulary))


def is_number(value: Any) -> bool:
  """Whether json or Python has it as a number; True and False are none."""
  return isinstance(value, (int, float)) and not isinstance(value, bool)


def shown(value: Any) -> str:
  """A value for a message."""
  text = repr(value)
  return text if len(text) <= 60 else f'{text[:57]}...'
