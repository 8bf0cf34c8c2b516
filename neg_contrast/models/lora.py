"""LoRA, as a transformation of a tree of parameters. Pure.

Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021, equation
3: `h = W x + (alpha / rank) B A x`. Here a kernel is `[in, out]` and stacked
over layers, so that it is `W + scale * A B` with A `[layers, in, rank]` and B
`[layers, rank, out]`. The sum is formed once a step and then used as any kernel
is: every architecture has it, with its sharding, gradient cache and kernels.

What that costs, beside LoRA inside of modules: forming the sums and carrying
gradients into A and B takes `6 * rank * in * out` operations a kernel and step,
as `rank` more tokens would. A float32 sum of each adapted kernel, and a
gradient of it, live during the step; computing that gradient takes a third of
the kernel's products, as in full training, which LoRA inside of modules saves.
Kernels that are not adapted have no gradient. Moments of the optimizer, which
LoRA is mostly for, are of A and B alone in both forms.

Dropout of the input of A (PEFT's `lora_dropout`) is not possible in this form:
there is none.
"""

import dataclasses
import fnmatch
import hashlib
import math
from typing import Any

import flax.traverse_util
import jax
import jax.numpy as jnp
import numpy as np

from neg_contrast.models import transformer

A, B, KERNEL = 'lora_a', 'lora_b', 'kernel'
ALL = 'all'
Path = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Adapters:
  """Which kernels of a dual encoder are adapted, and how.

  Layers above the transformer (projections, codes) are trained whole, as
  PEFT's `modules_to_save`; all else of a tower stays as it is.

  Attributes:
    rank: columns of A; 0: there are no adapters, everything is trained.
    alpha: numerator of the scale.
    targets: patterns (`fnmatch`) of ends of names, such as `query` or
      `attention/*`; `all`: every kernel of the transformer.
    rank_stabilized: divide `alpha` by the root of the rank (rsLoRA:
      Kalajdzievski, 2023).
    frozen_dtype: of kernels while they are frozen; their sums with adapters are
      float32, as is everything else.
    frozen_tower: a tower without adapters; empty: none.
  """

  rank: int = 0
  alpha: float = 16.0
  targets: tuple[str, ...] = ('query', 'value')
  rank_stabilized: bool = False
  frozen_dtype: str = 'float32'
  frozen_tower: str = ''

  @property
  def scale(self) -> float:
    """Factor on `A B`."""
    divisor = math.sqrt(self.rank) if self.rank_stabilized else self.rank
    return self.alpha / divisor

  def paths(self, tower: Any) -> list[Path]:
    """Paths of the adapted kernels in a tower.

    Args:
      tower: tree of arrays, or of ShapeDtypeStructs.

    Raises:
      ValueError: a pattern matches none.
    """
    kernels = _kernels(tower)
    matched = {
        target: [path for path in kernels if _matches(name_of(path), target)]
        for target in self.targets
    }
    names = ', '.join(map(name_of, kernels))
    for target in self.targets:
      if not matched[target]:
        raise ValueError(
            f'{target!r} matches no kernel of this model; it has {names}; '
            f'{ALL!r} is all of them'
        )
    return [path for path in kernels
            if any(path in some for some in matched.values())]

  def paths_of(self, towers: Any) -> dict[str, list[Path]]:
    """`paths` of each tower that has adapters."""
    return {name: self.paths(tower) for name, tower in towers.items()
            if self.rank and name != self.frozen_tower}

  def check(self, towers: Any) -> None:
    """Refuses a rank that is above that of a kernel.

    Args:
      towers: of a dual encoder.

    Raises:
      ValueError: names the kernel.
    """
    for name, paths in self.paths_of(towers).items():
      flat = flax.traverse_util.flatten_dict(towers[name])
      for path in paths:
        least = min(flat[path].shape[-2:])
        if self.rank > least:
          raise ValueError(
              f'is above {least}, the rank of {name_of(path)} itself; lower it'
          )

  def init(self, towers: Any, key: jax.Array) -> Any:
    """What is trained, before the first step.

    A is uniform within `1 / sqrt(in)`, as in the authors' loralib and in PEFT
    (the paper says Gaussian), and B is zero: the model is unchanged.

    Args:
      towers: of a dual encoder.
      key: of A.

    Returns:
      Towers, in which A and B stand beside the place of each adapted kernel,
      and layers above the transformer in theirs. Without adapters, `towers`.
    """
    if not self.rank:
      return towers
    return {
        name: self._init_tower(
            tower, jax.random.fold_in(key, number)
        ) if name != self.frozen_tower else {}
        for number, (name, tower) in enumerate(sorted(towers.items()))
    }

  def shapes(self, towers: Any) -> Any:
    """ShapeDtypeStructs of what `init` returns."""
    return jax.eval_shape(
        lambda towers: self.init(towers, jax.random.key(0)), towers
    )

  def frozen(self, towers: Any) -> Any:
    """What is not trained: the transformers, and a tower without adapters.

    Args:
      towers: of a dual encoder.

    Returns:
      Towers, with kernels in `frozen_dtype`; empty, without adapters.
    """
    if not self.rank:
      return {}
    return {
        name: jax.tree_util.tree_map_with_path(self._rested, {
            part: tree for part, tree in tower.items()
            if part == transformer.KEY or name == self.frozen_tower
        }) for name, tower in towers.items()
    }

  def merge(self, trained: Any, frozen: Any) -> Any:
    """The towers that adapters make of frozen ones.

    Args:
      trained: as of `init`.
      frozen: as of `frozen`.
    """
    if not self.rank:
      return trained
    return {name: self.merge_tower(trained[name], frozen[name])
            for name in frozen}

  def merge_tower(self, trained: Any, frozen: Any) -> Any:
    """`merge`, of one tower."""
    ours = flax.traverse_util.flatten_dict(trained)
    whole = dict(flax.traverse_util.flatten_dict(frozen))
    for path, leaf in ours.items():
      if path[-1] not in (A, B):
        whole[path] = leaf
    for path in [path for path in ours if path[-1] == A]:
      place = path[:-1]
      whole[*place, KERNEL] = whole[*place, KERNEL] + self.scale * jnp.matmul(
          ours[path], ours[*place, B], precision=jax.lax.Precision.HIGHEST
      )
    return flax.traverse_util.unflatten_dict(whole)

  def describe(self, towers: Any) -> str:
    """Rank and size for messages, after a comma; empty: no adapters."""
    if not self.rank:
      return ''
    count = sum(
        math.prod(leaf.shape) for leaf in jax.tree.leaves(self.shapes(towers))
    )
    return f', LoRA of rank {self.rank}: {count:,} trained'

  def trained_part(self, towers: Any) -> float:
    """Part of the transformers' kernels, by elements, that have a gradient."""
    if not self.rank:
      return 1.0
    sizes = {True: 0, False: 0}
    adapted = self.paths_of(towers)
    for name, tower in towers.items():
      flat = flax.traverse_util.flatten_dict(tower)
      for path in _kernels(tower):
        sizes[path in adapted.get(name, ())] += math.prod(flat[path].shape)
    return sizes[True] / sum(sizes.values())

  def _init_tower(self, tower, key):
    flat = flax.traverse_util.flatten_dict(tower)
    trained = {path: leaf for path, leaf in flat.items()
               if path[0] != transformer.KEY}
    for number, path in enumerate(self.paths(tower)):
      *stack, inputs, outputs = flat[path].shape
      bound = inputs**-0.5
      trained[*path[:-1], A] = jax.random.uniform(
          jax.random.fold_in(key, number), (*stack, inputs, self.rank),
          jnp.float32, -bound, bound,
      )
      trained[*path[:-1], B] = jnp.zeros((*stack, self.rank, outputs))
    return flax.traverse_util.unflatten_dict(trained)

  def _rested(self, path, leaf):
    if (path[0].key, path[-1].key) != (transformer.KEY, KERNEL):
      return leaf
    dtype = jnp.dtype(self.frozen_dtype)
    if isinstance(leaf, jax.ShapeDtypeStruct):
      return jax.ShapeDtypeStruct(leaf.shape, dtype)
    return np.asarray(leaf).astype(dtype) if isinstance(
        leaf, np.ndarray) else leaf.astype(dtype)


OFF = Adapters()


def name_of(path: Path) -> str:
  """The name of a kernel, such as `layers/attention/query`."""
  return '/'.join(path[1:-1])


def hash_of(params: Any) -> str:
  """A sha256 of a tree of arrays: of names, shapes and values."""
  digest = hashlib.sha256()
  for path, leaf in sorted(flax.traverse_util.flatten_dict(params).items()):
    digest.update(f'{"/".join(path)} {leaf.shape} '.encode())
    digest.update(np.ascontiguousarray(leaf, np.float32).tobytes())
  return digest.hexdigest()


def _kernels(tower: Any) -> list[Path]:
  """Paths of all kernels of a tower's transformer, in order."""
  return sorted(
      path for path in flax.traverse_util.flatten_dict(tower)
      if path[0] == transformer.KEY and path[-1] == KERNEL
  )


def _matches(name: str, target: str) -> bool:
  return target == ALL or any(
      fnmatch.fnmatchcase(name, pattern) for pattern in (target, f'*/{target}')
  )
