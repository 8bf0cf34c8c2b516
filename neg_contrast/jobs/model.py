"""The model of a job: which weights, and how they are computed with."""

import dataclasses
import hashlib
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neg_contrast import artifacts, errors
from neg_contrast import checkpoints as checkpoints_lib
from neg_contrast import config as config_lib
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.models import (
    dual_encoder,
    generator,
    loading,
    pretrained,
    random_init,
    t5,
)

ENSEMBLE_FILE = 'ensemble.json'


def compute_dtype(
    config: config_lib.ModelConfig, platform: str | None = None
) -> Any:
  """The dtype layers compute in; None: on this machine's devices."""
  if config.dtype == 'auto':
    is_cpu = (platform or jax.default_backend()) == 'cpu'
    return jnp.float32 if is_cpu else jnp.bfloat16
  return jnp.dtype(config.dtype)


def chunk_tokens(config: config_lib.IndexConfig) -> int:
  """Tokens that this machine's devices encode at once."""
  is_cpu = jax.default_backend() == 'cpu'
  return config.chunk_tokens or (2048 if is_cpu else 8192)


def make_module(
    spec: dual_encoder.EncoderSpec,
    config: config_lib.ModelConfig,
    platform: str | None = None,
) -> dual_encoder.Encoder:
  """The module of a spec, with this config's compute settings.

  CPUs have fast products of bfloat16 numbers, and nothing else of theirs.

  Args:
    spec: shapes and layers.
    config: the settings.
    platform: that it is for; None: that of this machine's devices.
  """
  platform = platform or jax.default_backend()
  dtype, is_cpu = compute_dtype(config, platform), platform == 'cpu'
  return dual_encoder.Encoder(
      spec=spec,
      dtype=jnp.float32 if is_cpu else dtype,
      remat=config.remat,
      scan_unroll=min(config.scan_unroll, spec.bert.num_layers),
      operand_dtype=dtype,
      by_row=is_cpu,
  )


def load_as_it_comes(
    config: config_lib.Config, name: str
) -> loading.Model:
  """A model that brings all its own settings; raises as `load_checkpoint`."""
  towers = (() if is_workdir(name)
            else loading.load_towers(name, config.seed))
  model = config_lib.ModelConfig(
      init=config.model.init, shared=len(towers) < 2
  )
  return load_checkpoint(dataclasses.replace(config, model=model), name)


def make_t5(
    shape: t5.T5Config, config: config_lib.ModelConfig
) -> t5.T5:
  """The module of a generator, with this config's compute settings."""
  layers = min(shape.num_layers, shape.num_decoder_layers)
  return t5.T5(
      shape, compute_dtype(config), config.remat,
      min(config.scan_unroll, layers),
  )


def missing_generator(name: str) -> str | None:
  """What is wrong with a generator, as far as a look at its place tells."""
  if (pathlib.Path(name) / generator.FILE).exists():
    return None
  try:
    pretrained.check_place(random_init.tokenizer_place(name))
  except errors.UserError as e:
    return str(e)
  return None


def load_generator(
    config: config_lib.Config, name: str
) -> generator.Generator:
  """A question generator by name: a workdir of ours, or a T5 of others.

  Raises:
    UserError: there is no such model, or it is another kind of model.
  """
  if (pathlib.Path(name) / generator.FILE).exists():
    return load_generator_workdir(pathlib.Path(name))
  if random_init.is_random(name):
    raise errors.UserError(
        f'config.checkpoint={name}: random weights write noise; name the '
        'workdir of a trained question generator, or a T5 folder'
    )
  if is_workdir(name):
    raise errors.UserError(
        f'{name}: holds a trained dual encoder, which writes no questions; '
        'name the workdir of a question generator, or a T5 folder'
    )
  return generator.from_pretrained(name, config.model, False, config.seed)


def load_generator_workdir(workdir: pathlib.Path) -> generator.Generator:
  """The selected checkpoint of a trained generator.

  Raises:
    UserError: it has no checkpoint yet.
  """
  checkpoints = checkpoints_lib.Checkpoints(workdir)
  step = checkpoints.selected_step()

  def read(like):
    params = checkpoints.restore_params('generator', like, step)
    return params, _sha256(params)

  made = generator.from_workdir(workdir, read, f'{workdir} step {step}')
  checkpoints.close()
  return made


