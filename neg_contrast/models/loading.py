"""Dual encoders: from a folder of others, and from a workdir of ours.

Reads files; the modules it assembles are pure.
"""

import dataclasses
import functools
import pathlib
import types
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.data.side_features import side_feature
from neg_contrast.models import (
  descriptions,
  dual_encoder,
  encoder_settings,
  families,
  family,
  model_names,
  named_sizes,
  peft_start,
  pretrained,
  tensor_files,
  text_spec,
  transformer,
)
from neg_contrast.settings import config as config_lib

FILE = 'encoder.json'


@dataclasses.dataclass(frozen=True)
class Model:
  """A dual encoder, ready to train or to encode.

  Attributes:
    spec: shapes and layers of a tower.
    text: how text becomes input.
    tokenizer: makes token ids.
    params: towers, numpy or jax arrays.
    name: where it came from.
    fingerprint: of weights and settings.
    adapted: an `adapted.Adapted`, of which `params` are the sum; None: nothing
      was adapted.
  """

  spec: dual_encoder.EncoderSpec
  text: text_spec.TextSpec
  tokenizer: tokenizer_lib.Tokenizer
  params: Any
  name: str
  fingerprint: str
  adapted: Any = None

  @property
  def side_features(self) -> tuple[side_feature.SideFeature, ...]:
    """What it reads of queries and passages beside text."""
    return self.spec.side_features


def from_pretrained(
    name: str, config: config_lib.ModelConfig, seed: int
) -> Model:
  """A model with the weights of a BERT-family or sentence-transformers folder.

  Args:
    name: folder, hub name, `minilm` or `random:SIZE`; or an exported folder of
      two towers.
    config: settings that override what the folder brings.
    seed: of random weights.

  Raises:
    UserError: the folder can't be used, or a setting does not fit it.
  """
  sources = {
      role: pretrained.first_layers(source, config.layers, name)
      for role, source in load_towers(name, seed).items()
  }
  source = next(iter(sources.values()))
  if len(sources) > 1:
    _check_towers(sources, config, name)
  tokenizer = tokenizer_lib.load_tokenizer(str(source.folder))
  if tokenizer.vocab_size > source.transformer.vocab_size:
    raise errors.UserError(
        f'{name}: its tokenizer has {tokenizer.vocab_size} tokens and its '
        f'model {source.transformer.vocab_size} embeddings; the tokenizer '
        'belongs to another model'
    )
  text = encoder_settings.text_of(sources, config, name)
  for tower in sources.values():
    _check_prompts(text, tower, tokenizer, name)
  spec = encoder_settings.with_score(
      encoder_settings.layers_of(source, config), text, config
  )
  params = _towers(sources, spec, seed)
  return Model(
      spec=spec,
      text=text,
      tokenizer=tokenizer,
      params=params,
      name=name,
      fingerprint=folders.sha256_json({
          'weights': source.fingerprint if len(sources) == 1 else [
              tower.fingerprint for tower in sources.values()
          ],
          'spec': spec.to_json(),
          'text': _text_identity(text, tokenizer),
          'tokenizer': tokenizer.sha256,
          'seed': seed if (
              encoder_settings.is_projection_new(spec, source)
              or spec.score.codes
          ) else 0,
      }),
  )


def _check_prompts(
    text: text_spec.TextSpec, source: pretrained.Pretrained,
    tokenizer: tokenizer_lib.Tokenizer, name: str,
) -> None:
  """Refuses prompts that would make one token with the first word."""
  for role in ('query', 'passage'):
    prefix = text.prefix(role)
    if prefix in source.joined and not tokenizer.may_join(prefix):
      key = errors.key(f'model.{role}_prefix')
      raise errors.UserError(
          f'{name}: its prompt {prefix!r} ends in no white space, and '
          'sentence-transformers joins it with the first word of a text; that '
          f'is not supported with this tokenizer. Set --{key}={prefix + " "!r}'
      )


