"""Writes the adapters of a model as folders that the library peft loads."""

import pathlib

import flax.traverse_util
import numpy as np
import safetensors.numpy

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.models import (
  adapted,
  exporting,
  loading,
  lora,
  peft_folder,
)

_TOLERANCE = 1e-5


def write(model: loading.Model, folder: pathlib.Path) -> None:
  """Writes the adapters of a model, reads them back and compares.

  Args:
    model: with `adapted`.
    folder: exists; of a shared tower itself, else of a folder a tower.

  Raises:
    UserError: the model reads features beside text, which peft does not know;
      or what was read back is not what was written.
    OSError: the disk is full, or the like; also SafetensorError.
  """
  exporting.refuse_features(model)
  own = model.adapted
  assert isinstance(own, adapted.Adapted)
  for tower, place in folders_of(model, folder).items():
    trained = own.trained[tower]
    place.mkdir(exist_ok=True)
    config, tensors = peft_folder.of_tower(
        own.adapters, trained, model.params[tower], model.spec.transformer
    )
    config['base_model_name_or_path'] = adapted.base_of(model)
    folders.write_json(place / peft_folder.CONFIG_FILE, config)
    path = place / peft_folder.TENSORS_FILE
    safetensors.numpy.save_file(tensors, path, metadata={
        'format': 'pt', peft_folder.BASE_KEY: own.base_hashes[tower],
    })
    path.chmod(0o644)  # As files are, not 0600.
    _check(model, trained, tower, place)


def folders_of(
    model: loading.Model, folder: pathlib.Path
) -> dict[str, pathlib.Path]:
  """Tower -> where its adapters lie; of a shared one the folder itself.

  Args:
    model: with `adapted`.
    folder: of all.
  """
  own = model.adapted
  assert isinstance(own, adapted.Adapted)
  return {tower: folder if tower == 'shared' else folder / tower
          for tower in own.trained if tower != own.adapters.frozen_tower}


def _check(model, trained, tower, place):
  """Whether the folder adds what the adapters do."""
  added = peft_folder.read(place, model.params[tower], model.spec.transformer)
  ours = flax.traverse_util.flatten_dict(trained)
  for path in (path for path in ours if path[-1] == lora.A):
    whole = model.adapted.adapters.scale * np.matmul(
        ours[path], ours[peft_folder.at(path, lora.B)]
    )
    again = added.get(peft_folder.at(path, lora.KERNEL))
    if again is None or not np.allclose(again, whole, rtol=0, atol=_TOLERANCE):
      raise errors.UserError(
          f'{model.name}: the LoRA of {lora.name_of(path)} changed on its way '
          f'through {place}, or is no number'
      )