def is_workdir(checkpoint: str) -> bool:
  """Whether it is a workdir that training a dual encoder has begun in.

  Raises:
    UserError: it is one of a question generator.
  """
  if (pathlib.Path(checkpoint) / generator.FILE).exists():
    raise errors.UserError(
        f'{checkpoint}: holds a question generator, and a dual encoder is '
        'needed here'
    )
  return (pathlib.Path(checkpoint) / loading.ENCODER_FILE).exists()


def is_ensemble(checkpoint: str) -> bool:
  """Whether it is a workdir of `job=ensemble`, with its weights."""
  return (pathlib.Path(checkpoint) / ENSEMBLE_FILE).exists()


def load_checkpoint(
    config: config_lib.Config, name: str = ''
) -> loading.Model:
  """A model by name: a workdir of ours, or a folder or name of others.

  A workdir gives its selected checkpoint: the best on the tune split, or the
  latest where none was evaluated.

  Args:
    config: settings of the model.
    name: of the checkpoint; default: `config.checkpoint`.

  Raises:
    UserError: there is no such model, or it was trained with other settings
      than are asked for.
  """
  name = name or config.checkpoint
  if is_ensemble(name):
    raise errors.UserError(
        f'{name}: is an ensemble, and one model is needed here; name one of '
        'its members'
    )
  if not is_workdir(name):
    return loading.from_pretrained(name, config.model, config.seed)
  model = load_workdir(pathlib.Path(name))
  own = {**model.spec.to_json(), **dataclasses.asdict(model.text)}
  for key in ('pooling', 'projection_dim', 'normalize', 'query_length',
              'passage_length', 'query_prefix', 'passage_prefix'):
    wanted = getattr(config.model, key)
    if wanted is not None and (wanted or None) != (own[key] or None):
      raise errors.UserError(
          f'config.model.{key}={wanted!r}: {name} was trained '
          f'with {own[key]!r}; leave it out'
      )
  layers = model.spec.bert.num_layers
  if config.model.layers not in (None, layers):
    raise errors.UserError(
        f'config.model.layers={config.model.layers}: {name} has {layers}; '
        'leave it out'
    )
  return model


def load_tokenizer(name: str) -> tokenizer_lib.Tokenizer:
  """The tokenizer of a workdir, or of a folder or name of others."""
  if is_workdir(name):
    return loading.read_description(pathlib.Path(name))[2]
  tower = next(iter(loading.load_towers(name, 0).values()))
  return tokenizer_lib.load_tokenizer(str(tower.folder))


def missing(checkpoint: str) -> str | None:
  """What is wrong with a checkpoint, as far as a look at its place tells."""
  try:
    if is_workdir(checkpoint) or is_ensemble(checkpoint):
      return None
    pretrained.check_place(random_init.tokenizer_place(checkpoint))
  except errors.UserError as e:
    return str(e)
  return None


def load_workdir(workdir: pathlib.Path) -> loading.Model:
  """The selected checkpoint of a trained workdir.

  Raises:
    UserError: it has no checkpoint yet.
  """
  spec, text, tokenizer = loading.read_description(workdir)
  checkpoints = checkpoints_lib.Checkpoints(workdir)
  step = checkpoints.selected_step()
  like = loading.shape_of(spec)
  params = checkpoints.restore_params('encoder', like, step)
  checkpoints.close()
  return loading.Model(
      spec, text, tokenizer, params, f'{workdir} step {step}',
      artifacts.sha256_json({
          'weights': _sha256(params),
          'spec': spec.to_json(),
          'text': dataclasses.asdict(text),
          'tokenizer': tokenizer.sha256,
      }),
  )


def _sha256(params: Any) -> str:
  """Of names, shapes and values of all arrays."""
  digest = hashlib.sha256()
  for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
    array = np.ascontiguousarray(leaf)
    digest.update(f'{jax.tree_util.keystr(path)} {array.shape}'.encode())
    digest.update(array.view(np.uint8).data)
  return digest.hexdigest()
