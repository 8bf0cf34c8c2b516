"""How a key of the config is declared, checked, and counted for identity.

    @dataclasses.dataclass(frozen=True)
    class DataConfig(keys.Section):
      section = 'data'
      batch_size: int = keys.key(64, keys.at_least(2))
      prepared_dir: str = keys.key('workdirs/prepared', counts=False)

All that is to be known of a key stands in that line; its meaning stands in the
class's docstring. A rule that several keys share goes into `__post_init__`.
"""

import dataclasses
import functools
import importlib
import math
import numbers
import re
import types
import typing
from collections.abc import Callable
from typing import Any, ClassVar

from neg_contrast import errors

_METADATA = 'key'


@dataclasses.dataclass(frozen=True)
class Range:
  """The values that a key may have; None, where it is allowed, always fits.

  Attributes:
    holds: value -> whether it may be.
    rule: what the error says of another value.
    text: the range in the reference of keys.
  """

  holds: Callable[[Any], bool]
  rule: str
  text: str


def at_least(least: float) -> Range:
  """From `least` on."""
  return Range(lambda value: value >= least, f'must be at least {least}',
               f'≥ {least}')


def at_least_or(least: float, other: float) -> Range:
  """From `least` on, or a value with a meaning of its own."""
  return Range(lambda value: value >= least or value == other,
               f'must be at least {least}', f'≥ {least}, or {other}')


def even(least: int) -> Range:
  """Even numbers from `least` on."""
  return Range(lambda value: value >= least and value % 2 == 0,
               f'must be even, and at least {least}', f'even, ≥ {least}')


def above(bound: float) -> Range:
  """Above `bound`."""
  return Range(lambda value: value > bound, f'must be above {bound}',
               f'> {bound}')


def from_to(least: float, most: float) -> Range:
  """From `least` to `most`, both included."""
  return Range(lambda value: least <= value <= most,
               f'lies between {least} and {most}', f'[{least}, {most}]')


def between(low: float, high: float) -> Range:
  """Between `low` and `high`, both excluded."""
  return Range(lambda value: low < value < high,
               f'lies between {low} and {high}', f'({low}, {high})')


def at_least_below(least: float, bound: float) -> Range:
  """From `least` on, and below `bound`."""
  return Range(lambda value: least <= value < bound,
               f'must be at least {least} and below {bound}',
               f'[{least}, {bound})')


def above_at_most(bound: float, most: float) -> Range:
  """Above `bound`, up to `most`."""
  return Range(lambda value: bound < value <= most,
               f'must be above {bound} and at most {most}',
               f'({bound}, {most}]')


@dataclasses.dataclass(frozen=True)
class Table:
  """A table of a room above this one, whose names are values of keys.

  It is looked up when a value is checked, not when this room is imported: so a
  line in the table is all that a new strategy, loss or pretext takes.

  Attributes:
    module: that holds it.
    attribute: its name there; a mapping of names.
  """

  module: str
  attribute: str

  @property
  def names(self) -> tuple[str, ...]:
    """The names, in the order of the table."""
    return tuple(getattr(
        importlib.import_module(f'neg_contrast.{self.module}'), self.attribute
    ))


@dataclasses.dataclass(frozen=True)
class OneOf:
  """A `Range` of names; see `one_of`."""

  known: tuple[str | Table, ...]

  @property
  def names(self) -> tuple[str, ...]:
    """All of them, each once."""
    return tuple(dict.fromkeys(name for one in self.known for name in (
        one.names if isinstance(one, Table) else (one,)
    )))

  @property
  def rule(self) -> str:
    """What the error says of another value."""
    return f'must be one of {", ".join(self.names)}'

  @property
  def text(self) -> str:
    """The range in the reference of keys."""
    return ', '.join(f'`{name}`' if name else 'empty' for name in self.names)

  def holds(self, value: Any) -> bool:
    """Whether a key may have the value."""
    return value in self.names


def one_of(*known: str | Table) -> OneOf:
  """One of some names, those of tables included."""
  return OneOf(known)


def readable() -> Range:
  """Text that a model reads; of places, other bytes than UTF-8 do as well."""
  return Range(lambda value: value == value.encode('utf-8', 'replace').decode(),
               'must be text; it holds bytes that are no UTF-8', 'UTF-8')


def matching(pattern: str, text: str) -> Range:
  """Text of a form.

  Args:
    pattern: regular expression of all of the text.
    text: the form, in words.
  """
  return Range(lambda value: re.fullmatch(pattern, value) is not None,
               f'must be {text}', text)


@dataclasses.dataclass(frozen=True)
class Where:
  """A condition on other keys of the section.

  Attributes:
    text: the condition in the reference of keys, after "if".
    holds: section -> whether it holds.
  """

  text: str
  holds: Callable[[Any], bool]


@dataclasses.dataclass(frozen=True)
class OfJobs(Where):
  """A condition on the config that the key lies in; see `jobs`."""


def jobs(*names: str) -> OfJobs:
  """The condition that `job` is one of these."""
  return OfJobs(f'`job` is {" or ".join(names)}',
                lambda config: config.job in names)


@dataclasses.dataclass(frozen=True)
class Changed:
  """The condition that a key has another value than its default.

  For keys whose default is what was done before there was the key: models that
  were trained then stay the same models.
  """


