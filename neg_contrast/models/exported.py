"""Folders written for other programs: whole or not at all, and as we left them.

Their manifest lists every file with its sha256.
"""

import contextlib
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import safetensors

from neg_contrast import errors
from neg_contrast.artifacts import folders

# A model card is for people: they edit it, and no program depends on it.
_FREE = 'README.md'


@contextlib.contextmanager
def writing(
    folder: pathlib.Path, manifest: dict[str, Any]
) -> Iterator[pathlib.Path]:
  """As `folders.writing`, with checksums, and with errors of libraries.

  Args:
    folder: to be written.
    manifest: gets `files`.

  Raises:
    UserError: the disk is full, or the like.
  """
  try:
    with folders.writing(folder, manifest) as scratch:
      yield scratch
      manifest['files'] = {
          str(path.relative_to(scratch)): folders.sha256_file(path)
          for path in sorted(scratch.rglob('*')) if path.is_file()
      }
  except (OSError, safetensors.SafetensorError) as e:
    raise errors.UserError(
        f'{folder}: can\'t be written: {e}. Free some space, or name another '
        '--workdir'
    ) from e


def is_written(folder: pathlib.Path, identity: Any, source: str) -> bool:
  """Whether the folder holds this model, whole.

  Args:
    folder: of an export.
    identity: of the model.
    source: name of the model, for messages.

  Raises:
    UserError: it holds something else, which is not ours to replace; or a file
      is damaged.
  """
  remedy = 'Name another --workdir, or move it away'
  if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
    return False
  manifest = folders.read_manifest(folder) if folder.is_dir() else None
  if not isinstance(manifest, dict) or not isinstance(
      manifest.get('files'), dict
  ):
    raise errors.UserError(
        f'{folder}: is there already and is no export of ours. {remedy}'
    )
  if manifest.get('identity') != identity:
    raise errors.UserError(
        f'{folder}: holds another model, {manifest.get("source")}, and not '
        f'{source}. {remedy}'
    )
  if not all((folder / name).is_file() for name in manifest['files']):
    return False
  for name, sha256 in manifest['files'].items():
    path = folder / name
    if path.name != _FREE and folders.sha256_file(path) != sha256:
      raise errors.UserError(
          f'{path}: damaged or changed since it was exported. Remove {folder}; '
          'the same command makes it again'
      )
  return True


def check(folder: pathlib.Path, known: Mapping[str, str]) -> None:
  """Whether a folder, if it is an export of ours, is as it was written.

  Args:
    folder: of a model, or of one of its two towers.
    known: sha256 of some of its files, by their names in it; others are read.

  Raises:
    UserError: a file was changed.
  """
  for root in (folder, folder.parent):
    manifest = folders.read_manifest(root)
    files = manifest.get('files') if isinstance(manifest, dict) else None
    if not isinstance(files, dict):
      continue
    for name, sha256 in files.items():
      path = root / name
      if path.name == _FREE or not path.is_relative_to(folder):
        continue
      have = known.get(str(path.relative_to(folder)))
      if have is None:
        have = folders.sha256_file(path) if path.is_file() else 'no file'
      if have != sha256:
        raise errors.UserError(
            f'{path}: damaged or changed since it was exported. Export it '
            f'again; or remove {root / folders.MANIFEST}, if that was you'
        )
    return


def check_apart(checkpoint: str, workdir: pathlib.Path) -> None:
  """Refuses to write into a folder whose files are what the model is.

  Args:
    checkpoint: name of a model of others.
    workdir: to be written to.

  Raises:
    UserError: the workdir lies in it.
  """
  folder = pathlib.Path(checkpoint)
  if folder.is_dir() and workdir.resolve().is_relative_to(folder.resolve()):
    raise errors.UserError(
        f'{workdir}: lies in the checkpoint {checkpoint} itself; name another '
        '--workdir'
    )
