"""Passes a corpus over the devices of all processes, and folds it.

What is made of the passages is a `Fold`: the best of each query
(`device_best.py`), or negatives drawn by their scores (`negatives/sampled.py`).

The table lies on the devices between passes where it takes no more than half of
the memory that is free; else it passes through once for all queries, and the
next part is read while the devices work on one. Tables kept as bfloat16 lie
there as bfloat16.

A device folds one block of passages for one tile of queries at a time: a
program of fixed shapes, so that its numbers do not depend on how many devices
there are.
"""

import concurrent.futures
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Int

from neg_contrast import device_memory
from neg_contrast.retrieval import corpus_blocks, vector_table

PAD = np.iinfo(np.int32).max  # The rank of a place without a passage.
_PART_BYTES = 2**28  # Of a table that passes through, on a device, twice.
_PART_BLOCKS = 64  # Of a part, so that short vectors show progress too.
_AXIS = 'table'

Part = tuple[Any, tuple[Any, ...]]
"""(vectors, columns): `[devices, blocks, rows, features]`, and `[devices,
blocks, rows] int32` each, of which the first has the ranks."""


@runtime_checkable
class Fold(Protocol):
  """What is kept of a corpus, for each query.

  A pytree, an argument of compiled programs. All methods are pure.
  """

  def start(self, queries: int) -> Any:
    """What is kept before any passage: a tree of `[queries, ...]`."""
    ...

  def add(self, kept: Any, queries: Any, block: Any) -> tuple[Any, Any]:
    """Takes a block of passages into account.

    Args:
      kept: of the queries, so far.
      queries: a tree of `[queries, ...]`.
      block: `[rows, features]` vectors, and a tuple of `[rows] int32` columns;
        the ranks come first, ascending, `PAD` where there is no passage.

    Returns:
      What is kept now, and what is told of this block: a tree of
      `[queries, ...]`, or None.
    """
    ...

  def join(self, kept: Any) -> Any:
    """What is kept of all: of a tree of `[devices, queries, ...]`."""
    ...


