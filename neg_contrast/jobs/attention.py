"""What computes attention: the one place where that is chosen."""

import functools
from typing import Any

import jax.numpy as jnp
from absl import logging
from jax.sharding import Mesh

from neg_contrast import config as config_lib
from neg_contrast import errors, sharding
from neg_contrast.data import packing
from neg_contrast.models import bert, flash_attention

# Platforms that `auto` chooses a kernel on.
_AUTOMATIC = ('tpu',)
_WITHOUT_MOSAIC = ('TPU v2', 'TPU v3')


def choose(
    shape: bert.BertConfig,
    config: config_lib.Config,
    dtype: Any,
    mesh: Mesh,
    is_training: bool = False,
) -> str:
  """`xla` or `flash`.

  Args:
    shape: of the transformer.
    config: of the run.
    dtype: of the operands of attention.
    mesh: devices that it runs on.
    is_training: whether with dropout.

  Raises:
    UserError: `flash` is asked for where it can't work.
  """
  wanted = config.model.attention
  problem = _problem(shape, config.data.row_length, dtype, mesh, is_training)
  if wanted == 'flash' and problem:
    raise errors.UserError(f'config.model.attention=flash: {problem}')
  if wanted == 'auto' and not problem and _platform(mesh) in _AUTOMATIC:
    wanted = 'flash'
  return 'flash' if wanted == 'flash' else 'xla'


def make(
    shape: bert.BertConfig,
    config: config_lib.Config,
    dtype: Any,
    mesh: Mesh,
    is_training: bool,
) -> flash_attention.Attention | None:
  """What `bert.Bert` is given; arguments and errors as of `choose`."""
  chosen = choose(shape, config, dtype, mesh, is_training)
  logging.info('model.attention=%s: %s computes that of %s',
               config.model.attention, chosen,
               'training' if is_training else 'encoding')
  if chosen == 'xla':
    return None
  kernel = (flash_attention.tpu_kernel if _platform(mesh) == 'tpu'
            else flash_attention.gpu_kernel)
  return flash_attention.make_attention(
      kernel(shape.hidden_size // shape.num_heads),
      functools.partial(sharding.over_rows, mesh=mesh),
  )


def _problem(shape, row_length, dtype, mesh, is_training) -> str | None:
  """Why there is no kernel for this, and what to do; None: there is."""
  device = mesh.devices.flat[0]
  other = 'or --config.model.attention=auto'
  if device.platform not in ('tpu', 'gpu'):
    return (f'there is no such kernel for {device.platform}; set '
            '--config.model.attention=auto')
  if device.device_kind in _WITHOUT_MOSAIC:
    return (f'there is no such kernel for {device.device_kind}; set '
            '--config.model.attention=auto')
  if is_training and shape.attention_dropout:
    return (
        'has no dropout of attention probabilities, and the model has '
        f'{shape.attention_dropout:g}; set '
        f'--config.model.attention_dropout=0, {other}'
    )
  if shape.num_heads % mesh.shape['model']:
    return (
        f'config.mesh.model={mesh.shape["model"]} does not divide the '
        f'{shape.num_heads} heads; choose a divisor, {other}'
    )
  row_length = row_length or packing.default_row_length(shape.max_positions)
  if device.platform == 'tpu' and row_length > flash_attention.LONGEST_ROW:
    return (f'rows of up to {row_length} tokens, and the kernel takes '
            f'{flash_attention.LONGEST_ROW}; set --config.data.row_length='
            f'{flash_attention.LONGEST_ROW}, {other}')
  features = shape.hidden_size // shape.num_heads
  if device.platform == 'gpu':
    if jnp.dtype(dtype) == jnp.float32:
      return ('cuDNN has no such kernel for float32; set '
              f'--config.model.dtype=bfloat16, {other}')
    if features % 8 or features > 128:
      return (f'cuDNN has no such kernel for heads of {features} features, '
              'only for multiples of 8 up to 128; set '
              '--config.model.attention=auto')
  return None


def _platform(mesh: Mesh) -> str:
  return mesh.devices.flat[0].platform
