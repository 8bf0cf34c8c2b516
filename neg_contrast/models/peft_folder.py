"""LoRA adapters in the layout of the library peft (read at its 0.21).

A folder holds `adapter_config.json` and `adapter_model.safetensors`, with
`base_model.model.MODULE.lora_A.weight`, `[rank, in]`, and `lora_B.weight`,
`[out, rank]`, for every adapted module of transformers' model.

Where a module of theirs holds several kernels of ours, as ModernBERT's `Wqkv`,
it has one A and one B for all of them: the rows of A are those of each adapted
kernel, B is zero outside of their blocks. Its rank is the sum of ranks, its
alpha as much larger as the scale needs, in `rank_pattern` and `alpha_pattern`.
"""

import pathlib
import re
from collections.abc import Mapping
from typing import Any

import flax.traverse_util
import numpy as np
import safetensors.numpy

from neg_contrast import errors
from neg_contrast.models import (
  families,
  json_objects,
  lora,
  shape,
  transformer,
)

CONFIG_FILE, TENSORS_FILE = 'adapter_config.json', 'adapter_model.safetensors'
_PREFIX, _WEIGHT = 'base_model.model.', '.weight'
_LAYER = re.compile(r'^.*\.\d+\.')
BASE_KEY = 'neg_contrast_base'  # Of the tensors' metadata.
# Module -> the kernels of ours in it, each with the number of its layer.
Places = dict[str, list[tuple[lora.Path, int]]]


