"""The device mesh, and which array axis lies on which mesh axis."""

import functools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Int

from neg_contrast import errors, hosts
from neg_contrast.settings import config as config_lib

_Out = TypeVar('_Out')

# Parameter name -> axes, for the last path entries of a leaf. Weights of
# attention and feed-forward layers are split so that one all-reduce follows
# each block; stacked layers come first. The first match counts, and every rule
# must match something, but for those of biases, LoRA and features beside text,
# which some models lack. A product of LoRA is split as its kernel.
PARAMETER_RULES: tuple[tuple[str, PartitionSpec], ...] = (
    (r'layers/(attention/(query|key|value)|intermediate|gate)/kernel',
     PartitionSpec(None, None, 'model')),
    (r'layers/(attention/(query|key|value)|intermediate|gate)/bias',
     PartitionSpec(None, 'model')),
    (r'layers/(attention/)?output/kernel',
     PartitionSpec(None, 'model', None)),
    (r'layers/(attention/(query|key|value)|intermediate|gate)/lora_b',
     PartitionSpec(None, None, 'model')),
    (r'layers/(attention/)?output/lora_a', PartitionSpec(None, 'model', None)),
    (r'embeddings/word/embedding', PartitionSpec(None, 'model')),
    (r'features/[^/]+/(embedding|kernel)', PartitionSpec(None, 'model')),
    (r'.*', PartitionSpec()),
)
_OPTIONAL = 'bias', 'lora', 'features'  # Rules that may match nothing.

# The same for a T5.
GENERATOR_RULES: tuple[tuple[str, PartitionSpec], ...] = (
    (r'layers/((cross_)?attention/(query|key|value)|intermediate|gate)/kernel',
     PartitionSpec(None, None, 'model')),
    (r'layers/((cross_)?attention/)?output/kernel',
     PartitionSpec(None, 'model', None)),
    (r'embeddings/word/embedding', PartitionSpec(None, 'model')),
    (r'.*', PartitionSpec()),
)

# Elements of a leaf that is worth splitting over `data`: a 12-layer BERT-base
# has biases of 36,864 and kernels of 7,077,888.
_WORTH_SPLITTING = 2**16


