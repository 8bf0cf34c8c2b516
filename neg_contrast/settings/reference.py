"""Writes the reference of keys from what their declarations say.

    python -m neg_contrast.settings.reference > configs/KEYS.md
"""

import dataclasses
import inspect
import re
import types
import typing
from typing import Any

from neg_contrast.settings import config as config_lib
from neg_contrast.settings import keys

_TITLE = """\
# Every key of a config

Made by `python -m neg_contrast.settings.reference > configs/KEYS.md`; a test
compares. A key is set by `--config.SECTION.KEY=VALUE`, in a config within
another by its place in front: `--config.stage1.optim.steps=100`.

*Counts* says whether the identity of a trained model holds the key: a workdir
that was trained with another value is refused. Other keys change no result, or
its last bits only, or the identity holds what they lead to: the fingerprint of
the data, of the first checkpoint, or of the pool.
"""
_HEAD = """\
| key | default | type, range | counts | meaning |
| --- | --- | --- | --- | --- |
"""
_CONFIGS = {'stage1': 'config', 'generator': 'config',
            'cells': 'configs by group and name',
            'sets': 'data sets by name'}


def reference() -> str:
  """The reference of all keys, as markdown."""
  parts = [_TITLE, _section('Top level', config_lib.Config)]
  for field in _fields(config_lib.Config):
    if dataclasses.is_dataclass(field.type):
      parts.append(_section(
          f'`{field.name}`', typing.cast(type, field.type),
          may_count=keys.declared(field).counts is not False,
      ))
      if field.type is config_lib.MixtureConfig:
        parts.append(_section('`mixture.sets.NAME`', config_lib.SetConfig))
  return '\n'.join(parts)


def meanings(cls: type) -> dict[str, str]:
  """Key -> its meaning, from the docstring of a section.

  Args:
    cls: of the section; its docstring has a part "Attributes:".
  """
  _, _, attributes = _docstring(cls).partition('Attributes:\n')
  entries = re.split(r'^  (?=\w)', attributes, flags=re.MULTILINE)
  found = {}
  for entry in filter(str.strip, entries):
    name, _, text = entry.partition(':')
    found[name.strip()] = ' '.join(text.split())
  return found


def _section(title: str, cls: type, may_count: bool = True) -> str:
  """A heading, what the section is, and a row for each of its keys."""
  summary = _docstring(cls).partition('Attributes:')[0].strip()
  said = meanings(cls)
  rows = [
      _row(field, said[field.name], may_count) for field in _fields(cls)
      if not dataclasses.is_dataclass(field.type)
  ]
  return f'## {title}\n\n{summary}\n\n{_HEAD}{"".join(rows)}'


def _row(field: dataclasses.Field, meaning: str, may_count: bool) -> str:
  declared = keys.declared(field)
  counts: str = 'no'
  if may_count and isinstance(declared.counts, keys.Where):
    counts = f'if {declared.counts.text}'
  elif may_count and isinstance(declared.counts, keys.Changed):
    counts = 'if changed'
  elif may_count and declared.counts:
    counts = 'yes'
  allowed = [_type(field)]
  if declared.allowed is not None:
    allowed.append(declared.allowed.text)
  if declared.each is not None:
    of = 'one of ' * isinstance(declared.each, keys.OneOf)
    allowed.append(f'each {of}{declared.each.text}')
  cells = (f'`{field.name}`', _default(field.default), ', '.join(allowed),
           counts, meaning)
  return '| ' + ' | '.join(cell.replace('|', r'\|') for cell in cells) + ' |\n'


def _default(value: Any) -> str:
  return f'`{value!r}`' if value != '' else 'empty'


def _type(field: dataclasses.Field) -> str:
  if field.name in _CONFIGS:
    return f'{_CONFIGS[field.name]}, or None'
  plain = keys.plain_type(field.type)
  name = getattr(plain, '__name__', str(plain))
  if typing.get_origin(plain) is tuple:
    name = f'tuple of {typing.get_args(plain)[0].__name__}'
  return name + (' or None' if isinstance(field.type, types.UnionType) else '')


def _docstring(cls: type) -> str:
  return inspect.getdoc(cls) or ''


def _fields(cls: type) -> tuple[dataclasses.Field, ...]:
  return dataclasses.fields(typing.cast(Any, cls))


if __name__ == '__main__':
  print(reference(), end='')
