"""The vectors of a corpus on the devices of a training, which searches them."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Int

from neg_contrast.losses import table_search
from neg_contrast.retrieval import embedder as embedder_lib


def make_table(
    embedder: embedder_lib.Embedder,
    groups: Int[np.ndarray, ' passages'],
    mesh: Mesh,
    dtype: np.dtype,
) -> table_search.Table:
  """Encodes a corpus onto a mesh; a process encodes what its devices hold.

  Blocks are those of encoding, cut by corpus row, so that the vectors are the
  same on any mesh.

  Args:
    embedder: of the corpus.
    groups: `[passages] int32`, equal for passages of the same text.
    mesh: whose `data` axis shares the passages.
    dtype: that vectors are kept in, float32 or bfloat16.
  """
  rows, shards = embedder.block_rows, mesh.shape['data']
  all_blocks = -(-len(groups) // rows)
  blocks = max(1, -(-all_blocks // shards))
  layout = shards, blocks, rows
  place = NamedSharding(mesh, PartitionSpec('data'))
  made: dict[int, np.ndarray] = {}  # Devices along `model` hold the same.

  def span_of(shard: int) -> range:
    first = min(shard * blocks * rows, len(groups))
    return range(first, min(first + blocks * rows, len(groups)))

  def encode(shard: int) -> np.ndarray:
    if shard not in made:
      vecs = np.zeros((blocks * rows, embedder.encoder.dim), dtype)
      span = span_of(shard)
      if span:
        vecs[:len(span)] = embedder.encode_span(span)
      made[shard] = vecs.reshape(1, blocks, rows, -1)
    return made[shard]

  def groups_of(shard: int) -> np.ndarray:
    own = np.full(blocks * rows, -1, np.int32)
    span = span_of(shard)
    own[:len(span)] = groups[span.start : span.stop]
    return own.reshape(1, blocks, rows)

  def arrays(
      shape: tuple[int, ...], of_shard: Callable[[int], np.ndarray]
  ) -> jax.Array:
    def read(index: Any) -> np.ndarray:
      return np.concatenate(list(map(of_shard, range(shards)[index[0]])))

    return jax.make_array_from_callback(shape, place, read)

  table = table_search.Table(
      arrays((*layout, embedder.encoder.dim), encode),
      arrays(layout, groups_of),
  )
  return jax.block_until_ready(table)
