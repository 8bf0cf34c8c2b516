"""Folders written for other programs: whole or not at all, and as we left them.

Other programs ignore the manifest, by which we notice damage.
"""

import contextlib
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

import safetensors

from neg_contrast import errors
from neg_contrast.artifacts import checksums, folders, places

# A model card is for people: they edit it, and no program depends on it.
_FREE = 'README.md'
# Keys of a manifest of ours, of which a flipped bit leaves one.
_MARKS = b'"checksum"', b'"checksums"'


@contextlib.contextmanager
def while_writing(folder: pathlib.Path) -> Iterator[None]:
  """One kind of error for all that fails while a folder is written.

  Args:
    folder: to be written, whole or not at all.

  Raises:
    UserError: the disk is full, or the like.
  """
  try:
    yield
  except (OSError, safetensors.SafetensorError) as e:
    raise errors.UserError(
        f'{folder}: can\'t be written: {e}. Free some space, or name another '
        f'{errors.flag("workdir")}'
    ) from e


def is_written(
    folder: pathlib.Path,
    identity: dict[str, Any],
    source: str,
    format: folders.Format,
) -> bool:
  """Whether the folder holds this model, whole.

  Args:
    folder: of an exported model.
    identity: of the model, as in the manifest.
    source: name of the model, for messages.
    format: of the folder.

  Raises:
    UserError: it holds something else, which is not ours to replace; or a file
      is damaged.
  """
  remedy = f'Name another {errors.flag("workdir")}, or move it away'
  if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
    return False
  manifest = folders.read_manifest(folder, format) if _is_ours(folder) else None
  if manifest is None:
    raise errors.UserError(
        f'{folder}: is there already and is no export of ours. {remedy}'
    )
  if manifest.get('identity') != identity:
    raise errors.UserError(
        f'{folder}: holds another model, {manifest.get("source")}, and not '
        f'{source}. {remedy}'
    )
  names = folders.file_names(folder)
  if not all((folder / name).is_file() for name in names):
    return False
  for name in _changed(folder, names):
    raise errors.UserError(
        f'{folder / name}: damaged or changed since it was exported. Remove '
        f'{folder}; the same command makes it again'
    )
  return True


def check(folder: pathlib.Path) -> None:
  """Whether a folder, if it is an export of ours, is as it was written.

  Args:
    folder: of a model, or of one of its two towers.

  Raises:
    UserError: a file was changed.
  """
  for root in (folder, folder.parent):
    if not _is_ours(root):
      continue
    names = [name for name in folders.file_names(root)
             if (root / name).is_relative_to(folder)]
    for name in _changed(root, names):
      raise errors.UserError(
          f'{root / name}: damaged or changed since it was exported. Export it '
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
  folder = places.path(checkpoint)
  if folder.is_dir() and workdir.resolve().is_relative_to(folder.resolve()):
    raise errors.UserError(
        f'{workdir}: lies in the checkpoint {checkpoint} itself; name another '
        f'{errors.flag("workdir")}'
    )


def _is_ours(folder: pathlib.Path) -> bool:
  """Whether there is a manifest, and other programs did not write it."""
  path = folder / folders.MANIFEST
  if not path.is_file():
    return False
  data = path.read_bytes()
  return any(mark in data for mark in _MARKS)


def _changed(
    folder: pathlib.Path, names: Iterable[str]
) -> Iterator[str]:
  """Those of an export's files that are not as they were."""
  for name in sorted(names):
    path = folder / name
    if path.name != _FREE and not (
        path.is_file()
        and checksums.of_file(path) == folders.checksums_of(path, folder)
    ):
      yield name
