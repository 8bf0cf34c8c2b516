"""What to say of a key that there is not."""

import dataclasses
import difflib
import re
from collections.abc import Iterable, Sequence

from neg_contrast import errors
from neg_contrast.settings import mixture_settings

_SOURCES = (
    "what negatives are drawn from is negatives.sources now, such as "
    "('bm25:1','context:1') for one of each"
)
_GONE = {f'negatives.{name}': _SOURCES for name in (
    'strategy', 'per_query', 'members', 'quotas', 'shared_corpus', 'queue'
)}
_FLAG = re.compile(r'--?config\.([^=]+)(?:=.*)?', re.DOTALL)
_SETS = 'mixture.sets.'
_ALIKE = re.compile(r'\'([^\']*)\'\nDid you mean "([^"]*)" instead of .*')
_UNKNOWN = re.compile(r"Unknown command line flag '([^']*)'")
_NO_VALUE = tuple((re.compile(rf'(flag .*): {said}', re.DOTALL), remedy)
                  for said, remedy in (
    (r"\('Non-boolean argument to boolean flag', .*\)", 'True or False'),
    (r'invalid literal for int\(\) .*', 'a whole number'),
    (r'could not convert string to float: .*', 'a number'),
))
_SECTION = re.compile(
    r"(flag --config\.([^=]+)=.*): Failed to parse '.*' as a ConfigDict: .*",
    re.DOTALL)
_LACKED = re.compile(
    r'Override (\S+) can not be applied because field "(\w+)" is None, .*',
    re.DOTALL)
_INNER = re.compile(r'(?:(?:stage1|generator|cells\.[^.]+\.[^.]+)\.)*')


def hint(key: str, known: Iterable[str]) -> str:
  """`; ` and the remedy; nothing where there is none.

  Args:
    key: with its section, and with the configs that it lies in.
    known: keys that there are in its place, named alike.
  """
  inner, known = _inner(key), [*known]
  if inner and not any(name.startswith(inner) for name in known):
    return f'; {_lack(inner[:-1])}'
  gone = _GONE.get(key[len(inner):])
  if gone:
    return f'; {gone}'
  close = _nearest(key, known)
  return f'; did you mean {close[0]}?' if close not in ([], [key]) else ''


def check_flags(arguments: Sequence[str], known: Sequence[str]) -> None:
  """Refuses flags `--config.KEY` of keys that there are not.

  Args:
    arguments: of the command.
    known: keys of a config with their sections; configs that it may hold have
      the same.

  Raises:
    UserError: names the key, and the nearest or the remedy.
  """
  sections = {name.rpartition('.')[0] for name in known}
  for argument in arguments:
    match = _FLAG.fullmatch(argument)
    if not match:
      continue
    inner = _inner(match[1])
    key = match[1][len(inner):]
    if key.startswith(_SETS):
      _check_set(inner, key)
    elif key and key not in known and key not in sections:
      raise errors.UserError(
          f'config.{match[1]}: no such key'
          + hint(match[1], (inner + name for name in known))
      )


def _check_set(inner: str, key: str) -> None:
  """Refuses a key that no data set has; one of a set that is not there stays.
  """
  name, _, last = key.removeprefix(_SETS).partition('.')
  fields = [field.name for field in dataclasses.fields(
      mixture_settings.SetConfig)]
  if last and last not in fields:
    close = _nearest(last, fields)
    raise errors.UserError(f'config.{inner}{key}: no such key' + (
        f'; did you mean {_SETS}{name}.{close[0]}?' if close else ''))


def say_plainly(message: str, known: Sequence[str]) -> str:
  """What absl says of a flag, with the remedy.

  Args:
    message: of absl's error.
    known: as in `check_flags`.
  """
  for pattern, remedy in _NO_VALUE:
    if match := pattern.fullmatch(message):
      return f'{match[1]}: write {remedy}'
  if match := _SECTION.fullmatch(message):
    inner = _inner(match[2])
    section = match[2][len(inner):]
    inside = next((name for name in known if name.startswith(f'{section}.')),
                  '')
    return f'{match[1]}: ' + (
        f'it holds keys, such as --config.{inner}{inside}=VALUE' if inside else
        'it is a config, which the config file sets')
  if match := _ALIKE.fullmatch(message):
    return f'config: no such key: {match[1]}; did you mean {match[2]}?'
  if match := _LACKED.fullmatch(message):
    return f'config.{match[1]}: {_lack(match[2])}'
  match = _UNKNOWN.fullmatch(message)
  if match is None or '.' not in match[1]:
    return message
  start, _, key = match[1].partition('.')
  alike = difflib.get_close_matches(key, known, 1)
  is_config = alike and difflib.get_close_matches(start, ['config'])
  return message + (f'; did you mean --config.{alike[0]}?' if is_config else '')


def _lack(name: str) -> str:
  """Says that a config holds none of this name, and the remedy."""
  argument = '' if name.startswith('cells') or name == 'sets' else (
      f', or an argument of its file, where it takes one: FILE:{name}=NAME')
  return f'this config has no {name}; choose one that has{argument}'


def _nearest(key: str, known: Sequence[str]) -> list[str]:
  """The key that is meant: by the initials of its words, or spelled alike."""
  section, dot, name = key.rpartition('.')
  start = section + dot
  short = [one for one in known if one.startswith(start) and name == ''.join(
      word[:1] for word in one.removeprefix(start).split('_'))]
  return short[:1] or difflib.get_close_matches(key, known, 1)


def _inner(key: str) -> str:
  """The places of a key in front of its section, such as `stage1.`."""
  match = _INNER.match(key)
  return match[0] if match else ''
