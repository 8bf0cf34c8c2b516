"""What to say of keys that a command sets, and that nothing in it reads."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from absl import logging

from neg_contrast import errors
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import keys


def warn(config: config_lib.Config, given: Iterable[str]) -> None:
  """Warns of each that changes nothing.

  A key at the top of a study or a table is left alone: the rows that do not set
  it have it from there. So are negatives of a mixture.

  Args:
    config: checked.
    given: keys that flags, a sweep or arguments set, with their sections, and
      with the configs that they lie in.
  """
  for name in given:
    where = _unread(config, name.split('.'))
    if where is not None:
      logging.warning('%s: changes nothing here; it is read if %s',
                      errors.key(name), where.text)


def _unread(
    section: Any, path: list[str], config: Any = None
) -> keys.Where | None:
  """The condition that is lacking, on the way down to a key.

  Args:
    section: that the key lies in, a config, or a table of some.
    path: of the key below it.
    config: that the section lies in.
  """
  first, *rest = path
  if isinstance(section, dict):
    return _unread(section[first], rest, config)
  if isinstance(section, config_lib.Config):
    config = section
    if config.cells is not None and first != 'cells':
      return None
    if config.mixture.sets and first == 'negatives':
      return None  # Each set may name its own.
  fields = {field.name: field for field in dataclasses.fields(section)}
  read = keys.declared(fields[first]).read
  if read is not None and not read.holds(
      config if isinstance(read, keys.OfJobs) else section
  ):
    return read
  return _unread(getattr(section, first), rest, config) if rest else None
