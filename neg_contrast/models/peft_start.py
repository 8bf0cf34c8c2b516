"""Models that are a base and a folder of adapters of the library peft."""

import dataclasses
import pathlib
from collections.abc import Callable

import flax.traverse_util
import safetensors

from neg_contrast import errors
from neg_contrast.artifacts import folders, places
from neg_contrast.models import (
  exported,
  json_objects,
  lora,
  peft_folder,
  pretrained,
  tensor_files,
  transformer,
)

Towers = dict[str, pretrained.Pretrained]


def is_one(folder: pathlib.Path) -> bool:
  """Whether a folder holds adapters, of a tower or of two."""
  return bool(_places(folder))


def base_name(folder: pathlib.Path) -> str:
  """Name of the model that the adapters are for.

  Raises:
    UserError: the folder does not say, or names itself.
  """
  place = next(iter(_places(folder).values()))
  values = json_objects.read(place / peft_folder.CONFIG_FILE)
  name = values.text('base_model_name_or_path')
  path = places.path(name)
  if path.is_dir() and path.resolve() in (folder.resolve(), place.resolve()):
    raise values.error('base_model_name_or_path is this folder itself')
  return name


def load_towers(
    folder: pathlib.Path, load_base: Callable[[str], Towers]
) -> Towers:
  """The base, with the adapters merged into it, and what else they bring.

  Args:
    folder: with adapters; of two towers, in `query` and `passage`, of which one
      may have none.
    load_base: reads a model by its name.

  Raises:
    UserError: the base can't be read, or the adapters are of another model.
  """
  name, towers = base_name(folder), _towers(folder, load_base)
  return {
      role: tower if place is None
      else pretrained.with_modules(_merged(place, tower, name), place,
                                   is_read=True)
      for role, (tower, place) in towers.items()
  }


def describe_towers(
    folder: pathlib.Path, describe_base: Callable[[str], Towers]
) -> Towers:
  """As `load_towers`, but for the weights, which are not read."""
  return {
      role: tower if place is None
      else pretrained.with_modules(tower, place, is_read=False)
      for role, (tower, place) in _towers(folder, describe_base).items()
  }


def has_modules(folder: pathlib.Path) -> bool:
  """Whether the adapters bring a pooling of their own, and what follows it."""
  return any((place / 'modules.json').exists()
             for place in _places(folder).values())


def _towers(
    folder: pathlib.Path, base_of: Callable[[str], Towers]
) -> dict[str, tuple[pretrained.Pretrained, pathlib.Path | None]]:
  """The towers of the base, each with the place of its adapters."""
  places, name = _places(folder), base_name(folder)
  try:
    base = base_of(name)
  except errors.UserError as e:
    raise errors.UserError(
        f'{folder}: its adapters are for {name}, which can\'t be read: {e}'
    ) from None
  if 'shared' in base and 'shared' not in places:
    base = dict.fromkeys(('query', 'passage'), base['shared'])
  if not set(places) <= set(base):
    raise errors.UserError(
        f'{folder}: adapters of one tower, and {name} has two'
    )
  return {role: (tower, places.get(role)) for role, tower in base.items()}


def _merged(
    place: pathlib.Path, base: pretrained.Pretrained, name: str
) -> pretrained.Pretrained:
  exported.check(place)
  tower = {transformer.KEY: base.params}
  added = peft_folder.read(place, tower, base.transformer)
  _check_base(place / peft_folder.TENSORS_FILE, base, name)
  flat = flax.traverse_util.flatten_dict(tower)
  merged = flax.traverse_util.unflatten_dict({
      path: leaf + added[path] if path in added else leaf
      for path, leaf in flat.items()
  })
  return dataclasses.replace(
      base, params=merged[transformer.KEY], fingerprint=folders.sha256_json({
          'base': base.fingerprint,
          'adapters': tensor_files.fingerprint_of(place),
      }),
  )


def _check_base(
    path: pathlib.Path, base: pretrained.Pretrained, name: str
) -> None:
  """Refuses weights that adapters of ours were not trained on."""
  with safetensors.safe_open(path, 'numpy') as file:
    known = (file.metadata() or {}).get(peft_folder.BASE_KEY)
  if known is not None and known != lora.hash_of(base.params):
    raise errors.UserError(
        f'{path}: was trained on other weights than those of {name} now; put '
        'the base back as it was'
    )


def _places(folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """Tower -> the folder with its adapters."""
  places = {'shared': folder, 'query': folder / 'query',
            'passage': folder / 'passage'}
  found = {role: place for role, place in places.items()
           if (place / peft_folder.CONFIG_FILE).is_file()}
  return {'shared': folder} if 'shared' in found else found
