"""Reads folders of transformers and sentence-transformers, without torch."""

import dataclasses
import pathlib
from typing import Any

import jax
import numpy as np

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.models import (
  blink_pretrained,
  exported,
  families,
  json_objects,
  model_names,
  t5_config,
  tensor_files,
)
from neg_contrast.models import pooling as pooling_lib
from neg_contrast.models import shape as shape_lib

# Key of config_sentence_transformers.json that holds what only we can use.
OWN_KEY = 'neg_contrast'
_SHORTEST = 3  # Tokens of an input: [CLS], one of the text, [SEP].


@dataclasses.dataclass(frozen=True)
class Pretrained:
  """What a folder brings. None: it does not say.

  Attributes:
    folder: where it lies on this machine.
    fingerprint: sha256 of weights and configs.
    transformer: shapes and constants.
    params: float32 numpy tree, layers stacked.
    pooling: a key of `pooling.POOLINGS`.
    projection: `{'kernel', 'bias'}` of a Dense module.
    projection_activation: after it.
    normalize: whether a Normalize module ends it.
    max_length: tokens of an input.
    query_length: tokens of a query, in a folder that we exported.
    passage_length: the same of a passage.
    query_prompt: put before queries.
    passage_prompt: put before passages.
    title_end: token between title and text.
  """

  folder: pathlib.Path
  fingerprint: str
  transformer: shape_lib.Shape
  params: dict[str, Any]
  pooling: str | None = None
  projection: dict[str, np.ndarray] | None = None
  projection_activation: str = 'identity'
  normalize: bool | None = None
  max_length: int | None = None
  query_length: int | None = None
  passage_length: int | None = None
  query_prompt: str | None = None
  passage_prompt: str | None = None
  title_end: str | None = None


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
  towers = {role: folder / role for role in ('query', 'passage')}
  if all((f / 'modules.json').exists() for f in towers.values()):
    return {role: _load_folder(f) for role, f in towers.items()}
  if blink_pretrained.is_blink(folder):
    fingerprint = tensor_files.fingerprint_of(folder)
    return {role: Pretrained(
        folder, fingerprint, *tower, pooling='cls', normalize=False,
        title_end=blink_pretrained.TITLE_END,
    ) for role, tower in blink_pretrained.read(folder).items()}
  return {'shared': _load_folder(folder)}


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
      dense = _modules(place).get('Dense')
      return None if dense is None else json_objects.read(
          dense / 'config.json'
      ).integer('out_features', least=1)
  return None


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
  if count > source.transformer.num_layers:
    raise errors.UserError(
        f'{errors.key("model.layers")}={count}: {name} has '
        f'{source.transformer.num_layers}'
    )
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


def _load_folder(folder: pathlib.Path) -> Pretrained:
  """Reads a folder of one tower."""
  exported.check(folder)
  if not (folder / 'modules.json').exists():
    config, params = families.read(folder, 'encoder')
    return Pretrained(
        folder, tensor_files.fingerprint_of(folder), config, params
    )
  modules = _modules(folder)
  config, params = families.read(modules['Transformer'], 'encoder')
  projection, activation = _dense(modules.get('Dense'), config.hidden_size)
  settings = json_objects.read_if_there(
      folder / 'config_sentence_transformers.json'
  )
  prompts, own = settings.object('prompts'), settings.object(OWN_KEY)
  return Pretrained(
      folder=folder,
      fingerprint=tensor_files.fingerprint_of(folder),
      transformer=config,
      params=params,
      pooling=_pooling(modules.get('Pooling')),
      projection=projection,
      projection_activation=activation,
      normalize='Normalize' in modules,
      max_length=_max_length(folder, modules['Transformer'],
                             config.max_positions),
      query_length=own.integer('query_length', None, _SHORTEST),
      passage_length=own.integer('passage_length', None, _SHORTEST),
      query_prompt=own.text('query_prefix', prompts.text('query', '')),
      passage_prompt=own.text('passage_prefix', prompts.text(
          'document', prompts.text('passage', ''))),
  )


def _modules(folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """Kind of each module of a sentence-transformers folder -> its folder."""
  path = folder / 'modules.json'
  listed = folders.read_json(path)
  if not isinstance(listed, list) or not all(
      isinstance(module, dict) for module in listed
  ):
    raise errors.UserError(
        f'{path}: no list of modules; {json_objects.REMEDY}'
    )
  values = [json_objects.JsonObject(path, module) for module in listed]
  kinds = [module.text('type').rpartition('.')[2] for module in values]
  unknown = set(kinds) - {'Transformer', 'Pooling', 'Dense', 'Normalize'}
  twice = {kind for kind in kinds if kinds.count(kind) > 1}
  if unknown or twice or 'Transformer' not in kinds:
    raise errors.UserError(
        f'{path}: modules {kinds} are not supported; a Transformer, Pooling, '
        'Dense and Normalize are, each once'
    )
  return {kind: folder / module.text('path')
          for kind, module in zip(kinds, values, strict=True)}


def _pooling(folder: pathlib.Path | None) -> str | None:
  if folder is None:
    return None
  values = json_objects.read(folder / 'config.json')
  mode = values.text('pooling_mode', None)
  if mode is None:
    names = {f'pooling_mode_{pooling.switch}': pooling.theirs
             for pooling in pooling_lib.POOLINGS.values()}
    on = [key for key, value in values.values.items()
          if key.startswith('pooling_mode_') and value is True]
    mode = ' + '.join(names.get(key, key) for key in on)
  has_prompt = values.flag('include_prompt', True)
  ours = {pooling.theirs: name
          for name, pooling in pooling_lib.POOLINGS.items()}
  if mode not in ours or not has_prompt:
    *others, last = (f'"{theirs}"' for theirs in ours)
    raise errors.UserError(
        f'{values.path}: pooling "{mode}" (include_prompt {has_prompt}) is not '
        f'supported; {", ".join(others)} and {last} with the prompt included '
        'are'
    )
  return ours[mode]


def _dense(
    folder: pathlib.Path | None, hidden: int
) -> tuple[dict[str, np.ndarray] | None, str]:
  if folder is None:
    return None, 'identity'
  values = json_objects.read(folder / 'config.json')
  name = values.text('activation_function', '')
  activation = name.rpartition('.')[2].lower()
  if activation not in ('identity', 'tanh'):
    raise errors.UserError(
        f'{values.path}: activation "{name}" is not supported; Identity and '
        'Tanh are'
    )
  shape = values.integer('out_features', least=1), values.integer('in_features')
  if shape[1] != hidden:
    raise values.error(
        f'in_features={shape[1]}, and the Transformer gives {hidden}'
    )
  tensors = tensor_files.read_tensors(folder)
  take = lambda name, shape: tensor_files.take(
      tensors, f'linear.{name}', shape, str(folder)
  )
  projection = {'kernel': take('weight', shape).T}
  if values.flag('bias', True):
    projection['bias'] = take('bias', shape[:1])
  elif 'linear.bias' in tensors:
    raise values.error('bias=false, and there are weights of one')
  return projection, activation


def _max_length(
    folder: pathlib.Path, transformer: pathlib.Path, positions: int
) -> int:
  for place in (transformer, folder):
    own = json_objects.read_if_there(place / 'sentence_bert_config.json')
    if own.values:
      break
  key = 'max_seq_length'
  if not own.has(key):
    own = json_objects.read_if_there(transformer / 'tokenizer_config.json')
    key = 'model_max_length'
  length = int(own.number(key, 0)) or positions  # 1e30 there: no limit.
  if length < _SHORTEST:
    raise own.error(f'{key}={length} leaves no room for a text')
  return min(length, positions)