@dataclasses.dataclass(frozen=True)
class Key:
  """What is declared of a key besides its type and default.

  Attributes:
    allowed: range of its value; None: any.
    each: range of every item, where the value is a tuple; None: any.
    counts: whether the parameters of a trained model depend on it, so that it
      is a part of the model's identity.
    read: where anything reads it; None: everywhere, or its rule is another's.
  """

  allowed: Range | OneOf | None = None
  each: Range | OneOf | None = None
  counts: bool | Where | Changed = True
  read: Where | None = None


def key(
    default: Any, allowed: Range | OneOf | None = None, *,
    each: Range | OneOf | None = None, counts: bool | Where | Changed = True,
    read: Where | None = None,
) -> Any:
  """Declares a key; arguments as the attributes of `Key`.

  A key does not count if it changes no result, or its last bits only, or if the
  identity holds it already: in the fingerprint of the data, of the first
  checkpoint, or of the pool.
  """
  return dataclasses.field(
      default=default, metadata={_METADATA: Key(allowed, each, counts, read)}
  )


def section(
    cls: type, *, counts: bool | Where = True, read: Where | None = None
) -> Any:
  """Declares a key that holds a section.

  Args:
    cls: of the section.
    counts: whether any key of the section may count.
    read: as of `Key`, of all its keys.
  """
  return dataclasses.field(
      default_factory=cls, metadata={_METADATA: Key(counts=counts, read=read)}
  )


def declared(field: dataclasses.Field) -> Key:
  """What is declared of the key that a dataclass field is."""
  return field.metadata[_METADATA]


class Section:
  """Frozen dataclasses of keys; ranges are checked when one is made.

  Attributes:
    section: its key in the config; empty: it is the config.
  """

  section: ClassVar[str] = ''

  def __post_init__(self):
    """Checks the range of every key.

    Raises:
      SettingError: a value is out of its range.
    """
    for field in dataclasses.fields(typing.cast(Any, self)):
      allowed, each = declared(field).allowed, declared(field).each
      value = getattr(self, field.name)
      if allowed is not None and value is not None and (
          not allowed.holds(value)
      ):
        raise self.error(field.name, allowed.rule)
      if each is not None:
        for item in value:
          if not each.holds(item):
            raise errors.SettingError(self._path(field.name), item, each.rule)

  def error(self, name: str, rule: str) -> errors.SettingError:
    """The error of a key, to be raised.

    Args:
      name: of the key, below this section.
      rule: what its value breaks, and the remedy.
    """
    value = functools.reduce(getattr, name.split('.'), self)
    return errors.SettingError(self._path(name), value, rule)

  def _path(self, name: str) -> str:
    return f'{self.section}.{name}' if self.section else name


def counting(section: Any) -> dict[str, Any]:
  """The keys that a trained model's parameters depend on, with their values.

  Args:
    section: a section, or the whole config.
  """
  values = {}
  for field in dataclasses.fields(section):
    counts = declared(field).counts
    if isinstance(counts, Where):
      counts = counts.holds(section)
    elif isinstance(counts, Changed):
      counts = getattr(section, field.name) != field.default
    if counts:
      value = getattr(section, field.name)
      if isinstance(value, dict):
        value = {name: counting(one) for name, one in value.items()}
      values[field.name] = (
          counting(value) if dataclasses.is_dataclass(value) else value
      )
  return values


_TYPES: dict[Any, tuple[type, str, str]] = {
    bool: (bool, 'True or False', 'truth values'),
    int: (numbers.Integral, 'a whole number', 'whole numbers'),
    float: (numbers.Real, 'a number', 'numbers'),
    str: (str, 'a string', 'strings'),
}  # Type in Python, its name, and the name of several.


_WRITTEN = ('workdir', 'data.prepared_dir', 'negatives.mined_dir',
            'synthetic.dir')


def check_type(name: str, value: Any, annotation: Any) -> None:
  """Refuses a value of another type than its key is declared with.

  Args:
    name: section and key.
    value: of the key.
    annotation: its declared type: `int`, `float` (which takes whole numbers
      too), `bool`, `str`, a tuple of one of these, or one of these or None.

  Raises:
    SettingError: the value does not fit.
  """
  may_be_none = isinstance(annotation, types.UnionType)
  if may_be_none:
    annotation = plain_type(annotation)
    if value is None:
      return
  if typing.get_origin(annotation) is tuple:
    item = typing.get_args(annotation)[0]
    fits = isinstance(value, tuple) and all(_fits(one, item) for one in value)
    noun = f'a tuple of {_TYPES[item][2]}'
  else:
    fits, noun = _fits(value, annotation), _TYPES[annotation][1]
  if may_be_none:
    noun = f'{noun.replace(" or", ",")} or None'
  if not fits:
    raise errors.SettingError(name, value, f'must be {noun}')
  for one in value if isinstance(value, tuple) else (value,):
    if isinstance(one, float) and not math.isfinite(one):
      raise errors.SettingError(name, value, 'must be finite')
    problem = isinstance(one, str) and errors.bucket_problem(
        one, is_written=name in _WRITTEN)
    if problem:
      raise errors.SettingError(name, value, problem)


def plain_type(annotation: Any) -> Any:
  """`int` of `int | None`."""
  if isinstance(annotation, types.UnionType):
    return next(t for t in typing.get_args(annotation) if t is not type(None))
  return annotation


def _fits(value: Any, annotation: Any) -> bool:
  is_truth = isinstance(value, bool)
  return isinstance(value, _TYPES[annotation][0]) and (
      is_truth == (annotation is bool)
  )