def make_mesh(
    config: config_lib.MeshConfig, devices: Sequence[Any] | None = None
) -> Mesh:
  """A `data` x `model` mesh of all devices (or of those given).

  Raises:
    UserError: the numbers don't divide the devices, or leave out some that
      other processes have.
  """
  is_of_all = devices is None and jax.process_count() > 1
  devices = jax.devices() if devices is None else devices
  count = len(devices)
  data = config.data if config.data != -1 else max(1, count // config.model)
  if data * config.model != count and (
      config.data == -1 or data * config.model > count or is_of_all
  ):
    raise errors.UserError(
        f'{errors.key("mesh")}: data={config.data} x model={config.model} does '
        f'not fit {count} devices; choose mesh.model so that it divides '
        f'{count}, and mesh.data=-1 to use all the rest'
    )
  return jax.make_mesh(
      (data, config.model),
      ('data', 'model'),
      axis_types=(AxisType.Auto, AxisType.Auto),
      devices=list(devices)[: data * config.model],
  )


def make_local_mesh(config: config_lib.MeshConfig) -> Mesh:
  """The mesh for work that processes divide among them: of a process's own.

  Where there is one process, the mesh of the config.
  """
  if jax.process_count() > 1:
    config = config_lib.MeshConfig()
  return make_mesh(config, jax.local_devices())


def make_common_mesh(config: config_lib.MeshConfig) -> Mesh:
  """The mesh for what all processes do together, if they are together here."""
  return make_mesh(config) if hosts.are_together() else make_local_mesh(config)


def check_batch(batch_size: int, groups: int, mesh: Mesh) -> None:
  """Refuses a batch that the mesh can't split.

  Raises:
    UserError: `groups` is no multiple of the mesh's data axis.
  """
  data = mesh.shape['data']
  if groups % data:
    raise errors.UserError(
        f'{errors.key("data.groups")}={groups}: must be a multiple of the '
        f'{data} devices that share the batch. Set '
        f'--{errors.key("data.groups")}={data} (with data.batch_size='
        f'{batch_size} a multiple of it), or fewer devices with '
        f'--{errors.key("mesh.data")}'
    )


def parameter_shardings(
    params: Any,
    mesh: Mesh,
    rules: tuple[tuple[str, PartitionSpec], ...] = PARAMETER_RULES,
    fsdp: bool = False,
    is_whole: bool = True,
) -> Any:
  """A NamedSharding for every leaf, by the rules above.

  Works on parameters and on optimizer states alike, whose leaves carry the
  parameter's path at the end of their own. Those with fewer axes than the
  parameter, as Adafactor has, are small and lie whole on every device, unless
  they are worth splitting over `data`.

  Args:
    params: tree of arrays or ShapeDtypeStructs.
    mesh: the mesh.
    rules: of the model.
    fsdp: split large leaves over `data` too, along their longest axis that
      divides and is whole so far.
    is_whole: whether these are all of a model's, and every rule must match.

  Raises:
    UserError: a rule matches no leaf, or an axis does not divide.
  """
  unused = {pattern for pattern, _ in rules[:-1]
            if is_whole and not any(part in pattern for part in _OPTIONAL)}

  def sharding_of(path, leaf):
    name = '/'.join(_entry(entry) for entry in path)
    for pattern, spec in rules:
      if re.search(f'(?:{pattern})$', name):
        unused.discard(pattern)
        if leaf.ndim < len(spec):
          spec = PartitionSpec()
        _check_divides(name, leaf.shape, spec, mesh)
        if fsdp:
          spec = _split_over_data(leaf.shape, spec, mesh.shape['data'])
        return NamedSharding(mesh, spec)
    raise AssertionError('the last rule matches everything')

  shardings = jax.tree_util.tree_map_with_path(sharding_of, params)
  if unused:
    raise ValueError(f'sharding rules match no parameter: {sorted(unused)}')
  return shardings


def place_copies(copies: Any, mesh: Mesh) -> Any:
  """Copies of a tower's parameters, one a shard of the batch, on its devices.

  Args:
    copies: tree of arrays with a leading axis as long as the mesh's `data`.
    mesh: the mesh.
  """
  one = jax.tree.map(
      lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), copies
  )
  shardings = jax.tree.map(
      lambda s: NamedSharding(mesh, PartitionSpec('data', *s.spec)),
      parameter_shardings(one, mesh),
  )
  return jax.lax.with_sharding_constraint(copies, shardings)


def over_rows(function: Callable[..., _Out], mesh: Mesh) -> Callable[..., _Out]:
  """A function of rows, run by each device on its own rows and heads.

  Of `[rows, length, features]` arrays, rows lie over `data` and features over
  `model`; of `[rows, length]` ones, rows over `data`; of those with four axes,
  `[rows, heads, ...]`, heads over `model`. For what XLA can't split itself,
  such as kernels.

  Rows of one group may be too few to be shared; JAX traces them before it makes
  those of all groups of them.
  """
  specs = {
      2: PartitionSpec('data'),
      3: PartitionSpec('data', None, 'model'),
      4: PartitionSpec('data', 'model'),
  }
  place = lambda arrays: jax.tree.map(lambda a: specs[a.ndim], arrays)

  def spread(*arrays):
    if arrays[0].shape[0] % mesh.shape['data']:
      return function(*arrays)
    return jax.shard_map(
        function, mesh=mesh, check_vma=False, in_specs=place(arrays),
        out_specs=place(jax.eval_shape(function, *arrays)),
    )(*arrays)

  return spread


