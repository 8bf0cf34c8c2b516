"""Files of this disk that stand for objects of buckets, and how many stay.

`PLACE/copies/gs/BUCKET/KEY` is a copy of `gs://BUCKET/KEY`, and also where
files are written before they are put there. A copy has a note in
`PLACE/notes`: which version of the object it is. What has no note is not in the
bucket yet, and is never removed to make room.
"""

import contextlib
import json
import os
import pathlib
import threading
import time

from neg_contrast import errors
from neg_contrast.artifacts import buckets

_PLACE, _GIGABYTES = 'NEG_CONTRAST_CACHE', 'NEG_CONTRAST_CACHE_GB'
_DEFAULT_GIGABYTES = 100.0
_NOTE = '.~note'  # Ends the names of notes: one may begin the name of another.
_FRESH_SECONDS = 60.0  # What was just fetched is about to be opened.
_since_count: list[int] = [0]  # Bytes that came since all were counted.
_lock = threading.Lock()


def place() -> pathlib.Path:
  """The folder of all copies."""
  given = os.environ.get(_PLACE)
  if given:
    return pathlib.Path(given).expanduser().absolute()
  caches = os.environ.get('XDG_CACHE_HOME') or '~/.cache'
  return pathlib.Path(caches).expanduser() / 'neg_contrast'


def most_bytes() -> int:
  """What copies may take together.

  Raises:
    UserError: NEG_CONTRAST_CACHE_GB is no positive number.
  """
  given = os.environ.get(_GIGABYTES) or str(_DEFAULT_GIGABYTES)
  try:
    size = float(given)
  except ValueError:
    size = 0.0
  if not size > 0:
    raise errors.UserError(
        f'{_GIGABYTES}={given!r}: must be a positive number of gigabytes')
  return int(size * 1e9)


def copy_of(address: str) -> pathlib.Path:
  """The file or folder that stands for an address; need not be there.

  Raises:
    UserError: the address leads out of its bucket.
  """
  return place() / 'copies' / _key(address)


def address_of(copy: pathlib.Path) -> str | None:
  """What a file or folder stands for; None: it is no copy."""
  copies = place() / 'copies'
  if not copy.is_relative_to(copies):
    return None
  scheme, _, key = copy.relative_to(copies).as_posix().partition('/')
  return f'{scheme}://{key}'


def current(address: str) -> pathlib.Path:
  """The copy of an object, fetched unless it is here already.

  Where there is no object, what was written here and not put there yet stays.

  Raises:
    UserError: the object can't be fetched.
  """
  copy, note = copy_of(address), _note_of(address)
  there = buckets.look(address)
  if there is None or there.is_folder:
    if there is None and note.exists():  # It was removed by someone.
      copy.unlink(missing_ok=True)
      note.unlink(missing_ok=True)
    copy.parent.mkdir(parents=True, exist_ok=True)
    return copy
  if _read(note) == _facts(there, copy):
    note.touch()
    return copy
  try:
    _fetch(address, copy)
    note_of_copy(address, there)
  except FileNotFoundError:
    raise errors.UserError(
        f'{address}: was removed while it was fetched; the same command starts '
        'again'
    ) from None
  except OSError as e:
    raise errors.UserError(
        f'{address}: no copy could be kept in {place()} ({e.strerror or e}). '
        f'Make room, or name another folder with {_PLACE}'
    ) from e
  return copy


def _fetch(address: str, copy: pathlib.Path) -> None:
  """Copies an object to its place, whole or not at all."""
  copy.parent.mkdir(parents=True, exist_ok=True)
  coming = copy.with_name(
      f'.{copy.name}.{os.getpid()}.{threading.get_ident()}.coming')
  try:
    buckets.fetch(address, coming)
    os.replace(coming, copy)
  finally:
    coming.unlink(missing_ok=True)


def note_of_copy(address: str, there: buckets.Found) -> None:
  """Says that the copy is what lies at the address, and makes room."""
  note = _note_of(address)
  note.parent.mkdir(parents=True, exist_ok=True)
  partial = note.with_name(f'{note.name}.{os.getpid()}.{threading.get_ident()}')
  partial.write_text(json.dumps(_facts(there, copy_of(address))))
  os.replace(partial, note)
  _make_room(there.size)


def forget(address: str) -> None:
  """Removes a copy, if there is one."""
  copy_of(address).unlink(missing_ok=True)
  _note_of(address).unlink(missing_ok=True)


def _key(address: str) -> str:
  scheme, _, key = address.partition('://')
  parts = key.split('/')
  if '..' in parts or '' in parts[:-1]:
    raise errors.UserError(f'{address}: write it without empty names and ..')
  return f'{scheme}/{key}'.rstrip('/')


def _note_of(address: str) -> pathlib.Path:
  return place() / 'notes' / (_key(address) + _NOTE)


def _facts(there: buckets.Found, copy: pathlib.Path) -> list[str | int] | None:
  """The version, and the copy as it is; None where there is no such copy."""
  try:
    stat = copy.stat()
  except FileNotFoundError:
    return None
  if stat.st_size != there.size:
    return None
  return [there.version, stat.st_size, stat.st_mtime_ns]


def _read(note: pathlib.Path) -> list[str | int]:
  try:
    return json.loads(note.read_text())
  except (OSError, ValueError):
    return []


def _make_room(size: int) -> None:
  """Removes the copies that were not used for longest, where there are more."""
  most = most_bytes()
  with _lock:
    _since_count[0] += size
    if _since_count[0] < most // 20:
      return
    _since_count[0] = 0
  notes = []
  for note in (place() / 'notes').rglob(f'*{_NOTE}'):
    known = _read(note)
    with contextlib.suppress(FileNotFoundError):  # Another program made room.
      if len(known) == 3:
        notes.append((note.stat().st_mtime, int(known[1]), note))
  total = sum(size for _, size, _ in notes)
  for used, size, note in sorted(notes):
    if total <= most or used > time.time() - _FRESH_SECONDS:
      return
    key = note.relative_to(place() / 'notes').as_posix().removesuffix(_NOTE)
    (place() / 'copies' / key).unlink(missing_ok=True)
    note.unlink(missing_ok=True)
    total -= size
