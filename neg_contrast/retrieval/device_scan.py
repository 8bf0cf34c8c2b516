"""Scores of a corpus on accelerators, over the memory of all of them.

The table lies there between searches where it takes no more than half of the
memory that is free; else it passes through once per search, whatever the number
of queries, and the next part is read while the devices work on one. Tables kept
as bfloat16 lie there as bfloat16.

A device scores one block of passages against one block of queries at a time: a
program of fixed shapes, so that its numbers do not depend on how many devices
there are.
"""

import concurrent.futures
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int

from neg_contrast import device_memory, scoring
from neg_contrast.retrieval import best_keys, corpus_blocks, vector_table

_QUERIES_AT_ONCE = 1024
_PART_BYTES = 2**28  # Of a table that passes through, on a device, twice.
_AXIS = 'table'
_NO_RANK = np.iinfo(np.int32).max

Pick = Callable[[Array, int], tuple[Array, Array]]
"""(`[queries, passages]` scores, k) -> the k highest, and where they are."""


class DeviceScan:
  """Finds the best passages of queries with the devices of all processes."""

  def __init__(
      self,
      vecs: vector_table.Rows,
      ranks: Int[np.ndarray, ' passages'],
      blocks: corpus_blocks.Blocks,
      devices: Sequence[Any],
      score: scoring.ScoreFunction,
  ):
    """Reads nothing yet.

    Args:
      vecs: `[passages, features] float32`.
      ranks: `[passages] int32`, tie ranks.
      blocks: of the corpus.
      devices: see `corpus_blocks.devices_of`.
      score: of a query's vectors and a passage's.
    """
    self._vecs, self._ranks, self._blocks = vecs, ranks, blocks
    self._score, self._mesh = score, table_mesh(devices)
    self._dtype = vector_table.kept_dtype(vecs)
    self._shape = part_shape(
        blocks, vecs.shape[1], self._dtype.itemsize, _PART_BYTES
    )
    whole = blocks.per_device * blocks.block_rows * (
        vecs.shape[1] * self._dtype.itemsize
    )
    self._stays = whole <= device_memory.free() // 2
    self._kept: list[tuple[Array, Array]] = []

  def search(
      self, query_vecs: Float[np.ndarray, 'queries features'], k: int,
      recall: float | None = None,
  ) -> np.ndarray:
    """The keys of the best; see `best_keys`.

    The processes of all devices come here.

    Args:
      query_vecs: `[queries, features] float32`.
      k: passages wanted of each.
      recall: part of the best of every block that has to be found; None: all.

    Returns:
      `[queries, k] int64`, descending.

    Raises:
      ValueError: a vector is not finite.
    """
    tiles = _tiles(query_vecs)
    step, finish = _programs(self._score, self._mesh, recall)
    queries = _put(tiles, self._mesh, PartitionSpec())
    shape = (self._blocks.devices, *tiles.shape[:2], k)
    best = tuple(_put(
        np.broadcast_to(nothing, shape), self._mesh, PartitionSpec(_AXIS)
    ) for nothing in (np.float32(-np.inf), np.int32(_NO_RANK)))
    for part in self._parts():
      best = jax.block_until_ready(step(best, queries, *part))
    scores, ranks = (
        np.asarray(array.addressable_data(0)).reshape(-1, k)[: len(query_vecs)]
        for array in finish(best)
    )
    return np.where(ranks == _NO_RANK, best_keys.NOTHING,
                    best_keys.keys_of(scores, np.minimum(ranks, _NO_RANK - 1)))

  def _parts(self) -> Iterator[tuple[Array, Array]]:
    """(vectors, ranks) of all blocks, some of every device at a time."""
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

  def _read(self, number: int) -> tuple[Array, Array]:
    """A part, where it belongs; a process reads those of its devices."""
    own: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def of_device(index: tuple[slice, ...], which: int) -> np.ndarray:
      device = index[0].start or 0
      if device not in own:
        own[device] = self._read_device(device, number)
      return own[device][which]

    place = NamedSharding(self._mesh, PartitionSpec(_AXIS))
    vecs, ranks = (
        jax.make_array_from_callback(
            shape, place, functools.partial(of_device, which=which)
        ) for which, shape in enumerate((self._shape, self._shape[:3]))
    )
    return vecs, ranks

  def _read_device(
      self, device: int, number: int
  ) -> tuple[np.ndarray, np.ndarray]:
    """`[1, blocks, rows, features]` vectors and `[1, blocks, rows]` ranks.

    Within a block the rows stand in the order of their ranks, since `top_k`
    prefers the first of equals.
    """
    _, count, *_ = self._shape
    vecs = np.zeros(self._shape[1:], self._dtype)
    ranks = np.full(self._shape[1:3], _NO_RANK, np.int32)
    own = self._blocks.of_devices(range(device, device + 1))
    for place, block in enumerate(own[number * count : (number + 1) * count]):
      rows = self._blocks.rows_of(block)
      order = np.argsort(self._ranks[rows.start : rows.stop])
      read = vector_table.read(self._vecs, rows)
      vector_table.check_finite(read, 'passage')
      vecs[place, : len(rows)] = read[order]
      ranks[place, : len(rows)] = self._ranks[rows.start : rows.stop][order]
    return vecs[None], ranks[None]


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
def _programs(
    score: scoring.ScoreFunction, mesh: Mesh, recall: float | None
) -> tuple[Callable[..., Any], Callable[..., Any]]:
  """`make_step` and `make_finish`, compiled once a process."""
  return (jax.jit(make_step(score, mesh, recall), donate_argnums=0),
          jax.jit(make_finish(mesh)))