def of_tower(
    adapters: lora.Adapters, trained: Any, tower: Any, spec: shape.Shape
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
  """adapter_config.json and tensors of a tower.

  Args:
    adapters: of the encoder.
    trained: A and B of the tower.
    tower: its parameters, or their shapes.
    spec: of its transformer.
  """
  ours = flax.traverse_util.flatten_dict(trained)
  sizes = {path: leaf.shape[-1] for path, leaf in
           flax.traverse_util.flatten_dict(tower).items()}
  places = modules(tower, spec)
  tensors: dict[str, np.ndarray] = {}
  ranks: dict[str, int] = {}
  for module, parts in places.items():
    if not any(at(path, lora.A) in ours for path, _ in parts):
      continue
    tensors |= _tensors(module, parts, ours, sizes, adapters.rank)
    ranks[module] = len(tensors[_name(module, 'A')])
  others = {module: rank for module, rank in ranks.items()
            if rank != adapters.rank}
  return {
      'peft_type': 'LORA',
      'task_type': 'FEATURE_EXTRACTION',
      'r': adapters.rank,
      'lora_alpha': _plain(adapters.alpha),
      'use_rslora': adapters.rank_stabilized,
      'target_modules': _targets(list(ranks), list(places)),
      'rank_pattern': others,
      'alpha_pattern': {
          module: _plain(adapters.scale * (
              rank**0.5 if adapters.rank_stabilized else rank
          )) for module, rank in others.items()
      },
      'bias': 'none',
      'fan_in_fan_out': False,
      'inference_mode': True,
      'init_lora_weights': True,
      'lora_dropout': 0.0,
      'modules_to_save': None,
  }, tensors


def modules(tower: Any, spec: shape.Shape) -> Places:
  """The modules of transformers' model, with the kernels of ours in each.

  They are found by writing a model that has the numbers of its kernels, and of
  their layers, in the place of these.

  Args:
    tower: parameters, or their shapes.
    spec: of its transformer.

  Returns:
    Of all modules with weights; embeddings and norms hold no kernels.
  """
  flat = flax.traverse_util.flatten_dict(tower[transformer.KEY])
  kernels = sorted(path for path in flat if path[-1] == lora.KERNEL)
  numbered = {path: np.broadcast_to(np.int32(0), leaf.shape)
              for path, leaf in flat.items()}
  for number, path in enumerate(kernels):
    layers = flat[path].shape[0] if len(flat[path].shape) == 3 else 1
    numbered[path] = (
        1 + number + len(kernels) * np.arange(layers, dtype=np.int32)
    ).reshape([layers, 1, 1][-len(flat[path].shape):])
  to_tensors = families.FAMILIES[spec.model_type].to_tensors
  assert to_tensors  # Those we compute have it.
  found: Places = {}
  for name, tensor in to_tensors(
      flax.traverse_util.unflatten_dict(numbered), spec, 0
  ).items():
    if name.endswith(_WEIGHT):
      is_of_kernels = tensor.size <= len(kernels) and np.all(tensor > 0)
      found[name.removesuffix(_WEIGHT)] = [
          ((transformer.KEY, *kernels[number % len(kernels)]),
           number // len(kernels))
          for number in tensor.astype(np.int32).ravel() - 1
      ] if is_of_kernels else []
  return found


def read(
    folder: pathlib.Path, tower: Any, spec: shape.Shape
) -> dict[lora.Path, np.ndarray]:
  """What the adapters of a folder add to kernels of a tower.

  Args:
    folder: has adapter_config.json and its tensors.
    tower: parameters, or their shapes.
    spec: of its transformer.

  Returns:
    Path of a kernel -> what is added, float32, of the kernel's shape.

  Raises:
    UserError: a file is missing or broken, it is no LoRA, or it does not fit
      the model.
  """
  values = json_objects.read(folder / CONFIG_FILE)
  if values.text('peft_type', '') != 'LORA':
    raise errors.UserError(f'{values.path}: peft_type is not "LORA"; other '
                           'adapters can\'t be read here')
  for key in ('use_dora', 'fan_in_fan_out'):
    if values.flag(key, False):
      raise errors.UserError(f'{values.path}: {key}=true is not supported')
  tensors = _read_tensors(folder / TENSORS_FILE)
  flat = flax.traverse_util.flatten_dict(tower)
  added: dict[lora.Path, np.ndarray] = {}
  places = modules(tower, spec)
  for name, tensor in tensors.items():
    if name.endswith('.lora_B.weight'):
      continue
    module = name.removeprefix(_PREFIX).removesuffix('.lora_A.weight')
    if name != _name(module, 'A') or not places.get(module):
      raise errors.UserError(
          f'{folder / TENSORS_FILE}: {name} is no LoRA of a layer of this '
          'model; its adapters are of another model, or not of LoRA alone'
      )
    _add(added, places[module], flat, _scale(values, module, len(tensor)),
         _product(folder, tensors, module, places[module], flat))
  return added


def _add(added, parts, flat, scale, product):
  """Adds the parts of a module's product to the kernels that it holds."""
  ends = np.cumsum([flat[path].shape[-1] for path, _ in parts])
  for (path, layer), part in zip(
      parts, np.split(product, ends[:-1]), strict=True
  ):
    shape = flat[path].shape
    whole = added.setdefault(path, np.zeros(shape, np.float32))
    (whole[layer] if len(shape) == 3 else whole)[...] = scale * part.T


def _product(folder, tensors, module, parts, flat):
  """`B A` of a module, `[out, in]`.

  Raises:
    UserError: a tensor is missing, or of another shape.
  """
  lhs = tensors.get(_name(module, 'B'))
  rhs = tensors[_name(module, 'A')]
  shape = (sum(flat[path].shape[-1] for path, _ in parts),
           flat[parts[0][0]].shape[-2])
  if lhs is None or (lhs.shape, rhs.shape) != (
      (shape[0], len(rhs)), (len(rhs), shape[1])
  ):
    raise errors.UserError(
        f'{folder / TENSORS_FILE}: the LoRA of {module} does not fit a layer '
        f'of {list(shape)}; it is of another model'
    )
  return np.asarray(lhs, np.float32) @ np.asarray(rhs, np.float32)


def _scale(values, module, rank):
  alpha = values.number('lora_alpha', 8.0)
  for pattern in values.object('alpha_pattern').values:
    if re.match(rf'(.*\.)?({pattern})$', module):  # As peft looks them up.
      alpha = values.object('alpha_pattern').number(pattern)
      break
  return alpha / (rank**0.5 if values.flag('use_rslora', False) else rank)


def _read_tensors(path: pathlib.Path) -> Mapping[str, np.ndarray]:
  try:
    return safetensors.numpy.load_file(path)
  except (safetensors.SafetensorError, OSError, ValueError) as e:
    raise errors.UserError(
        f'{path}: not a safetensors file: {e}; {json_objects.REMEDY}'
    ) from None


def _tensors(module, parts, ours, sizes, rank):
  """A and B of a module of theirs, by name."""
  def of(part, kind):
    path, layer = part
    leaf = ours[at(path, kind)]
    return (leaf[layer] if leaf.ndim == 3 else leaf).T

  chosen = [part for part in parts if at(part[0], lora.A) in ours]
  rhs = np.concatenate([of(part, lora.A) for part in chosen])
  lhs = np.zeros((sum(sizes[path] for path, _ in parts), len(rhs)), np.float32)
  row = column = 0
  for path, layer in parts:
    if (path, layer) in chosen:
      lhs[row:row + sizes[path], column:column + rank] = of(
          (path, layer), lora.B
      )
      column += rank
    row += sizes[path]
  return {_name(module, 'A'): np.ascontiguousarray(rhs, np.float32),
          _name(module, 'B'): lhs}


def _targets(chosen: list[str], names: list[str]) -> list[str]:
  """Ends of names that match the chosen modules, and no others of the model."""
  targets = set()
  for module in chosen:
    words = _LAYER.sub('', module).split('.')
    ends = ['.'.join(words[-count:]) for count in range(1, len(words) + 1)]
    targets.add(next((end for end in ends if all(
        one in chosen for one in names if f'.{one}'.endswith(f'.{end}')
    )), module))
  return sorted(targets)


def at(path: lora.Path, kind: str) -> lora.Path:
  """The path of A, B or the kernel, from that of another of them."""
  return *path[:-1], kind


def _plain(number: float) -> float | int:
  return int(number) if number == int(number) else number


def _name(module: str, matrix: str) -> str:
  return f'{_PREFIX}{module}.lora_{matrix}{_WEIGHT}'
