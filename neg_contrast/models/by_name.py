"""The model of a job: which weights, and how they are computed with."""

import dataclasses
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from neg_contrast import errors
from neg_contrast.artifacts import places
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.models import (
  attention,
  cross_encoder,
  dual_encoder,
  encoder_settings,
  generator,
  kinds,
  loading,
  model_names,
  named_sizes,
  reranker,
  t5,
  t5_config,
  text_spec,
)
from neg_contrast.settings import config as config_lib

_IS_ENSEMBLE = ('is an ensemble, and one model is needed here; name one of its '
                'members')
_MOST_UNROLLED = 12  # Layers: a loop copies what it keeps of each.


def compute_dtype(
    config: config_lib.ModelConfig, platform: str | None = None
) -> Any:
  """The dtype layers compute in; None: on this machine's devices.

  `auto` is bfloat16 but for CPUs, and GPUs before Ampere (T4), which lack it.
  """
  if config.dtype == 'auto':
    platform = platform or jax.default_backend()
    lacks = platform == 'cpu' or (platform == 'gpu' and any(
        map(_lacks_bfloat16, jax.local_devices(backend='gpu'))
    ))
    return jnp.float32 if lacks else jnp.bfloat16
  return jnp.dtype(config.dtype)


def _lacks_bfloat16(device: Any) -> bool:
  """Whether it is a GPU of NVIDIA before Ampere."""
  major = getattr(device, 'compute_capability', '8.0').split('.')[0]
  return major.isdecimal() and int(major) < 8


def chunk_tokens(config: config_lib.IndexConfig) -> int:
  """Tokens that this machine's devices encode at once."""
  is_cpu = jax.default_backend() == 'cpu'
  return config.chunk_tokens or (2048 if is_cpu else 8192)


def make_module(
    spec: dual_encoder.EncoderSpec,
    config: config_lib.ModelConfig,
    row_length: int,
    mesh: Mesh,
    is_training: bool = False,
) -> dual_encoder.Encoder:
  """The module of a spec, with this config's compute settings.

  CPUs have fast products of bfloat16 numbers, and nothing else of theirs.

  Args:
    spec: shapes and layers.
    config: how it is computed.
    row_length: tokens of a packed row; 0: it is chosen by the data.
    mesh: devices that it is for.
    is_training: whether with dropout.

  Raises:
    UserError: `config.model.attention` can't work with that.
  """
  return dual_encoder.Encoder(
      spec=spec,
      attention=attention.make(
          spec.transformer, config.attention, row_length,
          compute_dtype(config, _platform(mesh)), mesh, is_training,
      ),
      **_computing(spec, config, _platform(mesh), is_training),
  )


def make_cross_encoder(
    spec: cross_encoder.CrossEncoderSpec,
    config: config_lib.ModelConfig,
    is_training: bool = False,
) -> cross_encoder.CrossEncoder:
  """The same of a cross-encoder, on this machine's devices.

  Args:
    spec: shapes and layers.
    config: how it is computed.
    is_training: whether it is trained.
  """
  return cross_encoder.CrossEncoder(spec=spec, **_computing(
      spec, config, jax.default_backend(), is_training
  ))


def _platform(mesh: Mesh) -> str:
  return mesh.devices.flat[0].platform


def _computing(spec, config, platform, is_training) -> dict[str, Any]:
  dtype, is_cpu = compute_dtype(config, platform), platform == 'cpu'
  layers = spec.transformer.num_layers
  unrolls = is_cpu and is_training and layers <= _MOST_UNROLLED
  return {
      'by_row': is_cpu,
      'dtype': jnp.float32 if is_cpu else dtype,
      'remat': config.remat,
      'scan_unroll': min(
          config.scan_unroll or (layers if unrolls else 1), layers
      ),
      'operand_dtype': dtype,
  }


def make_t5(
    shape: t5_config.T5Config, config: config_lib.ModelConfig
) -> t5.T5:
  """The module of a generator, with this config's compute settings."""
  layers = min(shape.num_layers, shape.num_decoder_layers)
  return t5.T5(
      shape, compute_dtype(config), config.remat,
      min(config.scan_unroll or 1, layers),
  )


