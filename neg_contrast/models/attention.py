"""What computes attention: the one place where that is chosen."""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from jax.sharding import Mesh

from neg_contrast import errors, hosts, sharding
from neg_contrast.batches import row_length as row_length_lib
from neg_contrast.models import (
  blockwise,
  flash_attention,
  range_attention,
  triton_attention,
)
from neg_contrast.models import pattern as pattern_lib
from neg_contrast.models import shape as shape_lib
from neg_contrast.settings import config as config_lib

MakeKernel = Callable[[int, pattern_lib.Pattern], flash_attention.Kernel]
"""(features of a head, pattern) -> kernel."""


def tpu_kernel(
    head_features: int,
    pattern: pattern_lib.Pattern = pattern_lib.GLOBAL,
    interpret: bool = False,
) -> flash_attention.Kernel:
  """In Pallas; short rows of global layers are taken whole.

  Args:
    head_features: of a head.
    pattern: of the layer.
    interpret: run it step by step in XLA, on any platform.
  """
  in_ranges = range_attention.kernel(head_features, pattern, interpret)
  if pattern != pattern_lib.GLOBAL:
    return in_ranges
  whole = flash_attention.short_kernel(head_features, interpret)

  def by_length(name):
    def compute(query, *operands):
      is_short = query.shape[1] <= flash_attention.LONGEST_ROW
      kernel = whole if is_short else in_ranges
      return getattr(kernel, name)(query, *operands)

    return compute

  return flash_attention.Kernel(by_length('forward'), by_length('backward'))


def triton_kernel(
    head_features: int, pattern: pattern_lib.Pattern = pattern_lib.GLOBAL
) -> flash_attention.Kernel:
  """By Triton, or cuDNN's for heads that it does not take.

  Args:
    head_features: of a head.
    pattern: of the layer.
  """
  if head_features in triton_attention.HEAD_FEATURES:
    return triton_attention.kernel(head_features, pattern)
  return flash_attention.cudnn_kernel(head_features, pattern)


KERNELS: Mapping[str, Mapping[str, MakeKernel]] = {
    'tpu': {'Pallas': tpu_kernel},
    'gpu': {'Triton': triton_kernel, 'cuDNN': flash_attention.cudnn_kernel},
}
"""Platform -> name -> what makes a kernel.

`flash` is the first, and `auto` the first that works;
launch/benchmarks/benchmark_attention.py measures all.
"""

_WITHOUT_MOSAIC = ('TPU v2', 'TPU v3')
_TRIED_ROW = 2048  # Tokens of a row, where its length is not known.
_MOST_ERROR = 4  # Of a kernel, in errors of XLA's in the same dtype.


def choose(
    shape: shape_lib.Shape,
    wanted: str,
    row_length: int,
    dtype: Any,
    mesh: Mesh,
    is_training: bool = False,
) -> str:
  """`xla`, or the name of a kernel of `KERNELS`.

  `auto` is the first kernel that can work and is seen to work: where one of the
  devices is at hand, it and XLA compute a few rows there first. Processes that
  share the mesh come here together and choose the same.

  Args:
    shape: of the transformer.
    wanted: `config.model.attention`.
    row_length: tokens of a packed row; 0: unknown, and rows that are too long
      for a kernel are taken in blocks.
    dtype: of the operands of attention.
    mesh: devices that it runs on.
    is_training: whether with dropout.

  Raises:
    UserError: `flash` is asked for where it can't work, or heads that are
      shared can't be split over the mesh.
  """
  _check_split(shape, mesh)
  length = row_length or min(
      _TRIED_ROW, row_length_lib.longest_row(shape.max_positions)
  )
  problem = _problem(shape, length, dtype, mesh, is_training)
  if wanted == 'flash' and problem:
    raise errors.UserError(f'{errors.key("model.attention")}=flash: {problem}')
  if wanted == 'xla' or problem:
    return 'xla'
  names = list(KERNELS[_platform(mesh)])
  if wanted == 'flash':
    return names[0]
  fail = functools.partial(
      _fails, shape=shape, row_length=length, dtype=dtype, mesh=mesh
  )
  # One after the other, until one works.
  fails: Iterable[bool] = map(fail, names)
  if len({device.process_index for device in mesh.devices.flat}) > 1:
    all_of_all = hosts.gather(np.array([list(fails)]))
    fails = [bool(some.any()) for some in all_of_all.reshape(-1, len(names)).T]
  return next(
      (name for name, has_failed in zip(names, fails, strict=False)
       if not has_failed), 'xla',
  )