def make_step(
    score: scoring.ScoreFunction, mesh: Mesh, recall: float | None = None
) -> Callable[..., Any]:
  """The program that lets a part of the table take part in a search.

  Args:
    score: of a query's vectors and a passage's.
    mesh: see `table_mesh`.
    recall: see `DeviceScan.search`.

  Returns:
    `((scores, ranks), queries, vecs, ranks) -> (scores, ranks)`: the best so
    far of every device, `[devices, tiles, queries, k]` float32 and int32,
    descending; queries `[tiles, queries, features] float32`; vectors and tie
    ranks of the part as `part_shape`.
  """
  pick: Pick = jax.lax.top_k if recall is None else functools.partial(
      _pick_most, recall
  )
  split, whole = PartitionSpec(_AXIS), PartitionSpec()

  def step(best, queries, vecs, ranks):
    add = functools.partial(_add_block, functools.partial(
        _scores, score
    ), pick)

    def tile(args):
      scores, found, own = args
      return jax.lax.scan(
          functools.partial(add, own), (scores, found), (vecs[0], ranks[0])
      )[0]

    scores, found = jax.lax.map(tile, (best[0][0], best[1][0], queries))
    return scores[None], found[None]

  return jax.shard_map(
      step, mesh=mesh, in_specs=((split, split), whole, split, split),
      out_specs=(split, split), check_vma=False,
  )


def make_finish(mesh: Mesh) -> Callable[..., Any]:
  """The program that joins the best of all devices.

  Returns:
    `(scores, ranks) -> (scores, ranks)`: `[devices, tiles, queries, k]` to
    `[tiles, queries, k]`, which every device has whole.
  """
  split, whole = PartitionSpec(_AXIS), PartitionSpec()

  def finish(best):
    def tile(args):
      scores, ranks = (
          jnp.moveaxis(jax.lax.all_gather(array, _AXIS), 0, 1).reshape(
              len(array), -1
          ) for array in args
      )
      return _first(scores, ranks, args[0].shape[1])

    return jax.lax.map(tile, (best[0][0], best[1][0]))

  return jax.shard_map(
      finish, mesh=mesh, in_specs=((split, split),), out_specs=(whole, whole),
      check_vma=False,
  )


def _pick_most(
    recall: float, scores: Float[Array, 'queries passages'], k: int
) -> tuple[Array, Array]:
  found, at = jax.lax.approx_max_k(scores, k, recall_target=recall)
  return found, at


def _add_block(
    score: Callable[[Array, Array], Array],
    pick: Pick,
    queries: Float[Array, 'queries query_features'],
    best: tuple[Array, Array],
    block: tuple[Array, Array],
) -> tuple[tuple[Array, Array], None]:
  """The best of a block and of what was found before."""
  vecs, ranks = block
  scores = jnp.where(ranks != _NO_RANK, score(queries, vecs), -jnp.inf)

  def join(best):
    k = best[0].shape[1]
    found, at = pick(scores, min(k, scores.shape[1]))
    own = jnp.where(found > -jnp.inf, ranks[at], _NO_RANK)
    return _first(jnp.concatenate([best[0], found], axis=1),
                  jnp.concatenate([best[1], own], axis=1), k)

  is_any_better = jnp.any(scores.max(axis=1) >= best[0][:, -1])
  return jax.lax.cond(is_any_better, join, lambda best: best, best), None


def _first(
    scores: Float[Array, 'queries some'], ranks: Int[Array, 'queries some'],
    k: int,
) -> tuple[Array, Array]:
  """The k highest scores; of equal ones those of the lowest ranks."""
  descending, ranks = jax.lax.sort((-scores, ranks), num_keys=2)
  return -descending[:, :k], ranks[:, :k]


def _scores(
    score: scoring.ScoreFunction,
    queries: Float[Array, 'queries query_features'],
    vecs: Array,
) -> Float[Array, 'queries passages']:
  """In full float32 precision, of passages in float32 or bfloat16.

  A float32 is the sum of three bfloat16, so the products with a bfloat16 take
  three passes of a matrix unit, and not the six of two float32.
  """
  if vecs.dtype != jnp.bfloat16:
    return score(queries, vecs)
  if not score.is_dot:
    return score(queries, vecs.astype(jnp.float32))
  total: Any = 0.0
  for _ in range(3):
    part = jax.lax.reduce_precision(queries, exponent_bits=8, mantissa_bits=7)
    queries = queries - part
    total = total + jnp.einsum(
        'qd,pd->qp', part.astype(jnp.bfloat16), vecs,
        preferred_element_type=jnp.float32,
    )
  return total


def _tiles(query_vecs: np.ndarray) -> np.ndarray:
  """`[tiles, queries, features]`, filled up with zeros; few shapes."""
  count, features = query_vecs.shape
  size = min(_QUERIES_AT_ONCE, 1 << (count - 1).bit_length())
  tiles = np.zeros((-(-count // size), size, features), np.float32)
  tiles.reshape(-1, features)[:count] = query_vecs
  return tiles


def _put(array: np.ndarray, mesh: Mesh, spec: PartitionSpec) -> Array:
  return jax.make_array_from_callback(
      array.shape, NamedSharding(mesh, spec), lambda index: array[index]
  )
