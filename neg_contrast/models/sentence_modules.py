"""Reads the modules of sentence-transformers folders, without torch."""

import dataclasses
import itertools
import json
import pathlib
from typing import Any

import numpy as np

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.models import json_objects, tensor_files
from neg_contrast.models import pooling as pooling_lib
from neg_contrast.models import projections as projections_lib

SHORTEST = 3
"""Tokens of an input: [CLS], one of the text, [SEP]."""
_ORDER = ('Transformer', 'Pooling', 'Dense', 'Normalize')
_INPUT = 'sentence_embedding'
# In the name of the settings of a Transformer; all but the first are old.
_KINDS = ('bert', 'roberta', 'distilbert', 'camembert', 'albert', 'xlm-roberta',
          'xlnet')


@dataclasses.dataclass(frozen=True)
class Modules:
  """What modules.json lists.

  Attributes:
    folder: of the model.
    transformer: folder of this module.
    pooling: the same; None: there is none.
    dense: folders of the Dense modules, in the order in which they run.
    is_normalized: whether a Normalize module ends it.
  """

  folder: pathlib.Path
  transformer: pathlib.Path
  pooling: pathlib.Path | None
  dense: tuple[pathlib.Path, ...]
  is_normalized: bool


def read(folder: pathlib.Path) -> Modules:
  """Reads modules.json.

  Raises:
    UserError: it is broken, or lists modules that are not supported, or known
      ones in another order.
  """
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
  is_known = kinds[:1] == ['Transformer'] and set(kinds) <= set(_ORDER)
  if not is_known or kinds != sorted(kinds, key=_ORDER.index) or any(
      kinds.count(kind) > 1 for kind in _ORDER if kind != 'Dense'
  ):
    raise errors.UserError(
        f'{path}: modules {kinds} are not supported; a Transformer, a Pooling, '
        'any number of Dense and a Normalize are, in this order'
    )
  places = [(kind, folder / module.text('path'))
            for kind, module in zip(kinds, values, strict=True)]
  return Modules(
      folder=folder,
      transformer=places[0][1],
      pooling=dict(places).get('Pooling'),
      dense=tuple(place for kind, place in places if kind == 'Dense'),
      is_normalized='Normalize' in kinds,
  )


def pooling(modules: Modules) -> str | None:
  """A key of `pooling.POOLINGS`; None: there is no such module.

  Raises:
    UserError: there is no such pooling here.
  """
  if modules.pooling is None:
    return None
  values = json_objects.read(modules.pooling / 'config.json')
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


def features(modules: Modules) -> int | None:
  """Features that the last Dense module gives; None: there is none.

  Raises:
    UserError: its config.json is broken.
  """
  if not modules.dense:
    return None
  values = json_objects.read(modules.dense[-1] / 'config.json')
  return values.integer('out_features', least=1)


def projections(
    modules: Modules, hidden: int
) -> tuple[tuple[projections_lib.Projection, ...], dict[str, Any]]:
  """The Dense modules, and their float32 weights by the names of a tower.

  Args:
    modules: of the folder.
    hidden: features that the Transformer gives.

  Raises:
    UserError: one of them is not supported, or does not fit the one before.
  """
  layers, params = [], {}
  for number, folder in enumerate(modules.dense):
    before = modules.dense[number - 1].name if number else 'Transformer'
    layer, own = _dense(folder, hidden, f'the {before} gives')
    layers.append(layer)
    params[projections_lib.name(number)] = own
    hidden = layer.features
  return tuple(layers), params


def layers(
    modules: Modules, hidden: int
) -> tuple[projections_lib.Projection, ...]:
  """The Dense modules without their weights; otherwise as `projections`."""
  found: list[projections_lib.Projection] = []
  for number, folder in enumerate(modules.dense):
    before = modules.dense[number - 1].name if number else 'Transformer'
    found.append(_layer(json_objects.read(folder / 'config.json'), hidden,
                        f'the {before} gives'))
    hidden = found[-1].features
  return tuple(found)


def _dense(
    folder: pathlib.Path, hidden: int, given: str
) -> tuple[projections_lib.Projection, dict[str, np.ndarray]]:
  values = json_objects.read(folder / 'config.json')
  layer = _layer(values, hidden, given)
  tensors = tensor_files.read_tensors(folder)
  take = lambda name, shape: tensor_files.take(
      tensors, f'linear.{name}', shape, str(folder)
  )
  params = {'kernel': take('weight', (layer.features, hidden)).T}
  if layer.bias:
    params['bias'] = take('bias', (layer.features,))
  elif 'linear.bias' in tensors:
    raise values.error('bias=false, and there are weights of one')
  return layer, params


