"""The model of a job: which weights, and how they are computed with."""

import pathlib
from typing import Any

import jax
import jax.numpy as jnp

from neg_contrast import artifacts
from neg_contrast import checkpoints as checkpoints_lib
from neg_contrast import config as config_lib
from neg_contrast.models import dual_encoder, loading


def compute_dtype(config: config_lib.ModelConfig) -> Any:
  """The dtype layers compute in on this machine's devices."""
  if config.dtype == 'auto':
    is_cpu = jax.default_backend() == 'cpu'
    return jnp.float32 if is_cpu else jnp.bfloat16
  return jnp.dtype(config.dtype)


def make_module(
    spec: dual_encoder.EncoderSpec, config: config_lib.ModelConfig
) -> dual_encoder.Encoder:
  """The module of a spec, with this config's compute settings."""
  return dual_encoder.Encoder(
      spec=spec,
      dtype=compute_dtype(config),
      remat=config.remat,
      scan_unroll=min(config.scan_unroll, spec.bert.num_layers),
  )


def is_workdir(checkpoint: str) -> bool:
  """Whether it is a workdir that training has begun in."""
  return (pathlib.Path(checkpoint) / loading.ENCODER_FILE).exists()


def load_checkpoint(config: config_lib.Config) -> loading.Model:
  """The model of `config.checkpoint`: a workdir of ours, or a folder or name.

  A workdir gives its selected checkpoint: the best on the tune split, or the
  latest where none was evaluated.

  Raises:
    UserError: there is no such model.
  """
  if not is_workdir(config.checkpoint):
    return loading.from_pretrained(config.checkpoint, config.model, config.seed)
  return load_workdir(pathlib.Path(config.checkpoint))


def load_workdir(workdir: pathlib.Path) -> loading.Model:
  """The selected checkpoint of a trained workdir.

  Raises:
    UserError: it has no checkpoint yet.
  """
  spec, text, tokenizer = loading.read_description(workdir)
  checkpoints = checkpoints_lib.Checkpoints(workdir)
  step = checkpoints.selected_step()
  like = {'encoder': loading.shape_of(spec)}
  params = checkpoints.restore_encoder(like['encoder'], step)
  checkpoints.close()
  run = artifacts.read_json(workdir / 'run.json')
  return loading.Model(
      spec, text, tokenizer, params, f'{workdir} step {step}',
      artifacts.sha256_json({'run': run['identity'], 'step': step}),
  )
