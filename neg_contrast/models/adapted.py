"""Workdirs of dual encoders with LoRA: the base model lies elsewhere.

A checkpoint holds what is trained. The model that it was trained from is read
again from where it was, by the same settings, and must have the same
fingerprint.
"""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from neg_contrast import errors
from neg_contrast.artifacts import folders, places
from neg_contrast.models import (
  descriptions,
  loading,
  lora,
  model_names,
  transformer,
)
from neg_contrast.settings import config as config_lib

_KEY = 'lora'  # Of the description.


@dataclasses.dataclass(frozen=True)
class Adapted:
  """What a merged model was made of.

  Attributes:
    adapters: which kernels, and how.
    trained: towers, as of `lora.Adapters.init`, numpy arrays.
    init: name of the model that is adapted.
    base_model: its hub name; None: it has none.
    base_hashes: of each tower's transformer in it, see `lora.hash_of`.
  """

  adapters: lora.Adapters
  trained: Any
  init: str
  base_model: str | None
  base_hashes: dict[str, str]


def describe(
    adapters: lora.Adapters,
    config: config_lib.ModelConfig,
    seed: int,
    workdir: pathlib.Path,
) -> dict[str, Any]:
  """What a workdir says of its adapters.

  Args:
    adapters: of the encoder.
    config: names what they adapt, `init`, and the settings it is read by.
    seed: of random weights in it.
    workdir: of the training.

  Returns:
    Values for `loading.save_description`; none, without adapters.
  """
  if not adapters.rank:
    return {}
  settings = {
      field.name: getattr(config, field.name)
      for field in dataclasses.fields(config)
      if not field.name.startswith(('lora_', 'features'))
      and getattr(config, field.name) != field.default
  }
  folder = places.path(config.init)
  return {_KEY: {
      'adapters': dataclasses.asdict(adapters),
      'settings': settings,
      'seed': seed,
      # So that workdir and model may be moved together.
      'from_workdir': os.path.relpath(folder, workdir)
                      if folder.is_dir() else None,
  }}


def is_adapted(checkpoint: str) -> bool:
  """Whether it is a workdir with adapters.

  Raises:
    UserError: its description is damaged.
  """
  path = places.path(checkpoint) / loading.FILE
  return path.is_file() and _KEY in descriptions.read(path)


def from_workdir(
    workdir: pathlib.Path,
    params_of: Callable[[Any], tuple[Any, str]],
    name: str,
    load: Callable[[config_lib.ModelConfig, int], loading.Model],
) -> loading.Model:
  """`loading.from_workdir`, with adapters merged into what they adapt.

  Args:
    workdir: has what `loading.save_description` wrote.
    params_of: abstract parameters -> those of the wanted checkpoint, and a hash
      of them.
    name: what to call it.
    load: (settings, seed) -> the model that `init` names.

  Raises:
    UserError: as `loading.read_description`; or what was adapted is not there
      any more, or is another model by now.
  """
  path = workdir / loading.FILE
  saved = descriptions.read(path)
  if _KEY not in saved:
    return loading.from_workdir(workdir, params_of, name)
  adapters, config, seed = descriptions.parse(
      path, saved, lambda values: _parse(workdir, values[_KEY]),
      'an encoder with LoRA',
  )
  base = _base(path, saved, config, functools.partial(load, config, seed))
  merged: dict[str, Any] = {}

  def whole(like: Any) -> tuple[Any, str]:
    trained, weights = params_of(adapters.shapes(like))
    merged['trained'] = trained
    return jax.tree.map(np.asarray, adapters.merge(
        trained, adapters.frozen(base.params)
    )), folders.sha256_json({
        'base': base.fingerprint, 'adapters': dataclasses.asdict(adapters),
        'weights': weights,
    })

  return dataclasses.replace(
      loading.from_workdir(workdir, whole, name),
      adapted=Adapted(
          adapters, merged['trained'], config.init, saved.get('base_model'),
          {tower: lora.hash_of(params[transformer.KEY])
           for tower, params in base.params.items()},
      ),
  )


def _parse(
    workdir: pathlib.Path, values: dict[str, Any]
) -> tuple[lora.Adapters, config_lib.ModelConfig, int]:
  adapters, settings = dict(values['adapters']), dict(values['settings'])
  adapters['targets'] = tuple(adapters['targets'])
  beside = values['from_workdir']
  if beside is not None and (workdir / beside).is_dir():
    base = workdir / beside  # Absolute: an export names it, for any folder.
    settings['init'] = os.path.normpath(
        base if places.is_remote(base) else base.absolute())
  return (lora.Adapters(**adapters), config_lib.ModelConfig(**settings),
          int(values['seed']))


def _base(
    path: pathlib.Path,
    saved: dict[str, Any],
    config: config_lib.ModelConfig,
    load: Callable[[], loading.Model],
) -> loading.Model:
  """The model that is adapted.

  Raises:
    UserError: it can't be read, or is another one.
  """
  what = f'{path}: its LoRA adapts {config.init}'
  try:
    base = load()
  except errors.UserError as e:
    raise errors.UserError(
        f'{what}, which can\'t be read: {e}. Put it back where it was'
    ) from None
  if base.fingerprint != saved['init_fingerprint']:
    raise errors.UserError(
        f'{what} as it was ({saved["init_fingerprint"][:12]}), and that is '
        f'another model by now ({base.fingerprint[:12]}); put it back as it was'
    )
  return base


def base_of(model: loading.Model) -> str:
  """Name of the model for `base_model_name_or_path` of an adapter."""
  adapted = model.adapted
  assert isinstance(adapted, Adapted)
  return adapted.base_model or (
      model_names.hub_name(adapted.init) or adapted.init
  )
