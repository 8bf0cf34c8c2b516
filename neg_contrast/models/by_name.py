"""The model of a job: which weights, and how they are computed with."""

import dataclasses
import hashlib
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from neg_contrast import checkpoints as checkpoints_lib
from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.models import (
  attention,
  cross_encoder,
  dual_encoder,
  generator,
  loading,
  pretrained,
  random_init,
  reranker,
  t5,
)
from neg_contrast.settings import config as config_lib

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
    config: config_lib.Config,
    mesh: Mesh,
    is_training: bool = False,
) -> dual_encoder.Encoder:
  """The module of a spec, with this config's compute settings.

  CPUs have fast products of bfloat16 numbers, and nothing else of theirs.

  Args:
    spec: shapes and layers.
    config: of the run.
    mesh: devices that it is for.
    is_training: whether with dropout.

  Raises:
    UserError: `config.model.attention` can't work with that.
  """
  return dual_encoder.Encoder(
      spec=spec,
      attention=attention.make(
          spec.bert, config, compute_dtype(config.model, _platform(mesh)), mesh,
          is_training,
      ),
      by_row=_platform(mesh) == 'cpu',
      **_computing(spec, config.model, _platform(mesh)),
  )


def make_cross_encoder(
    spec: cross_encoder.CrossEncoderSpec, config: config_lib.ModelConfig
) -> cross_encoder.CrossEncoder:
  """The same of a cross-encoder, on this machine's devices."""
  return cross_encoder.CrossEncoder(
      spec=spec, **_computing(spec, config, jax.default_backend())
  )


def _platform(mesh: Mesh) -> str:
  return mesh.devices.flat[0].platform


def _computing(spec, config, platform) -> dict[str, Any]:
  dtype, is_cpu = compute_dtype(config, platform), platform == 'cpu'
  return {
      'dtype': jnp.float32 if is_cpu else dtype,
      'remat': config.remat,
      'scan_unroll': min(config.scan_unroll, spec.bert.num_layers),
      'operand_dtype': dtype,
  }


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


def is_reranker(checkpoint: str) -> bool:
  """Whether it is a cross-encoder: a workdir of ours, or one of others.

  Raises:
    UserError: there is no such model, or it is a question generator.
  """
  if (pathlib.Path(checkpoint) / reranker.FILE).exists():
    return True
  return not (is_ensemble(checkpoint) or is_workdir(checkpoint)) and (
      reranker.is_classifier(checkpoint)
  )


def missing_reranker(checkpoint: str) -> str | None:
  """As `missing`, of a cross-encoder or a BERT to make one of."""
  if (pathlib.Path(checkpoint) / reranker.FILE).exists():
    return None
  try:
    _refuse_others(checkpoint)
  except errors.UserError as e:
    return str(e)
  return missing(checkpoint)


def load_reranker(config: config_lib.Config, name: str) -> reranker.Reranker:
  """A cross-encoder by name: a workdir of ours, or a folder or name of others.

  Raises:
    UserError: there is no such model, it is another kind of model, or it was
      trained with other settings than are asked for.
  """
  if not (pathlib.Path(name) / reranker.FILE).exists():
    _refuse_others(name)
    return reranker.from_pretrained(name, config.model, config.seed)
  made = load_reranker_workdir(pathlib.Path(name))
  own = {**dataclasses.asdict(made.text), 'layers': made.spec.bert.num_layers}
  for key, value in own.items():
    wanted = getattr(config.model, key)
    if wanted is not None and wanted != value:
      raise errors.UserError(
          f'config.model.{key}={wanted!r}: {name} was trained with {value!r}; '
          'leave it out'
      )
  return made


def load_reranker_workdir(workdir: pathlib.Path) -> reranker.Reranker:
  """The selected checkpoint of a trained cross-encoder.

  Raises:
    UserError: it has no checkpoint yet.
  """
  checkpoints = checkpoints_lib.Checkpoints(workdir)
  step = checkpoints.selected_step()

  def read(like):
    params = checkpoints.restore_params('reranker', like, step)
    return params, _sha256(params)

  made = reranker.from_workdir(workdir, read, f'{workdir} step {step}')
  checkpoints.close()
  return made


def _refuse_others(name: str) -> None:
  for file, kind in ((generator.FILE, 'a question generator'),
                     (ENSEMBLE_FILE, 'an ensemble of dual encoders'),
                     (loading.ENCODER_FILE, 'a trained dual encoder')):
    if (pathlib.Path(name) / file).exists():
      raise errors.UserError(
          f'{name}: holds {kind}, and a reranker is needed here: a workdir of '
          'job=train_reranker, or a BERT-family folder or hub name to make one '
          'of'
      )


def is_workdir(checkpoint: str) -> bool:
  """Whether it is a workdir that training a dual encoder has begun in.

  Raises:
    UserError: it is one of a question generator or of a reranker.
  """
  for file, kind in ((generator.FILE, 'a question generator'),
                     (reranker.FILE, 'a reranker (a cross-encoder)')):
    if (pathlib.Path(checkpoint) / file).exists():
      raise errors.UserError(
          f'{checkpoint}: holds {kind}, and a dual encoder is needed here'
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
              'passage_length', 'query_prefix', 'passage_prefix',
              'mention_start', 'mention_end'):
    wanted = getattr(config.model, key)
    if wanted is not None and (wanted or None) != (own[key] or None):
      raise errors.UserError(
          f'config.model.{key}={wanted!r}: {name} was trained '
          f'with {own[key]!r}; leave it out'
      )
  if config.model.score is not None and loading.score_by_name(
      config.model.score, model.text
  ) != model.spec.score:
    raise errors.UserError(
        f'config.model.score={config.model.score!r}: {name} was trained with '
        f'{model.spec.score}; leave it out'
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


def check_one_vector(model: loading.Model, why: str) -> loading.Model:
  """The model, if a text is one vector for it.

  Raises:
    UserError: its score compares several.
  """
  if not model.spec.score.is_dot:
    raise errors.UserError(
        f'{model.name}: texts have several vectors for its score function, and '
        f'{why} one; name a model with config.model.score=dual'
    )
  return model


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
      folders.sha256_json({
          'weights': _sha256(params),
          'spec': spec.to_json(),
          'text': text.identity,
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