def make(
    shape: shape_lib.Shape,
    wanted: str,
    row_length: int,
    dtype: Any,
    mesh: Mesh,
    is_training: bool,
) -> flash_attention.Attention | None:
  """What `bert.Bert` is given; arguments and errors as of `choose`."""
  chosen = choose(shape, wanted, row_length, dtype, mesh, is_training)
  _tell(wanted, chosen, 'training' if is_training else 'encoding')
  if chosen == 'xla':
    return None
  return _on_mesh(chosen, shape.head_features, mesh)


@functools.cache
def _tell(wanted: str, chosen: str, use: str) -> None:
  """Says once what was chosen."""
  logging.info('model.attention=%s: %s computes that of %s', wanted, chosen,
               use)


def _on_mesh(name, head_features, mesh) -> flash_attention.Attention:
  attend = flash_attention.make_attention(
      functools.partial(KERNELS[_platform(mesh)][name], head_features),
      functools.partial(sharding.over_rows, mesh=mesh),
  )
  device = mesh.devices.flat[0]
  if device.platform != 'tpu':
    return attend

  def of_any_length(query, *operands, **pattern):
    longest = range_attention.longest_row(
        device.device_kind, query.dtype.itemsize, head_features
    )
    compute = attend if query.shape[1] <= longest else functools.partial(
        _in_blocks, head_features
    )
    return compute(query, *operands, **pattern)

  return of_any_length


def _in_blocks(
    head_features, query, key, value, segment_ids, pattern=pattern_lib.GLOBAL
):
  heads = lambda a: a.reshape(*a.shape[:2], -1, head_features)
  return blockwise.attend(
      heads(query), heads(key), heads(value), segment_ids, pattern,
      lambda weights, first: weights,
  ).reshape(query.shape)


def _fails(name, shape, row_length, dtype, mesh) -> bool:
  """Whether the kernel does not work on a device of the mesh at hand."""
  own = jax.local_devices()
  at_hand = [device for device in mesh.devices.flat if device in own]
  return bool(at_hand) and _fails_on(
      name, at_hand[0], shape.num_heads // mesh.shape['model'],
      shape.head_features, row_length, jnp.dtype(dtype), shape.patterns,
  )