def shape_by_name(
    name: str, config: config_lib.ModelConfig
) -> tuple[dual_encoder.EncoderSpec, text_spec.TextSpec]:
  """Shapes and text settings of a model, without its weights.

  Args:
    name: as of `from_pretrained`; what lies on this machine is read, the shapes
      of others have to be in the sizes of a family.
    config: settings that override what the model brings.

  Raises:
    UserError: nothing is known of it.
  """
  sources = describe_towers(name)
  if len(sources) > 1:
    check_shared(config, name)
  if config.layers is not None:
    sources = {role: _lower_layers(source, config.layers, name)
               for role, source in sources.items()}
  text = encoder_settings.text_of(sources, config, name)
  return encoder_settings.with_unfitted_features(encoder_settings.with_score(
      encoder_settings.layers_of(next(iter(sources.values())), config), text,
      config,
  ), config), text


def describe_towers(name: str) -> dict[str, pretrained.Pretrained]:
  """What a model brings, but for its weights, which are not read.

  Args:
    name: what lies on this machine is looked at; of the hub's names, the shapes
      have to be in the sizes of a family.

  Raises:
    UserError: a file is missing or broken, or nothing is known of it.
  """
  folder = model_names.here(name)
  if folder is None:
    shape = named_sizes.shape_by_name(name, 'encoder')
    return {'shared': pretrained.Pretrained(pathlib.Path(), name, shape, {})}
  if peft_start.is_one(folder):
    return peft_start.describe_towers(folder, describe_towers)
  return pretrained.describe_towers(folder)


def check_files(name: str, purpose: family.Purpose) -> None:
  """Looks at the files of a model, of which weights are not read.

  What has to be downloaded first is not looked at.

  Raises:
    UserError: the name can be none, or a file is missing or broken.
  """
  folder = model_names.here(model_names.tokenizer_place(name))
  if folder is None:
    return
  if peft_start.is_one(folder):
    check_files(peft_start.base_name(folder), purpose)
    return
  if model_names.is_random(name):
    tokenizer_lib.check_files(folder)
  elif purpose == 'generator':
    families.shape_of(folder, purpose)
    tensor_files.find(folder, 'T5ForConditionalGeneration')
    tokenizer_lib.check_files(folder)
  else:
    for tower in pretrained.describe_towers(folder).values():
      tokenizer_lib.check_files(tower.folder)


def _lower_layers(
    source: pretrained.Pretrained, count: int, name: str
) -> pretrained.Pretrained:
  """A described tower without its upper layers; raises as `first_layers`."""
  pretrained.check_layers(source.transformer, count, name)
  return dataclasses.replace(source, transformer=dataclasses.replace(
      source.transformer, num_layers=count
  ))


def load_towers(name: str, seed: int) -> dict[str, pretrained.Pretrained]:
  """`pretrained.load_towers`; `random:SIZE` and folders of peft too."""
  if not model_names.is_random(name):
    folder = model_names.locate(name)
    if peft_start.is_one(folder):
      return peft_start.load_towers(
          folder, functools.partial(load_towers, seed=seed)
      )
    return pretrained.load_towers(name)
  config, folder = named_sizes.read(name, 'encoder')
  spec = dual_encoder.EncoderSpec(config)
  params = dual_encoder.init_params(spec, jax.random.key(seed))
  return {'shared': pretrained.Pretrained(
      folder, f'{name}, seed {seed}', config,
      jax.tree.map(np.asarray, params['shared'][transformer.KEY]),
  )}


def projection_features(name: str) -> int | None:
  """`pretrained.projection_features`; of plain folders of peft, the base's."""
  while (model_names.has_folder(name)
         and peft_start.is_one(folder := model_names.locate(name))
         and not peft_start.has_modules(folder)):
    name = peft_start.base_name(folder)
  return pretrained.projection_features(name)


def save_description(
    model: Model, workdir: pathlib.Path,
    more: Mapping[str, Any] = types.MappingProxyType({}),
) -> None:
  """Writes all of a model but its weights, so that a workdir is complete.

  Args:
    model: what training starts from.
    workdir: of the training.
    more: what else it says, see `adapted.describe`.
  """
  descriptions.save(workdir / FILE, {
      'encoder': model.spec.to_json(),
      'text': dataclasses.asdict(model.text),
      'init': model.name,
      'base_model': model_names.hub_name(model.name),
      'init_fingerprint': model.fingerprint,
      **more,
  }, model.tokenizer)


