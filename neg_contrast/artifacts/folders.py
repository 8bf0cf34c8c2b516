"""Folders that explain themselves: a manifest, written last and atomically.

A folder without `manifest.json` is unfinished and is made again; but one that
is filled part by part has its manifest from the start, as `unfinished.json`.

The manifest holds the checksums of all files that were there when it was
written, the format of the folder, and a checksum of its own content. A file
that is added later (a part) has its checksums beside it, see `add_file`.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import threading
from collections.abc import Iterator
from typing import Any, TextIO

from absl import logging

from neg_contrast import errors
from neg_contrast.artifacts import bucket_turns, checksums, failures, places

MANIFEST = 'manifest.json'
UNFINISHED = 'unfinished.json'
SEAL = '.checksums.json'  # Ends the name of the checksums of a part.
_CHECKSUMS, _FORMAT = 'checksums', 'format'  # Keys of a manifest.
_held: set[tuple[pathlib.Path, int]] = set()  # Locks, and their threads.
_VERSIONED = ('jax', 'jaxlib', 'flax', 'optax', 'orbax-checkpoint', 'numpy')


def write_json(path: pathlib.Path, value: Any) -> None:
  """Writes `value` as indented json; readers never see half a file.

  Raises:
    UserError: the file can't be written; an older one stays.
  """
  with (
      failures.while_writing(path), places.replacing(path) as partial,
      open(partial, 'w', encoding='utf-8') as f,
  ):
    json.dump(value, f, indent=1, ensure_ascii=False)
    f.write('\n')
    f.flush()
    os.fsync(f.fileno())


def read_json(path: pathlib.Path) -> Any:
  """Reads a json file.

  Raises:
    UserError: the file is missing or not json, naming the line.
  """
  try:
    return json.loads(path.read_text(encoding='utf-8'))
  except FileNotFoundError:
    raise errors.UserError(f'{path}: no such file') from None
  except OSError as e:
    raise errors.UserError(f'{path}: {e.strerror}') from None
  except json.JSONDecodeError as e:
    raise errors.UserError(f'{path}:{e.lineno}: not valid json: {e}') from None
  except UnicodeDecodeError as e:
    raise errors.UserError(f'{path}: not UTF-8 ({e.reason})') from None
  except (RecursionError, ValueError) as e:  # Nested or numbers too long.
    raise errors.UserError(f'{path}: not valid json ({e})') from None


def write_sealed(path: pathlib.Path, value: dict[str, Any]) -> None:
  """`write_json` with a checksum of the content in it."""
  write_json(path, checksums.sealed(value))


def read_sealed(
    path: pathlib.Path, folder: pathlib.Path | None = None
) -> dict[str, Any]:
  """The content of a file that `write_sealed` wrote.

  Args:
    path: of the file.
    folder: to remove if the file is damaged; default: that of the file.

  Raises:
    UserError: the file is missing, damaged, or has no checksum.
  """
  remedy = f'Remove {folder or path.parent}; the same command makes it again'
  try:
    return checksums.opened(read_json(path))
  except ValueError as e:
    raise errors.UserError(f'{path}: {e}. {remedy}') from None
  except errors.UserError as e:
    raise errors.UserError(f'{e}. {remedy}') from None


@dataclasses.dataclass(frozen=True)
class Format:
  """What a kind of folder holds, and how.

  Attributes:
    kind: name for messages, such as `a token store`.
    number: raised when the bytes or the algorithm change.
  """

  kind: str
  number: int


def read_manifest(
    folder: pathlib.Path, format: Format | None = None, name: str = MANIFEST
) -> dict[str, Any] | None:
  """The manifest of an artifact, or None where there is none.

  Args:
    folder: of the artifact.
    format: that it must have; default: any.
    name: of the manifest's file.

  Returns:
    What was given to `writing`, with `kind` and `format` if that was given a
    format.

  Raises:
    UserError: the manifest is damaged or of another format.
  """
  if not (folder / name).exists():
    return None
  manifest = read_sealed(folder / name)
  if format is not None:
    check_format(folder, manifest, format)
  manifest.pop(_CHECKSUMS, None)
  return manifest


def check_format(
    folder: pathlib.Path, manifest: dict[str, Any], format: Format
) -> None:
  """Refuses a folder of another format.

  Raises:
    UserError: says both formats and what to do.
  """
  there = manifest.get('kind', 'something'), manifest.get(_FORMAT, 'none')
  if there != (format.kind, format.number):
    raise errors.UserError(
        f'{folder}: holds {there[0]} of format {there[1]}; this revision reads '
        f'{format.kind} of format {format.number}. Remove {folder}; the same '
        'command makes it again'
    )


@contextlib.contextmanager
def writing(
    folder: pathlib.Path,
    manifest: dict[str, Any],
    name: str = MANIFEST,
    format: Format | None = None,
) -> Iterator[pathlib.Path]:
  """Yields a scratch folder that becomes `folder` when the block succeeds.

  The block may add to `manifest` (counts and the like) until it ends. An older
  artifact in `folder` is replaced. When the block fails, nothing is left. Other
  processes that write the same folder wait.

  Args:
    folder: of the artifact.
    manifest: to be written.
    name: of its file; `UNFINISHED` if parts will be added to the folder.
    format: of the folder, written as `kind` and `format`.

  Raises:
    UserError: the folder holds something that is no artifact, which is not ours
      to replace; or it can't be written, see `failures.while_writing`.
  """
  check_ours(folder)
  scratch = places.scratch(folder)
  with only_one(folder), failures.while_writing(folder):
    # Of a process that was killed, and what workers passed on to it.
    places.remove(places.seen_by_all(scratch))
    scratch.mkdir()
    try:
      yield scratch
      if format is not None:
        manifest |= {'kind': format.kind, _FORMAT: format.number}
      write_sealed(scratch / name, {
          **manifest, _CHECKSUMS: checksums.of_folder(scratch)})
      places.move_folder(scratch, folder, name)
    except BaseException:
      with contextlib.suppress(errors.UserError):  # The first says more.
        places.remove(places.seen_by_all(scratch))
      places.remove(scratch)
      raise


def update_manifest(
    folder: pathlib.Path, changes: dict[str, Any], name: str = MANIFEST
) -> None:
  """Changes values of the manifest of an artifact, and no file."""
  path = folder / name
  write_sealed(path, {**read_sealed(path), **changes})


def finish(folder: pathlib.Path) -> None:
  """Ends a folder that was begun as `UNFINISHED`; parts have their seals."""
  places.rename(folder / UNFINISHED, MANIFEST)


def add_file(partial: pathlib.Path, path: pathlib.Path) -> None:
  """Adds a part to a folder that has its manifest already.

  The checksums come first, so that a part with its own name is whole.

  Args:
    partial: the part, written in the same folder under another name.
    path: its name from now on; the checksums lie beside it.
  """
  write_sealed(path.with_name(path.name + SEAL), {
      'name': path.name, **checksums.of_file(partial)})
  places.move(partial, path)


def file_names(folder: pathlib.Path) -> frozenset[str]:
  """Relative paths of the files that were there when `writing` ended."""
  return frozenset(read_sealed(folder / MANIFEST).get(_CHECKSUMS, ()))


def checksums_of(path: pathlib.Path, folder: pathlib.Path) -> dict[str, Any]:
  """What `checksums.of_file` gave when a file of an artifact was written.

  Raises:
    UserError: it is nowhere to be found, or damaged.
  """
  name = next((name for name in (MANIFEST, UNFINISHED)
               if (folder / name).exists()), None)
  manifest = read_sealed(folder / name) if name else {}
  known = manifest.get(_CHECKSUMS, {}).get(path.relative_to(folder).as_posix())
  seal = path.with_name(path.name + SEAL)
  if known is None and seal.exists():
    known = read_sealed(seal, folder)
    if known['name'] != path.name:
      raise checksums.damaged(seal, f'of {known["name"]}', folder)
  if known is None:
    raise checksums.damaged(path, 'nothing holds its checksums', folder)
  return known


def check_ours(folder: pathlib.Path) -> None:
  """Refuses a folder that an artifact must not replace.

  Raises:
    UserError: it holds files, but no manifest.
  """
  is_other = folder.exists() and not (
      folder.is_dir() and ((folder / MANIFEST).exists()
                           or (folder / UNFINISHED).exists()
                           or not any(folder.iterdir()))
  )
  if is_other:
    raise errors.UserError(
        f'{folder}: is there already and was not made by this program. Move '
        f'it away, or name another {errors.flag("workdir")}'
    )


@contextlib.contextmanager
def only_one(folder: pathlib.Path, wait: bool = True) -> Iterator[bool]:
  """Lets one process at a time make `folder`; the end of it frees the next.

  A thread may enter again what it is in already. In a bucket that holds for the
  processes of one program, and for those of one machine.

  Args:
    folder: to be made; need not be there.
    wait: for another process that makes it.

  Yields:
    Whether it is this one's turn; without `wait` it may not be.

  Raises:
    UserError: the folder around it can't be written to.
  """
  path = places.locks(folder)
  holder = (path, threading.get_ident())
  if holder in _held:
    yield True
    return
  make_folder(path.parent)
  with bucket_turns.turn(folder, wait) as is_ours, _open_lock(path) as lock:
    if not is_ours:
      yield False
      return
    try:
      fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      if not wait:
        yield False
        return
      logging.info('%s: waiting for another process that makes it', folder)
      fcntl.flock(lock, fcntl.LOCK_EX)
    _held.add(holder)
    try:
      yield True
    finally:
      _held.remove(holder)


def _open_lock(path: pathlib.Path) -> TextIO:
  with failures.while_writing(path):
    return open(path, 'w')


def make_folder(folder: pathlib.Path) -> None:
  """Creates a folder and its parents.

  Raises:
    UserError: it can't be created or written to.
  """
  try:
    failures.try_to_write(folder)
  except OSError as e:
    raise failures.not_writable(folder, e.strerror) from None


def sha256_file(path: pathlib.Path) -> str:
  """The hex sha256 of a file's bytes."""
  with open(path, 'rb') as f:
    return hashlib.file_digest(f, 'sha256').hexdigest()