def is_workdir(checkpoint: str) -> bool:
  """Whether it is a workdir that training a dual encoder has begun in.

  Raises:
    UserError: it is one of a question generator or of a reranker.
  """
  return kinds.check(
      checkpoint, kinds.ENCODER, kinds.ENSEMBLE
  ) is kinds.ENCODER


def is_ensemble(checkpoint: str) -> bool:
  """Whether it is a workdir of `job=ensemble`, with its weights."""
  return kinds.kind_of(checkpoint) is kinds.ENSEMBLE


def is_reranker(checkpoint: str) -> bool:
  """Whether it is a cross-encoder: a workdir of ours, or one of others.

  Raises:
    UserError: there is no such model, or it is a question generator.
  """
  kind = kinds.check(
      checkpoint, kinds.ENCODER, kinds.ENSEMBLE, kinds.RERANKER
  )
  if kind is None:
    return reranker.is_classifier(checkpoint)
  return kind is kinds.RERANKER


def missing(checkpoint: str, is_start: bool = False) -> str | None:
  """What is wrong with a dual encoder (or start), as far as a look tells."""
  if is_ensemble(checkpoint):
    return f'{checkpoint}: {_IS_ENSEMBLE}'
  lack = _missing(checkpoint, kinds.ENCODER)
  if lack is None and not is_start and hub_name(checkpoint) is None:
    try:
      _refuse_classifier(checkpoint)
    except errors.UserError as e:
      return str(e)
  return lack


def _refuse_classifier(name: str) -> None:
  if kinds.kind_of(name) is None and reranker.is_classifier(name):
    raise errors.UserError(
        f'{name}: is a cross-encoder, whose first layers are no dual encoder; '
        'name a dual encoder here, and rank by this one with configs/rerank.py'
    )


def missing_generator(name: str) -> str | None:
  """As `missing`, of a question generator."""
  return _missing(name, kinds.GENERATOR)


def missing_reranker(checkpoint: str) -> str | None:
  """As `missing`, of a cross-encoder or a BERT to make one of."""
  return _missing(checkpoint, kinds.RERANKER)


def _missing(name: str, *wanted: kinds.Kind) -> str | None:
  try:
    kind = kinds.check(name, *wanted)
    if kind is None:
      loading.check_files(
          name, 'generator' if kinds.GENERATOR in wanted else 'encoder'
      )
    elif kind.weights:
      kinds.check_trained(places.path(name))
  except errors.UserError as e:
    return str(e)
  return None


def hub_name(name: str) -> str | None:
  """The name of the hub that has to be downloaded first; None: none has.

  Raises:
    UserError: it can be no name of the hub.
  """
  if kinds.kind_of(name) is not None:
    return None
  place = model_names.tokenizer_place(name)
  return place if model_names.here(place) is None else None


def remote_name(name: str) -> str | None:
  """The name of the hub that a name means, kept here or not; None: none.

  What comes with a package is none.
  """
  place = model_names.tokenizer_place(name)
  if kinds.kind_of(name) is not None or model_names.has_folder(place):
    return None
  return model_names.hub_name(place)


def describe(
    name: str, config: config_lib.ModelConfig
) -> tuple[dual_encoder.EncoderSpec, text_spec.TextSpec]:
  """Shapes and text settings of a dual encoder; its weights are not read.

  Raises:
    UserError: a file is missing or broken, a setting does not fit the model, or
      nothing is known of it before it is downloaded.
  """
  if not is_workdir(name):
    return loading.shape_by_name(name, config)
  spec, text, _ = loading.read_description(places.path(name))
  return spec, text


def load_checkpoint(
    name: str, config: config_lib.ModelConfig, seed: int,
    is_start: bool = False,
) -> loading.Model:
  """A dual encoder by name: a workdir of ours, or a folder or name of others.

  A workdir gives its selected checkpoint: the best on the tune split, or the
  latest where none was evaluated.

  Args:
    name: of the checkpoint.
    config: settings of the model.
    seed: of random weights.
    is_start: it is to be trained: a cross-encoder gives its transformer.

  Raises:
    UserError: there is no such model, it is a cross-encoder, or it was trained
      with other settings than are asked for.
  """
  if not is_start:
    _refuse_classifier(name)
  if is_ensemble(name):
    raise errors.UserError(f'{name}: {_IS_ENSEMBLE}')
  if not is_workdir(name):
    return loading.from_pretrained(name, config, seed)
  model = load_workdir(places.path(name))
  encoder_settings.refuse_other_settings(config, model.spec, model.text, name)
  return model


