"""The files that describe a trained model in its workdir, all but its weights.

A json file that holds a checksum of itself, and of the tokenizer beside it.
"""

import hashlib
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
import numpy as np

from neg_contrast import errors
from neg_contrast.artifacts import checksums, folders
from neg_contrast.data import tokenizer as tokenizer_lib

_TOKENIZER_FOLDER = 'tokenizer'
_TOKENIZER_FILE = 'tokenizer.json'
AnyTokenizer = TypeVar('AnyTokenizer', bound=tokenizer_lib.AnyTokenizer)


def save(
    path: pathlib.Path,
    values: Mapping[str, Any],
    tokenizer: tokenizer_lib.AnyTokenizer,
) -> None:
  """Writes a description, and the tokenizer beside it.

  Args:
    path: of the json file, in a workdir.
    values: of json.
    tokenizer: of the model.
  """
  folder = path.parent / _TOKENIZER_FOLDER
  tokenizer.save(folder)
  write(path, {
      **values,
      'tokenizer': tokenizer.sha256,
      'tokenizer_file': folders.sha256_file(folder / _TOKENIZER_FILE),
  })


def write(path: pathlib.Path, values: Mapping[str, Any]) -> None:
  """Writes a json object with its checksum."""
  folders.write_sealed(path, dict(values))


def read(path: pathlib.Path) -> dict[str, Any]:
  """The values of a description.

  Raises:
    UserError: the file is missing or damaged.
  """
  try:
    return checksums.opened(folders.read_json(path))
  except ValueError as e:
    raise errors.UserError(f'{path}: {e}; {_remedy(path.parent)}') from None
  except errors.UserError as e:
    raise errors.UserError(f'{e}; {_remedy(path.parent)}') from None


def parse(
    path: pathlib.Path,
    values: Mapping[str, Any],
    make: Callable[[Mapping[str, Any]], Any],
    kind: str,
) -> Any:
  """What `make` makes of the values.

  Raises:
    UserError: values are missing, or of another kind.
  """
  try:
    return make(values)
  except (KeyError, TypeError, ValueError, AttributeError) as e:
    raise errors.UserError(
        f'{path}: not a description of {kind}: {e}; {_remedy(path.parent)}'
    ) from None


def read_tokenizer(
    path: pathlib.Path,
    values: Mapping[str, Any],
    load: Callable[[str], AnyTokenizer],
) -> AnyTokenizer:
  """The tokenizer beside a description.

  Args:
    path: of the description.
    values: of it.
    load: reads a folder.

  Raises:
    UserError: it is missing, or not the one that was written.
  """
  folder = path.parent / _TOKENIZER_FOLDER
  file, wanted = folder / _TOKENIZER_FILE, values['tokenizer']
  if not file.is_file():
    raise errors.UserError(f'{file}: no such file; put the original back')
  tokenizer = None
  if folders.sha256_file(file) == values['tokenizer_file']:
    tokenizer = load(str(folder))
  if tokenizer is None or tokenizer.sha256 != wanted:
    raise errors.UserError(
        f'{folder}: this tokenizer is not the one the model was trained with '
        f'({wanted[:12]}); put the original back'
    )
  return tokenizer


def _remedy(workdir: pathlib.Path) -> str:
  return (f'put a copy of the original back, or remove {workdir} and train '
          'again')


def sha256_of(params: Any) -> str:
  """What tells weights apart: of names, shapes and values of all arrays."""
  digest = hashlib.sha256()
  for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
    array = np.ascontiguousarray(leaf)
    digest.update(f'{jax.tree_util.keystr(path)} {array.shape}'.encode())
    digest.update(array.view(np.uint8).data)
  return digest.hexdigest()
