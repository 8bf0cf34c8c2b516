"""Mistakes of users, and how their messages name keys of the config.

A config may hold other configs (`stage1`, `generator`, `cells`). Code that
reads an inner one knows nothing of the outer one; `within` says where it lies,
and `key` then names its keys as a flag would set them.
"""

import contextlib
import contextvars
import re
from collections.abc import Iterator
from typing import Any

from neg_contrast import terminal

_PLACE: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar(
    'place', default=()
)

_NOTE = '\t'
"""In a place, between its key and its note; see `within`."""

_SETS = 'mixture.sets.'  # Keys of sets are those of `data`, without sections.


class UserError(Exception):
  """Bad input, config or environment: something the user can put right.

  `main` prints the message alone, without a traceback, and exits with 2. The
  message names the place (file, line, key or id) and the remedy. As text it is
  bounded, and holds no character that steers a terminal.
  """

  def __str__(self) -> str:
    return terminal.clean(terminal.bounded(super().__str__()))

  def _render_traceback_(self) -> list[str]:
    """What notebooks show of it, in lines; IPython asks for this."""
    return [f'error: {self}']


class Unreached(UserError):
  """A connection that fails: the same again may succeed."""


class SettingError(UserError):
  """A key of the config has a value that it can't have.

  Attributes:
    key: as `key` names it.
    value: the refused value.
    rule: what the value breaks, and the remedy.
  """

  def __init__(self, name: str, value: Any, rule: str):
    """Names the key by where the config lies now; see `within`.

    Args:
      name: section and key, such as `data.source`.
      value: of the key.
      rule: the rest of the message.
    """
    self.key, self.value, self.rule = key(name), value, rule
    super().__init__(f'{self.key}={value!r}: {rule}')


_BUCKET = re.compile(r'(?:\w+:)?(?P<scheme>hf|az|abfs)://')


def bucket_problem(place: str, is_written: bool = False) -> str | None:
  """What is wrong with a place in a bucket; None: nothing, or it is in none.

  Args:
    place: path or source, such as `s3://BUCKET/data` or `beir:hf://datasets/...`.
    is_written: whether anything is written to it, and not only read.
  """
  bucket = _BUCKET.match(place)
  if bucket is None or (bucket['scheme'] == 'hf' and not is_written):
    return None
  if bucket['scheme'] == 'hf':
    return 'hf:// is read only; name a place on a disk, in gs:// or in s3://'
  return ('of buckets, those of gs:// and s3:// are read and written, hf:// is '
          'read; mount this one or copy it, and name that folder')


def key(name: str, is_of_set: bool = True) -> str:
  """A key as messages and flags name it, such as `config.stage1.data.source`.

  Args:
    name: section and key, such as `data.source`; of one of several data sets
      that is `config.mixture.sets.NAME.source`.
    is_of_set: whether each of several data sets has such a key of `data`.
  """
  places = [place.partition(_NOTE)[0] for place in _PLACE.get()]
  if places and places[-1].startswith(_SETS):
    section, _, rest = name.rpartition('.')
    if section == 'data' and is_of_set:
      name = rest
    elif section:  # All sets have that in common.
      del places[-1]
  return '.'.join(('config', *filter(None, places), name))


def flag(name: str) -> str:
  """A flag beside `--config` that an inner config holds as a key.

  Args:
    name: such as `workdir`.

  Returns:
    `--workdir`, or `--config.stage1.workdir`; cells lie in the workdir of their
    table, data sets of a mixture in that of the training.
  """
  inner = _PLACE.get()[-1].partition(_NOTE)[0] if _PLACE.get() else ''
  is_own = inner and not inner.startswith(('cells.', _SETS))
  return f'--{key(name)}' if is_own else f'--{name}'


def place() -> tuple[str, ...]:
  """Where the config lies that is read now, from the outermost in."""
  return _PLACE.get()


def label(where: str) -> str:
  """Where a config lies, in a few letters.

  Args:
    where: one of `place`.
  """
  if where == 'stage1':
    return 'stage 1'
  name, _, note = where.partition(_NOTE)
  shown = re.sub(r'^(cells|mixture\.sets)\.', '', name).replace('.', '-')
  return ' '.join(filter(None, (shown, note)))


@contextlib.contextmanager
def at(where: tuple[str, ...]) -> Iterator[None]:
  """What runs inside reads the config that lies where `place` once said."""
  token = _PLACE.set(where)
  try:
    yield
  finally:
    _PLACE.reset(token)


@contextlib.contextmanager
def within(name: str, note: str = '') -> Iterator[None]:
  """What runs inside reads the config that lies at a key of the outer config.

  Args:
    name: of that key, such as `stage1` or `cells.none.bm25`; empty: no key
      holds it.
    note: what tells it from others of that key, such as `seed 1`; plans show
      it, and keys in messages do not.
  """
  with at((*_PLACE.get(), f'{name}{_NOTE}{note}' if note else name)):
    yield
