"""Reads folders of transformers and sentence-transformers, without torch."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from neg_contrast import errors
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.models import (
  blink_pretrained,
  exported,
  families,
  json_objects,
  model_names,
  sentence_modules,
  t5_config,
  tensor_files,
)
from neg_contrast.models import projections as projections_lib
from neg_contrast.models import shape as shape_lib

# Key of config_sentence_transformers.json that holds what only we can use.
OWN_KEY = 'neg_contrast'
_ROLES = 'query', 'passage'


@dataclasses.dataclass(frozen=True)
class Pretrained:
  """What a folder brings. None: it does not say.

  Attributes:
    folder: of its transformer and tokenizer, on this machine.
    fingerprint: sha256 of weights and configs.
    transformer: shapes and constants.
    params: float32 numpy tree, layers stacked.
    pooling: a key of `pooling.POOLINGS`.
    projections: its Dense modules.
    projection_params: `{'kernel', 'bias'}` of each, by its name in a tower.
    normalize: whether a Normalize module ends it, or cosines compare.
    max_length: tokens of an input.
    query_length: tokens of a query, where they are other ones.
    passage_length: the same of a passage.
    query_prompt: put before queries.
    passage_prompt: put before passages.
    title_end: token between title and text.
    joined: prompts of others that end in no white space, which they put
      directly before the first word.
  """

  folder: pathlib.Path
  fingerprint: str
  transformer: shape_lib.Shape
  params: dict[str, Any]
  pooling: str | None = None
  projections: tuple[projections_lib.Projection, ...] = ()
  projection_params: Mapping[str, dict[str, np.ndarray]] = dataclasses.field(
      default_factory=dict
  )
  normalize: bool | None = None
  max_length: int | None = None
  query_length: int | None = None
  passage_length: int | None = None
  query_prompt: str | None = None
  passage_prompt: str | None = None
  title_end: str | None = None
  joined: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class PretrainedT5:
  """What the folder of a question generator brings.

  Attributes:
    folder: where it lies on this machine.
    fingerprint: sha256 of weights and configs.
    config: shapes and constants.
    params: float32 numpy tree of a `t5.T5`, layers stacked.
  """

  folder: pathlib.Path
  fingerprint: str
  config: t5_config.T5Config
  params: dict[str, Any]


def load_towers(name: str) -> dict[str, Pretrained]:
  """Reads a model: `{'shared': ...}`, or `query` and `passage` apart.

  Args:
    name: a folder, a hub name, or `minilm` (see `packaged_minilm`); also a
      folder of two such folders, or with the weights of BLINK.

  Raises:
    UserError: it is missing, of another architecture, or does not fit its own
      config; names the file and key.
  """
  folder = model_names.locate(name)
  if towers := _folders_of_towers(folder):
    return {role: _load_folder(place) for role, place in towers.items()}
  if blink_pretrained.is_blink(folder):
    fingerprint = tensor_files.fingerprint_of(folder)
    return {role: _tower_of_blink(folder, fingerprint, *tower)
            for role, tower in blink_pretrained.read(folder).items()}
  return {'shared': _load_folder(folder)}


def describe_towers(folder: pathlib.Path) -> dict[str, Pretrained]:
  """As `load_towers` of a folder, but without weights and fingerprint.

  Raises:
    UserError: a file is missing, broken, or of another architecture.
  """
  if towers := _folders_of_towers(folder):
    return {role: _describe_folder(place) for role, place in towers.items()}
  if blink_pretrained.is_blink(folder):
    shape = families.shape_of(folder, 'encoder')
    tensor_files.find(folder)
    return {role: _tower_of_blink(folder, '', shape, {}) for role in _ROLES}
  return {'shared': _describe_folder(folder)}


def _folders_of_towers(folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """The folders of two towers; none, if the model is one folder."""
  towers = {role: folder / role for role in _ROLES}
  is_two = all((place / 'modules.json').exists() for place in towers.values())
  return towers if is_two else {}


def _tower_of_blink(
    folder: pathlib.Path, fingerprint: str, shape: shape_lib.Shape,
    params: dict[str, Any],
) -> Pretrained:
  return Pretrained(
      folder, fingerprint, shape, params, pooling='cls', normalize=False,
      title_end=blink_pretrained.TITLE_END,
  )


def projection_features(name: str) -> int | None:
  """Features of the projection that a model brings; no weights are read.

  Args:
    name: as of `load_towers`. One that is no folder here, such as a name of the
      hub, is taken for a model without.

  Raises:
    UserError: a file says what can't be.
  """
  if not model_names.has_folder(name):
    return None
  folder = model_names.locate(name)
  for place in (folder, folder / 'query'):
    if (place / 'modules.json').exists():
      return sentence_modules.features(sentence_modules.read(place))
  return None


def with_modules(
    tower: Pretrained, folder: pathlib.Path, *, is_read: bool
) -> Pretrained:
  """A tower with what a folder of its adapters brings beside them.

  Args:
    tower: the base, with the adapters or without.
    folder: of the adapters. One of sentence-transformers has the modules after
      the Transformer, prompts, lengths and tokenizer; others have nothing.
    is_read: whether weights of modules are read.

  Raises:
    UserError: a file is missing or broken, or not supported.
  """
  if not (folder / 'modules.json').exists():
    return tower
  modules = sentence_modules.read(folder)
  hidden = tower.transformer.hidden_size
  layers, weights = (
      sentence_modules.projections(modules, hidden) if is_read
      else (sentence_modules.layers(modules, hidden), {}))
  own = _described(modules, tower.transformer, layers)
  return dataclasses.replace(
      own, params=tower.params, projection_params=weights,
      fingerprint=tower.fingerprint,
      folder=own.folder if tokenizer_lib.has_files(own.folder)
      else tower.folder,
  )


def load_t5(name: str) -> PretrainedT5:
  """Reads a T5, T5 v1.1, FLAN-T5 or mT5 with safetensors weights.

  Args:
    name: a folder, or a name on the Hugging Face hub.

  Raises:
    UserError: it is missing, of another architecture, or does not fit its own
      config; names the file and key.
  """
  folder = model_names.locate(name)
  exported.check(folder)
  config, params = families.read(folder, 'generator')
  return PretrainedT5(
      folder, tensor_files.fingerprint_of(folder), config, params
  )


def first_layers(
    source: Pretrained, count: int | None, name: str
) -> Pretrained:
  """A tower without its upper layers.

  Args:
    source: the tower.
    count: layers that stay; None: all.
    name: of the model, for messages.

  Raises:
    UserError: it has fewer.
  """
  if count is None or count == source.transformer.num_layers:
    return source
  check_layers(source.transformer, count, name)
  return dataclasses.replace(
      source,
      transformer=dataclasses.replace(source.transformer, num_layers=count),
      params={
          **source.params,
          'layers': jax.tree.map(
              lambda leaf: leaf[:count], source.params['layers']
          ),
      },
  )


def check_layers(shape: shape_lib.Shape, count: int, name: str) -> None:
  """Refuses more layers than there are.

  Raises:
    UserError: names the key.
  """
  if count > shape.num_layers:
    raise errors.UserError(
        f'{errors.key("model.layers")}={count}: {name} has {shape.num_layers}'
    )


def _load_folder(folder: pathlib.Path) -> Pretrained:
  """Reads a folder of one tower."""
  exported.check(folder)
  if not (folder / 'modules.json').exists():
    config, params = families.read(folder, 'encoder')
    return Pretrained(
        folder, tensor_files.fingerprint_of(folder), config, params
    )
  modules = sentence_modules.read(folder)
  config, params = families.read(modules.transformer, 'encoder')
  layers, weights = sentence_modules.projections(modules, config.hidden_size)
  return dataclasses.replace(
      _described(modules, config, layers), params=params,
      projection_params=weights,
      fingerprint=tensor_files.fingerprint_of(folder),
  )


def _describe_folder(folder: pathlib.Path) -> Pretrained:
  """The same without weights, which have to be there."""
  if not (folder / 'modules.json').exists():
    shape = families.shape_of(folder, 'encoder')
    tensor_files.find(folder)
    return Pretrained(folder, '', shape, {})
  modules = sentence_modules.read(folder)
  shape = families.shape_of(modules.transformer, 'encoder')
  for place in (modules.transformer, *modules.dense):
    tensor_files.find(place)
  return _described(
      modules, shape, sentence_modules.layers(modules, shape.hidden_size)
  )


def _described(
    modules: sentence_modules.Modules, shape: shape_lib.Shape,
    projections: tuple[projections_lib.Projection, ...],
) -> Pretrained:
  """What a folder of sentence-transformers says beside its weights."""
  settings = json_objects.read_if_there(
      modules.folder / 'config_sentence_transformers.json'
  )
  own = settings.object(OWN_KEY)
  least = sentence_modules.SHORTEST
  lengths = sentence_modules.lengths(modules, shape.max_positions)
  prompts = sentence_modules.prompts(settings)
  return Pretrained(
      folder=modules.transformer,
      fingerprint='',
      transformer=shape,
      params={},
      pooling=sentence_modules.pooling(modules),
      projections=projections,
      normalize=(modules.is_normalized
                 or sentence_modules.is_cosine(settings)),
      max_length=lengths.of_any,
      query_length=own.integer('query_length', lengths.of_queries, least),
      passage_length=own.integer(
          'passage_length', lengths.of_passages, least),
      query_prompt=own.text('query_prefix', prompts[0]),
      passage_prompt=own.text('passage_prefix', prompts[1]),
      joined=() if own.values else tuple(
          prompt for prompt in prompts if prompt and not prompt[-1].isspace()
      ),
  )