def load_start(config: config_lib.ModelConfig, seed: int) -> loading.Model:
  """The dual encoder that `model.init` names, to be trained.

  Raises:
    UserError: as `load_checkpoint`, but for cross-encoders; or it shares its
      tower and the config does not, or the other way round.
  """
  model = load_checkpoint(config.init, config, seed, is_start=True)
  if model.spec.shared != config.shared:
    raise errors.UserError(
        f'{errors.key("model.shared")}={config.shared}: {config.init} was '
        f'trained with {model.spec.shared}; set the same'
    )
  return model


def load_as_it_comes(name: str, seed: int) -> loading.Model:
  """A model that brings all its own settings; raises as `load_checkpoint`."""
  _refuse_classifier(name)
  towers = () if is_workdir(name) else loading.load_towers(name, seed)
  return load_checkpoint(
      name, config_lib.ModelConfig(init=name, shared=len(towers) < 2), seed
  )


def load_generator(
    name: str, config: config_lib.ModelConfig, seed: int
) -> generator.Generator:
  """A question generator by name: a workdir of ours, or a T5 of others.

  Args:
    name: of the model.
    config: lengths, prefix and dropout, for a T5 of others.
    seed: of random weights.

  Raises:
    UserError: there is no such model, or it is another kind of model.
  """
  if kinds.check(name, kinds.GENERATOR):
    return load_generator_workdir(places.path(name))
  if model_names.is_random(name):
    raise errors.UserError(
        f'{errors.key("checkpoint")}={name}: random weights write noise; name '
        'the workdir of a trained question generator, or a T5 folder'
    )
  return generator.from_pretrained(name, config, False, seed)


def load_reranker(
    name: str, config: config_lib.ModelConfig, seed: int
) -> reranker.Reranker:
  """A cross-encoder by name: a workdir of ours, or a folder or name of others.

  Args:
    name: of the model.
    config: settings of the model.
    seed: of random weights.

  Raises:
    UserError: there is no such model, it is another kind of model, or it was
      trained with other settings than are asked for.
  """
  if kinds.check(name, kinds.RERANKER) is None:
    return reranker.from_pretrained(name, config, seed)
  model = load_reranker_workdir(places.path(name))
  own = {**dataclasses.asdict(model.text),
         'layers': model.spec.transformer.num_layers}
  for key, value in own.items():
    wanted = getattr(config, key)
    if wanted is not None and wanted != value:
      raise errors.UserError(
          f'{errors.key(f"model.{key}")}={wanted!r}: {name} was trained with '
          f'{value!r}; leave it out, or set that'
      )
  return model


def load_workdir(workdir: pathlib.Path) -> loading.Model:
  """The trained dual encoder of a workdir; raises as `kinds.load`."""
  return kinds.load(kinds.ENCODER, workdir)


def load_generator_workdir(workdir: pathlib.Path) -> generator.Generator:
  """The trained generator of a workdir; raises as `kinds.load`."""
  return kinds.load(kinds.GENERATOR, workdir)


def load_reranker_workdir(workdir: pathlib.Path) -> reranker.Reranker:
  """The trained cross-encoder of a workdir; raises as `kinds.load`."""
  return kinds.load(kinds.RERANKER, workdir)


def load_tokenizer(name: str) -> tokenizer_lib.Tokenizer:
  """The tokenizer of a workdir, or of a folder or name of others."""
  if is_workdir(name):
    return loading.read_description(places.path(name))[2]
  if model_names.is_random(name):  # Its weights take seconds to draw.
    _, folder = named_sizes.read(name, 'encoder')
    return tokenizer_lib.load_tokenizer(str(folder))
  tower = next(iter(loading.load_towers(name, 0).values()))
  return tokenizer_lib.load_tokenizer(str(tower.folder))


def check_one_vector(model: loading.Model, why: str) -> loading.Model:
  """The model, if a text is one vector for it.

  Raises:
    UserError: its score compares several.
  """
  if not model.spec.score.is_dot:
    raise errors.UserError(
        f'{model.name}: texts have several vectors for its score function, and '
        f'{why} one; name a model with {errors.key("model.score")}=dual'
    )
  return model