def as_json(value: Any) -> Any:
  """A value as it reads back from json (tuples become lists)."""
  return json.loads(json.dumps(value))


def differences(
    saved: Any, now: Any, prefix: str = '', defaults: Any = None
) -> list[str]:
  """Where two json values differ, a line each.

  Args:
    saved: of earlier.
    now: of this program.
    prefix: of the names of their keys.
    defaults: holds what a key stands for that one of them lacks; else None.
  """
  if not (isinstance(saved, dict) and isinstance(now, dict)):
    return [] if saved == now else [f'{prefix}: {saved!r} there, {now!r} here']
  lines = []
  defaults = defaults if isinstance(defaults, dict) else {}
  for key in sorted(saved.keys() | now.keys()):
    name, default = f'{prefix}.{key}' if prefix else key, defaults.get(key)
    lines += differences(
        saved.get(key, default), now.get(key, default), name, default
    )
  return lines


def sha256_json(value: Any) -> str:
  """The hex sha256 of a json value, whatever the order of its keys."""
  text = json.dumps(value, sort_keys=True, ensure_ascii=False)
  return hashlib.sha256(text.encode()).hexdigest()


def environment() -> dict[str, Any]:
  """Versions, the git revision when known, and settings that change bits."""
  settings = ('XLA_FLAGS', 'NPROC', 'OMP_NUM_THREADS', 'JAX_PLATFORMS')
  return {
      'versions': {name: importlib.metadata.version(name)
                   for name in _VERSIONED},
      'git_revision': _git_revision(),
      'settings': {name: os.environ.get(name, '') for name in settings},
      'cpu_count': len(os.sched_getaffinity(0))
                   if hasattr(os, 'sched_getaffinity') else os.cpu_count(),
  }


def _git_revision() -> str:
  result = subprocess.run(
      ['git', 'rev-parse', 'HEAD'],
      cwd=pathlib.Path(__file__).parent,
      capture_output=True,
      text=True,
      check=False,
  ) if shutil.which('git') else None
  return result.stdout.strip() if result else ''