def _layer(
    values: json_objects.JsonObject, hidden: int, given: str
) -> projections_lib.Projection:
  own = (values.text('module_input_name', _INPUT),
         values.text('module_output_name', _INPUT))
  if own != (_INPUT, _INPUT) or values.flag('use_residual', False):
    raise values.error(
        'a Dense module is supported from sentence_embedding to '
        'sentence_embedding, without use_residual'
    )
  shape = values.integer('out_features', least=1), values.integer('in_features')
  if shape[1] != hidden:
    raise values.error(f'in_features={shape[1]}, and {given} {hidden}')
  return projections_lib.Projection(
      shape[0], values.flag('bias', True), _activation(values)
  )


def _activation(values: json_objects.JsonObject) -> str:
  """A key of `projections.ACTIVATIONS`; Tanh, where the file names none."""
  known = {activation.theirs.rpartition('.')[2]: name for name, activation
           in projections_lib.ACTIVATIONS.items()}
  path = values.text('activation_function', 'torch.Tanh')
  name = path.rpartition('.')[2]
  if name not in known or not path.startswith('torch.'):
    *others, last = known
    raise errors.UserError(
        f'{values.path}: activation "{path}" of the Dense module is not '
        f'supported; {", ".join(others)} and {last} of torch are'
    )
  return known[name]


@dataclasses.dataclass(frozen=True)
class Lengths:
  """Tokens of inputs, [CLS] and [SEP] included.

  Attributes:
    of_any: of all that have no length of their own.
    of_queries: None: they have none.
    of_passages: likewise.
  """

  of_any: int
  of_queries: int | None
  of_passages: int | None


def lengths(modules: Modules, positions: int) -> Lengths:
  """How long inputs may be.

  Args:
    modules: of the folder.
    positions: most that the Transformer takes.

  Raises:
    UserError: the folder says something that can't be.
  """
  for place, kind in itertools.product(
      (modules.transformer, modules.folder), _KINDS):
    own = json_objects.read_if_there(place / f'sentence_{kind}_config.json')
    if own.values:
      break
  if own.values.get('do_lower_case') is True and not _lowers(modules):
    raise own.error('do_lower_case=true: texts are to be written small, which '
                    'the tokenizer does not do; that is not supported')
  for key in ('processing_kwargs', 'query_expansion'):
    if own.values.get(key):
      raise errors.UserError(
          f'{own.path}: {key} is not supported; set lengths by max_seq_length, '
          'query_length and document_length'
      )
  return Lengths(_length_of_any(modules, own, positions), *(
      None if length is None else min(length, positions) for length in (
          own.integer(key, None, SHORTEST)
          for key in ('query_length', 'document_length'))
  ))


def _length_of_any(
    modules: Modules, own: json_objects.JsonObject, positions: int
) -> int:
  key = 'max_seq_length'
  if not own.has(key):
    own = json_objects.read_if_there(
        modules.transformer / 'tokenizer_config.json'
    )
    key = 'model_max_length'
  length = int(own.number(key, 0)) or positions  # 1e30 there: no limit.
  if length < SHORTEST:
    raise own.error(f'{key}={length} leaves no room for a text')
  return min(length, positions)


def is_cosine(settings: json_objects.JsonObject) -> bool:
  """Whether a folder says that cosines compare its vectors.

  Args:
    settings: of config_sentence_transformers.json. Older ones say nothing.

  Raises:
    UserError: it says what is no score function here.
  """
  name = settings.text('similarity_fn_name', 'dot')
  if name not in ('cosine', 'dot'):
    raise errors.UserError(
        f'{settings.path}: similarity_fn_name "{name}" is not supported; '
        '"cosine" and "dot" are'
    )
  return name == 'cosine'


def prompts(settings: json_objects.JsonObject) -> tuple[str, str]:
  """What is put before queries, and before passages.

  A prompt that is usual (`default_prompt_name`) is that of both, unless it is
  named after one of them.

  Args:
    settings: of config_sentence_transformers.json.

  Raises:
    UserError: a prompt is no text.
  """
  own, found = settings.object('prompts'), []
  usual = str(settings.values.get('default_prompt_name') or '')
  roles = ('query',), ('document', 'passage')
  for names, others in (roles, roles[::-1]):
    listed = [*names, *([] if usual in others else [usual])]
    found.append(next(
        (own.text(name) for name in listed if own.has(name)), ''))
  return found[0], found[1]


def _lowers(modules: Modules) -> bool:
  """Whether the tokenizer writes all letters small."""
  tokenizer, config = (json_objects.read_if_there(modules.transformer / name)
                       for name in ('tokenizer.json', 'tokenizer_config.json'))
  normalizer = json.dumps(tokenizer.values.get('normalizer'))
  return (config.values.get('do_lower_case') is True
          or '"Lowercase"' in normalizer or '"lowercase": true' in normalizer)