@functools.cache
def _fails_on(
    name, device, heads, head_features, row_length, dtype, patterns
) -> bool:
  """Whether the kernel fails at two rows, or is much farther off than XLA.

  Mixed values and gradients are compared with those in float32, and the largest
  differences count. What goes in is made of halves, which no dtype rounds.
  """
  rng = np.random.default_rng(0)
  size = (4, 2, row_length, heads * head_features)
  arrays = np.round(2 * rng.normal(size=size)).astype(np.float32) / 2
  arrays[0] /= 2 ** round(np.log2(head_features) / 2)  # Queries come scaled.
  segment_ids = np.sort(rng.integers(0, 6, size[1:3], np.int32))[:, ::-1]

  by_xla = functools.partial(_in_blocks, head_features)

  @functools.partial(jax.jit, static_argnums=(0, 1))
  def compute(attention, dtype, arrays, segment_ids):
    *inputs, gradient = arrays.astype(dtype)
    results = []
    for pattern in patterns:
      mixed, back = jax.vjp(
          lambda *x: attention(*x, segment_ids, pattern),  # noqa: B023
          *inputs,
      )
      results += [mixed, *back(gradient)]
    return jnp.stack(results).astype(jnp.float32)

  placed = jax.device_put((arrays, segment_ids), device)
  with jax.default_matmul_precision('highest'):
    exact = compute(by_xla, jnp.float32, *placed)
  off = lambda attention: np.asarray(jnp.abs(
      compute(attention, dtype, *placed) - exact
  ).max((1, 2, 3)))
  try:
    alone = sharding.make_mesh(config_lib.MeshConfig(), [device])
    by_kernel = off(_on_mesh(name, head_features, alone))
  except Exception as e:  # Of any kind: of drivers, libraries and compilers.
    if 'RESOURCE_EXHAUSTED' in str(e):  # Of others, and not for ever.
      raise
    failure = f'failed: {str(e).strip() or repr(e)}'
  else:
    rounding = 1e-5 * np.asarray(jnp.abs(exact).max((1, 2, 3)))
    limit = _MOST_ERROR * off(by_xla) + rounding
    if (by_kernel <= limit).all():  # NaN is not.
      return False
    failure = (f'is off by {by_kernel} in values and gradients, where {limit} '
               'is allowed')
  logging.warning('model.attention=auto: not by %s, which on %s %s', name,
                  device.device_kind, failure)
  return True


def _check_split(shape: shape_lib.Shape, mesh: Mesh) -> None:
  """Refuses a mesh that cuts through heads which several queries share."""
  devices, heads = mesh.shape['model'], shape.kv_heads
  if heads < shape.num_heads and heads % devices:
    raise errors.UserError(
        f'{errors.key("mesh.model")}={devices}: does not divide the {heads} '
        'heads of keys and values; choose a divisor'
    )


def _problem(shape, row_length, dtype, mesh, is_training) -> str | None:
  """Why there is no kernel for this, and what to do; None: there is."""
  device = mesh.devices.flat[0]
  plain = f'--{errors.key("model.attention")}=auto'
  other = f'or {plain}'
  if shape.kernel_problem:
    return f'{shape.kernel_problem}; set {plain}'
  if device.platform not in ('tpu', 'gpu'):
    return f'there is no such kernel for {device.platform}; set {plain}'
  if device.device_kind in _WITHOUT_MOSAIC or _is_before_ampere(device):
    return f'there is no such kernel for {device.device_kind}; set {plain}'
  if is_training and shape.attention_dropout:
    return (
        'has no dropout of attention probabilities, and the model has '
        f'{shape.attention_dropout:g}; set '
        f'--{errors.key("model.attention_dropout")}=0, {other}'
    )
  if shape.num_heads % mesh.shape['model']:
    return (
        f'{errors.key("mesh.model")}={mesh.shape["model"]} does not divide the '
        f'{shape.num_heads} heads; choose a divisor, {other}'
    )
  features = shape.head_features
  if device.platform == 'tpu':
    longest = range_attention.longest_row(
        device.device_kind, jnp.dtype(dtype).itemsize, features
    )
    if row_length > longest:
      return (f'rows of up to {row_length} tokens, and the kernel takes '
              f'{longest}; set --{errors.key("data.row_length")}={longest}, '
              f'{other}')
  if device.platform == 'gpu':
    if jnp.dtype(dtype) == jnp.float32:
      return ('there is no such kernel for float32; set '
              f'--{errors.key("model.dtype")}=bfloat16, {other}')
    if features % 8 or features > 128:
      return (f'there is no such kernel for heads of {features} features, '
              f'only for multiples of 8 up to 128; set {plain}')
  return None


def _is_before_ampere(device) -> bool:
  """Whether it is a GPU that cuDNN's kernel is not for."""
  major = getattr(device, 'compute_capability', '8.0').split('.')[0]
  return not major.isdecimal() or int(major) < 8


def _platform(mesh: Mesh) -> str:
  return mesh.devices.flat[0].platform