class DeviceScan:
  """The blocks of a corpus, on the devices of all processes."""

  def __init__(
      self,
      vecs: vector_table.Rows,
      columns: Sequence[Int[np.ndarray, ' passages']],
      blocks: corpus_blocks.Blocks,
      devices: Sequence[Any],
      is_for_one: bool = False,
  ):
    """Reads nothing yet.

    Args:
      vecs: `[passages, features] float32`.
      columns: `[passages] int32` each, what folds are given beside vectors;
        first their tie ranks, below `PAD`.
      blocks: of the corpus.
      devices: see `corpus_blocks.devices_of`.
      is_for_one: for one pass, so that nothing stays on the devices.
    """
    self._vecs, self._columns, self._blocks = vecs, columns, blocks
    self._mesh, self._devices = table_mesh(devices), devices
    self._dtype = vector_table.kept_dtype(vecs)
    each = blocks.block_rows * vecs.shape[1] * self._dtype.itemsize
    self._shape = part_shape(
        blocks, vecs.shape[1], self._dtype.itemsize,
        min(_PART_BYTES, _PART_BLOCKS * each),
    )
    self._stays = not is_for_one and (
        blocks.per_device * each <= device_memory.free() // 2
    )
    self._kept: list[Part] = []

  def fold(
      self, fold: Fold, queries: Any, at_once: int,
      on_progress: Callable[[int], None] = lambda passages: None,
  ) -> tuple[Any, Any]:
    """Folds all passages; the processes of all devices come here.

    Args:
      fold: how.
      queries: a tree of `[queries, ...]`, the same in all processes.
      at_once: queries of a tile, at most.
      on_progress: called with the number of passages that were seen of this
        process's.

    Returns:
      What is kept in the end, a tree of `[queries, ...]`; and what was told of
      each block of this process in the order of the corpus, a tree of
      `[blocks, queries, ...]`.

    Raises:
      ValueError: a vector is not finite.
    """
    count = len(jax.tree.leaves(queries)[0])
    size = min(at_once, 1 << (count - 1).bit_length())
    tiles = jax.tree.map(functools.partial(_tiles, size=size), queries)
    shape = self._blocks.devices, len(jax.tree.leaves(tiles)[0])
    step, finish = _programs(self._mesh)
    kept = jax.tree.map(lambda array: self._put(
        np.broadcast_to(array, (*shape, *array.shape)), PartitionSpec(_AXIS)
    ), fold.start(size))
    tiles = jax.tree.map(lambda a: self._put(a, PartitionSpec()), tiles)
    told = []
    for number, part in enumerate(self._parts(), start=1):
      kept, of_part = jax.block_until_ready(step(fold, kept, tiles, part))
      told.append(jax.tree.map(_own, of_part))
      on_progress(self._seen(number))
    return jax.tree.map(
        lambda array: _joined(array.addressable_data(0))[:count],
        finish(fold, kept),
    ), jax.tree.map(
        lambda *parts: _in_order(parts, count), *told
    )

  def _seen(self, parts: int) -> int:
    """Passages of this process in so many parts."""
    own = corpus_blocks.own(self._devices)
    return sum(
        len(self._blocks.rows_of(block)) for device in own for block in
        self._blocks.of_devices(range(device, device + 1))[
            : parts * self._shape[1]]
    )

  def _parts(self) -> Iterator[Part]:
    """All blocks, some of every device at a time."""
    if self._kept:
      yield from self._kept
      return
    count = -(-self._blocks.per_device // self._shape[1])
    kept = []
    with concurrent.futures.ThreadPoolExecutor(1) as reader:
      coming = reader.submit(self._read, 0)
      for number in range(count):
        part = coming.result()
        if number + 1 < count:
          coming = reader.submit(self._read, number + 1)
        if self._stays:
          kept.append(part)
        yield part
    self._kept = kept

  def _read(self, number: int) -> Part:
    """A part, where it belongs; a process reads those of its devices."""
    own: dict[int, list[np.ndarray]] = {}

    def of_device(index: tuple[slice, ...], which: int) -> np.ndarray:
      device = index[0].start or 0
      if device not in own:
        own[device] = self._read_device(device, number)
      return own[device][which]

    place = NamedSharding(self._mesh, PartitionSpec(_AXIS))
    vecs, *columns = (
        jax.make_array_from_callback(
            shape, place, functools.partial(of_device, which=which)
        ) for which, shape in enumerate(
            [self._shape, *[self._shape[:3]] * len(self._columns)]
        )
    )
    return vecs, tuple(columns)

  def _read_device(self, device: int, number: int) -> list[np.ndarray]:
    """`[1, blocks, rows, features]` vectors, `[1, blocks, rows]` columns.

    Within a block the rows stand in the order of their ranks, since `top_k`
    prefers the first of equals.
    """
    _, count, *_ = self._shape
    vecs = np.zeros(self._shape[1:], self._dtype)
    columns = [np.full(self._shape[1:3], PAD, np.int32) for _ in self._columns]
    own = self._blocks.of_devices(range(device, device + 1))
    for place, block in enumerate(own[number * count : (number + 1) * count]):
      rows = self._blocks.rows_of(block)
      order = np.argsort(self._columns[0][rows.start : rows.stop])
      read = vector_table.read(self._vecs, rows)
      vector_table.check_finite(read, 'passage')
      vecs[place, : len(rows)] = read[order]
      for made, column in zip(columns, self._columns, strict=True):
        made[place, : len(rows)] = column[rows.start : rows.stop][order]
    return [vecs[None], *(column[None] for column in columns)]

  def _put(self, array: np.ndarray, spec: PartitionSpec) -> jax.Array:
    return jax.make_array_from_callback(
        array.shape, NamedSharding(self._mesh, spec), lambda index: array[index]
    )


def table_mesh(devices: Sequence[Any]) -> Mesh:
  """All devices on one axis."""
  return Mesh(np.array(devices), (_AXIS,), axis_types=(AxisType.Auto,))


def part_shape(
    blocks: corpus_blocks.Blocks, features: int, item_bytes: int,
    part_bytes: int,
) -> tuple[int, int, int, int]:
  """`[devices, blocks, rows, features]` of a part of the table.

  Args:
    blocks: of the corpus.
    features: of a vector.
    item_bytes: of a number.
    part_bytes: of a part on one device, if a block is not larger.
  """
  block_bytes = blocks.block_rows * features * item_bytes
  parts = -(-blocks.per_device // max(1, part_bytes // max(1, block_bytes)))
  return (blocks.devices, -(-blocks.per_device // max(1, parts)),
          blocks.block_rows, features)


@functools.lru_cache(maxsize=16)
def _programs(mesh: Mesh) -> tuple[Callable[..., Any], Callable[..., Any]]:
  """`make_step` and `make_finish`, compiled once a process and fold."""
  return (jax.jit(make_step(mesh), donate_argnums=1),
          jax.jit(make_finish(mesh)))


def make_step(mesh: Mesh) -> Callable[..., Any]:
  """The program that lets a part of the table take part.

  Args:
    mesh: see `table_mesh`.

  Returns:
    `(fold, kept, queries, part) -> (kept, told)`: a `Fold`, what is kept of
    every device, a tree of `[devices, tiles, queries, ...]`; queries, a tree of
    `[tiles, queries, ...]`; a `Part`; what is told, a tree of
    `[devices, tiles, blocks, queries, ...]`.
  """
  split, whole = PartitionSpec(_AXIS), PartitionSpec()

  def step(fold, kept, queries, part):
    own = jax.tree.map(lambda array: array[0], part)

    def tile(args):
      kept, queries = args
      return jax.lax.scan(
          lambda kept, block: fold.add(kept, queries, block), kept, own
      )

    made = jax.lax.map(tile, (jax.tree.map(lambda a: a[0], kept), queries))
    return jax.tree.map(lambda array: array[None], made)

  return jax.shard_map(
      step, mesh=mesh, in_specs=(whole, split, whole, split),
      out_specs=(split, split), check_vma=False,
  )


def make_finish(mesh: Mesh) -> Callable[..., Any]:
  """The program that joins what all devices have.

  Returns:
    `(fold, kept) -> kept`: `[devices, tiles, queries, ...]` to
    `[tiles, queries, ...]`, which every device has whole.
  """
  split, whole = PartitionSpec(_AXIS), PartitionSpec()

  def finish(fold, kept):
    return jax.lax.map(
        lambda kept: fold.join(jax.tree.map(
            lambda array: jax.lax.all_gather(array, _AXIS), kept
        )), jax.tree.map(lambda array: array[0], kept)
    )

  return jax.shard_map(
      finish, mesh=mesh, in_specs=(whole, split), out_specs=whole,
      check_vma=False,
  )


def _tiles(array: np.ndarray, size: int) -> np.ndarray:
  """`[tiles, size, ...]`, filled up with zeros; few shapes."""
  tiles = np.zeros((-(-len(array) // size), size, *array.shape[1:]),
                   array.dtype)
  _joined(tiles)[: len(array)] = array
  return tiles


def _joined(tiles: Any) -> np.ndarray:
  """`[tiles, size, ...]` to `[tiles * size, ...]`, the same memory."""
  whole = np.asarray(tiles)
  return whole.reshape(whole.shape[0] * whole.shape[1], *whole.shape[2:])


def _own(array: jax.Array) -> np.ndarray:
  """What this process's devices have, in their order."""
  shards = sorted(array.addressable_shards, key=lambda one: one.index[0].start)
  return np.concatenate([np.asarray(one.data) for one in shards])


def _in_order(parts: Sequence[np.ndarray], count: int) -> np.ndarray:
  """`[devices, tiles, blocks, queries, ...]` to `[blocks, queries, ...]`."""
  whole = np.moveaxis(np.concatenate(parts, axis=2), 2, 1)
  devices, blocks, tiles, size, *rest = whole.shape
  return whole.reshape(devices * blocks, tiles * size, *rest)[:, :count]
