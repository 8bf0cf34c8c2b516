"""Json files of other libraries, read key by key, each value checked."""

import pathlib
from collections.abc import Mapping
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import folders

REMEDY = 'copy or download the folder again'
_MOST_INTEGER = 2**31 - 1  # Of a shape or an id: more is damage.
_MOST_NUMBER = 3e38  # Of a float32.
_NEEDED: Any = object()


class JsonObject:
  """The object in a json file; errors name the file, the key and a remedy.

  A key whose value is null counts as missing.

  Attributes:
    path: of the file.
    values: by key, as they were read.
  """

  def __init__(self, path: pathlib.Path, values: Mapping[str, Any]):
    """Takes values over.

    Args:
      path: where they come from, for messages.
      values: of the object.
    """
    self.path, self.values = path, values

  def has(self, key: str) -> bool:
    """Whether there is a value."""
    return self.values.get(key) is not None

  def integer(
      self, key: str, default: Any = _NEEDED, least: int = -_MOST_INTEGER
  ) -> Any:
    """A whole number from `least` to 2**31 - 1; raises as `text`."""
    value = self._of_type(key, int, default, 'is no whole number')
    if value is not default and not least <= value <= _MOST_INTEGER:
      raise self.error(f'{key}={value} is out of range')
    return value

  def number(self, key: str, default: Any = _NEEDED) -> Any:
    """A number that a float32 can hold; raises as `text`."""
    value = self._of_type(key, (int, float), default, 'is no number')
    if value is not default and not abs(value) <= _MOST_NUMBER:  # NaN is not.
      raise self.error(f'{key}={value} is out of range')
    return value

  def flag(self, key: str, default: Any = _NEEDED) -> Any:
    """True or false; raises as `text`."""
    return self._of_type(key, bool, default, 'is neither true nor false')

  def text(self, key: str, default: Any = _NEEDED) -> Any:
    """A string.

    Args:
      key: of the value.
      default: where the key is missing; left out: that is an error.

    Raises:
      UserError: the key is missing, or its value has another type.
    """
    return self._of_type(key, str, default, 'is no text')

  def object(self, key: str) -> 'JsonObject':
    """An object in this one; empty where the key is missing."""
    return JsonObject(
        self.path, self._of_type(key, dict, {}, 'is no json object')
    )

  def error(self, problem: str) -> errors.UserError:
    """An error that names the file and what to do."""
    return errors.UserError(f'{self.path}: {problem}; {REMEDY}')

  def _of_type(self, key, kind, default, problem):
    value = self.values.get(key)
    if value is None:
      if default is _NEEDED:
        raise self.error(f'key {key!r} is missing')
      return default
    if not isinstance(value, kind) or (
        isinstance(value, bool) and kind is not bool
    ):
      raise self.error(f'{key}={_short(value)} {problem}')
    return value


def read(path: pathlib.Path) -> JsonObject:
  """Reads a json file that holds an object.

  Raises:
    UserError: it is missing, no json, or holds something else.
  """
  values = folders.read_json(path)
  if not isinstance(values, dict):
    raise errors.UserError(
        f'{path}: holds {_short(values)} and no json object; {REMEDY}'
    )
  return JsonObject(path, values)


def read_if_there(path: pathlib.Path) -> JsonObject:
  """As `read`; empty where there is no such file."""
  return read(path) if path.exists() else JsonObject(path, {})


def _short(value: Any) -> str:
  text = repr(value)
  return text if len(text) <= 60 else text[:57] + '...'