def read_description(
    workdir: pathlib.Path,
) -> tuple[
    dual_encoder.EncoderSpec, text_spec.TextSpec, tokenizer_lib.Tokenizer
]:
  """Reads back what `save_description` wrote.

  Raises:
    UserError: a file is missing or damaged, or the tokenizer is another one.
  """
  path = workdir / FILE
  saved = descriptions.read(path)
  spec, text = descriptions.parse(path, saved, lambda values: (
      dual_encoder.EncoderSpec.from_json(values['encoder']),
      text_spec.TextSpec(**values['text']),
  ), 'an encoder')
  return spec, text, descriptions.read_tokenizer(
      path, saved, tokenizer_lib.load_tokenizer
  )


def from_workdir(
    workdir: pathlib.Path,
    params_of: Callable[[Any], tuple[Any, str]],
    name: str,
) -> Model:
  """The dual encoder that a workdir describes.

  Args:
    workdir: has what `save_description` wrote.
    params_of: abstract parameters -> those of the wanted checkpoint, and a hash
      of them.
    name: what to call it.

  Raises:
    UserError: as `read_description`.
  """
  spec, text, tokenizer = read_description(workdir)
  params, weights = params_of(shape_of(spec))
  return Model(
      spec, text, tokenizer, params, name, folders.sha256_json({
          'weights': weights,
          'spec': spec.to_json(),
          'text': _text_identity(text, tokenizer),
          'tokenizer': tokenizer.sha256,
      }),
  )


def _text_identity(
    text: text_spec.TextSpec, tokenizer: tokenizer_lib.Tokenizer
) -> dict[str, Any]:
  """What embeddings depend on; prefixes once were tokenized apart always."""
  joined = [role for role in ('query', 'passage') if text.prefix(role)
            and not tokenizer.is_apart(text.prefix(role))]
  return text.identity | ({'joined': joined} if joined else {})


def check_shared(config: config_lib.ModelConfig, name: str) -> None:
  """Refuses one tower for queries and passages, of a model that has two.

  Raises:
    UserError: names the key.
  """
  if config.shared:
    raise errors.UserError(
        f'{name}: holds a query and a passage tower; add '
        f'--{errors.key("model.shared")}=False, or name one of its two folders'
    )


def _check_towers(
    sources: dict[str, pretrained.Pretrained],
    config: config_lib.ModelConfig,
    name: str,
) -> None:
  """Whether two towers make one model.

  Raises:
    UserError: one is asked for, or they differ in more than their weights.
  """
  check_shared(config, name)
  ours, theirs = (
      {
          'layers': encoder_settings.layers_of(source, config),
          'tokenizer': tokenizer_lib.load_tokenizer(str(source.folder)).sha256,
      }
      for source in (sources['query'], sources['passage'])
  )
  for key, value in ours.items():
    if theirs[key] != value:
      raise errors.UserError(
          f'{name}: query and passage differ in their {key}: {value} and '
          f'{theirs[key]}; these are not the two towers of one model'
      )


def _towers(
    sources: dict[str, pretrained.Pretrained],
    spec: dual_encoder.EncoderSpec,
    seed: int,
) -> dict[str, Any]:
  """The pretrained weights in each tower; a new projection is random."""

  def tower(name: str, source: pretrained.Pretrained) -> dict[str, Any]:
    params: dict[str, Any] = {transformer.KEY: source.params}
    if spec.projections:
      params |= (
          dual_encoder.init_projection(spec, jax.random.key(seed))
          if encoder_settings.is_projection_new(spec, source)
          else source.projection_params
      )
    if spec.score.codes and name == 'query':
      params['codes'] = dual_encoder.init_codes(spec, jax.random.key(seed))
    return jax.tree.map(np.asarray, params)

  names = ('shared',) if spec.shared else ('query', 'passage')
  return {name: tower(name, sources.get(name) or sources['shared'])
          for name in names}


def shape_of(spec: dual_encoder.EncoderSpec) -> Any:
  """Abstract parameters (ShapeDtypeStructs) of a spec."""
  return jax.tree.map(lambda leaf: leaf, _shape_of(spec))  # A tree of its own.


@functools.lru_cache(maxsize=16)
def _shape_of(spec: dual_encoder.EncoderSpec) -> Any:
  return jax.eval_shape(
      lambda: dual_encoder.init_params(spec, jax.random.key(0))
  )
