"""Folders that explain themselves: a manifest, written last and atomically.

A folder without `manifest.json` is unfinished and is made anew; but one that is
filled part by part has its manifest from the start, as `unfinished.json`.
"""

import contextlib
import errno
import fcntl
import hashlib
import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import errors

MANIFEST = 'manifest.json'
UNFINISHED = 'unfinished.json'
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_held: set[tuple[pathlib.Path, int]] = set()  # Locks, and their threads.
_VERSIONED = ('jax', 'jaxlib', 'flax', 'optax', 'orbax-checkpoint', 'numpy')


def write_json(path: pathlib.Path, value: Any) -> None:
  """Writes `value` as indented json; readers never see half a file."""
  partial = path.with_name(path.name + '.partial')
  with open(partial, 'w', encoding='utf-8') as f:
    json.dump(value, f, indent=1, ensure_ascii=False)
    f.write('\n')
    f.flush()
    os.fsync(f.fileno())
  os.replace(partial, path)


def read_json(path: pathlib.Path) -> Any:
  """Reads a json file.

  Raises:
    UserError: the file is missing or not json, naming the line.
  """
  try:
    return json.loads(path.read_text(encoding='utf-8'))
  except FileNotFoundError:
    raise errors.UserError(f'{path}: no such file') from None
  except json.JSONDecodeError as e:
    raise errors.UserError(f'{path}:{e.lineno}: not valid json: {e}') from None
  except UnicodeDecodeError as e:
    raise errors.UserError(f'{path}: not UTF-8 ({e.reason})') from None


def read_manifest(folder: pathlib.Path) -> dict[str, Any] | None:
  """The manifest of a finished artifact, or None where there is none."""
  path = folder / MANIFEST
  return read_json(path) if path.exists() else None


@contextlib.contextmanager
def writing(
    folder: pathlib.Path, manifest: dict[str, Any], name: str = MANIFEST
) -> Iterator[pathlib.Path]:
  """Yields a scratch folder that becomes `folder` when the block succeeds.

  The block may add to `manifest` (counts and the like) until it ends. An older
  artifact in `folder` is replaced. When the block fails, nothing is left. Other
  processes that write the same folder wait.

  Args:
    folder: of the artifact.
    manifest: to be written.
    name: of its file; `UNFINISHED` if parts will be added to the folder.

  Raises:
    UserError: the folder holds something that is no artifact, which is not ours
      to replace; or there is no space left.
  """
  check_ours(folder)
  scratch = folder.with_name(folder.name + '.partial')
  old = folder.with_name(folder.name + '.old')
  with only_one(folder):
    for left in (scratch, old):  # By a process that was killed.
      shutil.rmtree(left, ignore_errors=True)
    scratch.mkdir()
    try:
      with saying_no_space(folder):
        yield scratch
        write_json(scratch / name, manifest)
    except BaseException:
      shutil.rmtree(scratch, ignore_errors=True)
      raise
    if folder.exists():
      os.replace(folder, old)
    os.replace(scratch, folder)
    shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def saying_no_space(folder: pathlib.Path) -> Iterator[None]:
  """Says what to do when the disk of a folder is full.

  Raises:
    UserError: there is no space left.
  """
  try:
    yield
  except OSError as e:
    if e.errno not in _NO_SPACE:
      raise
    raise errors.UserError(
        f'{folder}: {e.strerror}. Free some space, or name another '
        '--workdir, --config.data.prepared_dir or '
        '--config.negatives.mined_dir'
    ) from e


def check_ours(folder: pathlib.Path) -> None:
  """Refuses a folder that an artifact must not replace.

  Raises:
    UserError: it holds files, but no manifest.
  """
  is_other = folder.exists() and not (
      folder.is_dir() and (read_manifest(folder) is not None
                           or (folder / UNFINISHED).exists()
                           or not any(folder.iterdir()))
  )
  if is_other:
    raise errors.UserError(
        f'{folder}: is there already and was not made by this program. Move '
        'it away, or name another --workdir'
    )


@contextlib.contextmanager
def only_one(folder: pathlib.Path, wait: bool = True) -> Iterator[bool]:
  """Lets one process at a time make `folder`; the end of it frees the next.

  A thread may enter again what it is in already.

  Args:
    folder: to be made; need not be there.
    wait: for another process that makes it.

  Yields:
    Whether it is this one's turn; without `wait` it may not be.

  Raises:
    UserError: the folder around it can't be written to.
  """
  path = folder.absolute()
  holder = (path, threading.get_ident())
  if holder in _held:
    yield True
    return
  locks = path.parent / '.locks'
  make_folder(locks)
  with open(locks / path.name, 'w') as lock:
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


def make_folder(folder: pathlib.Path) -> None:
  """Creates a folder and its parents.

  Raises:
    UserError: it can't be created or written to.
  """
  try:
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()
  except OSError as e:
    raise errors.UserError(
        f'{folder}: not a folder that can be written to ({e.strerror}). '
        'Choose another with --workdir, --config.data.prepared_dir or '
        '--config.negatives.mined_dir'
    ) from None


def create_array(
    path: pathlib.Path, dtype: Any, shape: tuple[int, ...]
) -> np.memmap:
  """A mapped `.npy` file to fill in place; all its space is claimed at once.

  A mapped file that can't grow would kill the process.
  """
  array = np.lib.format.open_memmap(path, mode='w+', dtype=dtype, shape=shape)
  if hasattr(os, 'posix_fallocate'):
    with open(path, 'r+b') as f:
      os.posix_fallocate(f.fileno(), 0, path.stat().st_size)
  return array


def load_array(
    path: pathlib.Path, shape: Sequence[int | None], dtype: Any = None
) -> np.ndarray:
  """Maps a `.npy` file of an artifact, read-only.

  Args:
    path: of the file.
    shape: what it has to be; None: any.
    dtype: what it has to be; None: any.

  Raises:
    UserError: the file is missing or damaged; says how to have it made anew. Or
      the process has too many files open.
  """
  try:
    array = np.load(path, mmap_mode='r', allow_pickle=False)
    if len(array.shape) != len(shape) or any(
        want not in (None, have)
        for want, have in zip(shape, array.shape, strict=True)
    ):
      raise ValueError(f'holds {array.shape}, not {tuple(shape)}')
    if dtype not in (None, array.dtype):
      raise ValueError(f'holds {array.dtype}, not {np.dtype(dtype)}')
  except (OSError, EOFError, ValueError) as e:
    if isinstance(e, OSError) and e.errno == errno.EMFILE:
      raise errors.UserError(
          f'{path}: {e.strerror}; allow more with ulimit -n'
      ) from None
    raise errors.UserError(
        f'{path}: damaged ({e}). Remove {path.parent} to have it made anew'
    ) from None
  return array


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
