"""The safetensors files of a model folder: read, written, identified."""

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.numpy

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.models import json_objects

FILE = 'model.safetensors'


def read_tensors(
    folder: pathlib.Path, model_class: str = 'AutoModel'
) -> dict[str, np.ndarray]:
  """All tensors of a folder, from one safetensors file or several.

  Args:
    folder: holds `model.safetensors`, or an index of such files.
    model_class: of transformers, that writes such a folder; for the message.

  Raises:
    UserError: a file is missing or broken.
  """
  tensors = {}
  for file in find(folder, model_class):
    try:
      with safetensors.safe_open(file, framework='flax') as f:
        for key in f.keys():  # noqa: SIM118 - not a dict
          tensors[key] = np.asarray(f.get_tensor(key))
    except (safetensors.SafetensorError, OSError, ValueError, TypeError,
            LookupError, AttributeError) as e:
      raise errors.UserError(
          f'{file}: not a safetensors file: {e}; {json_objects.REMEDY}'
      ) from None
  return tensors


def find(
    folder: pathlib.Path, model_class: str = 'AutoModel'
) -> list[pathlib.Path]:
  """The files of weights; arguments as `read_tensors`, and nothing is read.

  Raises:
    UserError: one is missing, or their index is broken.
  """
  files = _files(folder)
  for file in files:
    if not file.exists():
      pickled = (folder / 'pytorch_model.bin').exists()
      raise errors.UserError(
          f'{file}: no such file. ' + (
              'pytorch_model.bin is a pickle, which can run code and is not '
              'read: convert it where you trust it, with transformers: '
              f'{model_class}.from_pretrained(DIR).save_pretrained(DIR)'
              if pickled else 'A model folder holds config.json, '
              'model.safetensors and a tokenizer')
      )
  return files


def names(folder: pathlib.Path) -> list[str]:
  """Names of all tensors of a folder; none, where it has no safetensors.

  Raises:
    UserError: a file is broken.
  """
  found = []
  for file in filter(pathlib.Path.exists, _files(folder)):
    try:
      with safetensors.safe_open(file, framework='flax') as f:
        found += f.keys()
    except (safetensors.SafetensorError, OSError) as e:
      raise errors.UserError(
          f'{file}: not a safetensors file: {e}; {json_objects.REMEDY}'
      ) from None
  return found


def take(
    tensors: Mapping[str, np.ndarray],
    name: str,
    shape: tuple[int, ...],
    source: str,
    also: str = '',
) -> np.ndarray:
  """A tensor, as float32.

  Args:
    tensors: of a model.
    name: of the tensor.
    shape: that it must have.
    source: file name for messages.
    also: a name that it had in older files.

  Raises:
    UserError: it is missing, has another shape, is of integers, or not finite.
  """
  tensor = tensors.get(name, tensors.get(also))
  if tensor is None or tensor.shape != shape:
    have = 'missing' if tensor is None else list(tensor.shape)
    raise errors.UserError(
        f'{source}: {name} is {have}, config.json asks for {list(shape)}; '
        'weights and config are of two models'
    )
  if tensor.dtype.kind in 'biu':
    raise errors.UserError(
        f'{source}: {name} is of {tensor.dtype}, and weights are floats; '
        + json_objects.REMEDY
    )
  tensor = np.asarray(tensor, np.float32)
  if not np.isfinite(tensor).all():
    raise errors.UserError(
        f'{source}: {name} holds values that are not finite: the training that '
        f'wrote it diverged, or the file is damaged; {json_objects.REMEDY}'
    )
  return tensor


def save(folder: pathlib.Path, tensors: Mapping[str, Any]) -> None:
  """Writes `model.safetensors`.

  Args:
    folder: exists.
    tensors: name -> array; written as float32.

  Raises:
    OSError: the disk is full, or the like; also SafetensorError.
  """
  path = folder / FILE
  safetensors.numpy.save_file(
      {name: np.ascontiguousarray(tensor, np.float32)
       for name, tensor in tensors.items()},
      path,
      metadata={'format': 'pt'},  # Older transformers insist on it.
  )
  path.chmod(0o644)  # As files are, not 0600.


def fingerprint_of(folder: pathlib.Path) -> str:
  """A sha256 of the weights and configs in a folder, tokenizers apart."""
  files = sorted(p for p in folder.rglob('*')
                 if p.suffix == '.safetensors'
                 or (p.suffix == '.json' and 'token' not in p.name
                     and p.name != folders.MANIFEST))
  return folders.sha256_json({
      str(path.relative_to(folder)): folders.sha256_file(path)
      for path in files
  })


def _files(folder: pathlib.Path) -> list[pathlib.Path]:
  """What `model.safetensors.index.json` lists, or the only file."""
  path = folder / f'{FILE}.index.json'
  if not path.exists():
    return [folder / FILE]
  listed = json_objects.read(path).object('weight_map')
  names = {listed.text(key) for key in listed.values}
  if not names:
    raise listed.error("key 'weight_map' is missing or empty")
  return sorted(folder / name for name in names)
