"""Folders that explain themselves: a manifest, written last and atomically.

A folder without `manifest.json` is unfinished and is made anew.
"""

import contextlib
import fcntl
import hashlib
import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

from neg_contrast import errors

MANIFEST = 'manifest.json'
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


def read_manifest(folder: pathlib.Path) -> dict[str, Any] | None:
  """The manifest of a finished artifact, or None where there is none."""
  path = folder / MANIFEST
  return read_json(path) if path.exists() else None


@contextlib.contextmanager
def writing(
    folder: pathlib.Path, manifest: dict[str, Any]
) -> Iterator[pathlib.Path]:
  """Yields a scratch folder that becomes `folder` when the block succeeds.

  The block may add to `manifest` (counts and the like) until it ends. An older
  `folder` is replaced; an unfinished scratch folder is removed first.
  """
  scratch = folder.with_name(folder.name + '.partial')
  make_folder(scratch.parent)
  shutil.rmtree(scratch, ignore_errors=True)
  scratch.mkdir()
  yield scratch
  write_json(scratch / MANIFEST, manifest)
  if folder.exists():
    shutil.rmtree(folder)
  os.replace(scratch, folder)


@contextlib.contextmanager
def only_one(folder: pathlib.Path) -> Iterator[None]:
  """Lets one process at a time make `folder`; the end of it frees the next.

  Raises:
    UserError: the folder around it can't be written to.
  """
  make_folder(folder.parent)
  with open(folder.with_name(f'{folder.name}.lock'), 'w') as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield


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
        'Choose another with --workdir or --config.data.prepared_dir'
    ) from None


def sha256_file(path: pathlib.Path) -> str:
  """The hex sha256 of a file's bytes."""
  with open(path, 'rb') as f:
    return hashlib.file_digest(f, 'sha256').hexdigest()


def as_json(value: Any) -> Any:
  """A value as it reads back from json (tuples become lists)."""
  return json.loads(json.dumps(value))


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
