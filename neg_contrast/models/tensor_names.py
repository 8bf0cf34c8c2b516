"""Trees of parameters from the tensors of a folder, and back, by tables.

A table has a line for each module of theirs: its name, with `{}` for the number
of a layer, and the modules of ours that it holds, as paths into the tree. Where
it holds several, as one product of query, key and value, their outputs stand
one after the other.
"""

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

Table = Mapping[str, tuple[str, ...]]
Take = Callable[[str, tuple[int, ...]], np.ndarray]
# Our kinds of arrays -> theirs. Our kernels are [in, out], theirs [out, in].
_KINDS = {'kernel': 'weight', 'scale': 'weight', 'embedding': 'weight',
          'bias': 'bias'}


def from_tensors(
    module: nn.Module, table: Table, take: Take
) -> dict[str, Any]:
  """The parameters of a module.

  Args:
    module: of `transformer.ARCHITECTURES`.
    table: of all its parameters.
    take: (name of a tensor, its shape) -> float32; raises UserError.

  Returns:
    The tree, of numpy arrays, with layers stacked.
  """
  tokens = jnp.zeros((1, 2), jnp.int32)
  shapes = jax.eval_shape(
      lambda key: module.init(key, tokens, tokens, tokens, True),
      jax.random.key(0),
  )['params']
  params: dict[str, Any] = {}
  for theirs, paths in table.items():
    own = [_at(shapes, path) for path in paths]
    for kind in own[0]:
      parts = _taken(theirs, kind, [module[kind].shape for module in own], take)
      for path, part in zip(paths, parts, strict=True):
        target = params
        for name in path.split('/'):
          target = target.setdefault(name, {})
        target[kind] = part
  return params


def to_tensors(params: Any, table: Table) -> dict[str, np.ndarray]:
  """The tensors of a tree: the inverse of `from_tensors`.

  Returns:
    Name -> float32.
  """
  tensors = {}
  for theirs, paths in table.items():
    own = [_at(params, path) for path in paths]
    for kind in own[0]:
      arrays = [np.asarray(module[kind]) for module in own]
      name = f'{theirs}.{_KINDS[kind]}'
      if '{}' not in theirs:
        tensors[name] = _fused(arrays, kind)
        continue
      for number, parts in enumerate(zip(*arrays, strict=True)):
        tensors[name.format(number)] = _fused(parts, kind)
  return tensors


def _taken(theirs, kind, shapes, take):
  """The arrays of one kind of the modules that a module of theirs holds."""
  name, is_stacked = f'{theirs}.{_KINDS[kind]}', '{}' in theirs
  one = [_turned_shape(shape[is_stacked:], kind) for shape in shapes]
  ends = list(itertools.accumulate(shape[0] for shape in one))
  whole = (ends[-1], *one[0][1:])
  split = lambda tensor: [
      part.T if kind == 'kernel' else part
      for part in np.split(tensor, ends[:-1])
  ]
  if not is_stacked:
    return split(take(name, whole))
  layers = [split(take(name.format(number), whole))
            for number in range(shapes[0][0])]
  return [np.stack(parts) for parts in zip(*layers, strict=True)]


def _turned_shape(shape, kind):
  return shape[::-1] if kind == 'kernel' else shape


def _fused(arrays, kind):
  return np.concatenate(
      [array.T if kind == 'kernel' else array for array in arrays]
  )


def _at(tree, path):
  return functools.reduce(lambda node, name: node[name], path.split('/'), tree)