def gather_when_used(
    use: Callable[..., _Out], split: Any, whole: Any
) -> Callable[..., _Out]:
  """A function of parameters that are split over `data` while they rest.

  They are gathered before, and their gradients are split again: left to
  itself, XLA would rather split the features of all activations.

  Args:
    use: `(params, ...) -> result`.
    split: shardings of the parameters and of their gradients.
    whole: shardings of the parameters in use.
  """
  return lambda params, *args: use(
      jax.tree.map(_gather, params, split, whole), *args
  )


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _gather(array, split, whole):
  """Leaf by leaf, so that frozen ones have no gradient."""
  del split
  return jax.lax.with_sharding_constraint(array, whole)


_gather.defvjp(
    lambda array, split, whole: (_gather(array, split, whole), None),
    lambda split, whole, _, gradient: (
        jax.lax.with_sharding_constraint(gradient, split),
    ),
)


def batch_shardings(batch: Any, mesh: Mesh) -> Any:
  """Shardings of a batch: first axes over `data`.

  Packed arrays are split by group and masks by query: those of passages against
  queries have these on their second axis, so that one table of scores serves
  both directions where it lies. Slot numbers are small and every device needs
  them all.
  """

  def sharding_of(path, _):
    name = _entry(path[0])
    if name.endswith('_slots'):
      return replicated(mesh)
    by_query = (None, 'data') if name == 'backward_mask' else ('data',)
    return NamedSharding(mesh, PartitionSpec(*by_query))

  return jax.tree_util.tree_map_with_path(sharding_of, batch)


def held(count: int, mesh: Mesh) -> Int[np.ndarray, ' held']:
  """Which parts of an axis over `data` lie on devices of this process.

  Args:
    count: length of the axis, such as groups or queries of a batch.
    mesh: the mesh.

  Returns:
    `[held] int`, ascending.
  """
  places = NamedSharding(mesh, PartitionSpec('data'))
  indices = places.addressable_devices_indices_map((count,)).values()
  return np.unique([np.arange(count)[index] for index in indices])


def put(tree: Any, shardings: Any) -> Any:
  """Host arrays on the devices; a process hands over what its devices hold.

  Args:
    tree: of arrays, the same in all processes. Of an array that is split, a
      process may leave the parts of others empty.
    shardings: of each.
  """
  def put_one(array, sharding):
    array = np.asarray(array)
    return jax.make_array_from_callback(
        array.shape, sharding, lambda index: array[index]
    )

  return jax.tree.map(put_one, tree, shardings)


def local(tree: Any) -> Any:
  """Arrays on the mesh, so that this process can use them without the others.

  Of several processes all come here, and each gets the whole in its memory.
  """
  if jax.process_count() == 1:
    return tree
  return multihost_utils.process_allgather(tree, tiled=True)


def replicated(mesh: Mesh) -> NamedSharding:
  """The sharding of what every device holds whole."""
  return NamedSharding(mesh, PartitionSpec())


def _split_over_data(
    shape: tuple[int, ...], spec: PartitionSpec, devices: int
) -> PartitionSpec:
  axes = [*spec] + [None] * (len(shape) - len(spec))
  free = [axis for axis, size in enumerate(shape)
          if axes[axis] is None and size % devices == 0]
  if not free or math.prod(shape) < _WORTH_SPLITTING:
    return spec
  axes[max(free, key=lambda axis: shape[axis])] = 'data'
  return PartitionSpec(*axes)


def _check_divides(name, shape, spec, mesh):
  for size, axis in zip(shape, spec, strict=False):
    if axis is not None and size % mesh.shape[axis]:
      raise errors.UserError(
          f'{errors.key(f"mesh.{axis}")}={mesh.shape[axis]}: does not divide '
          f'an axis of {size} in {name}; choose a divisor'
      )


def _entry(entry: Any) -> str:
  for attribute in ('key', 'name', 'idx'):
    if hasattr(entry, attribute):
      return str(getattr(entry, attribute))
  return str(entry)
