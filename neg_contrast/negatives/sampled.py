"""Draws from a corpus that streams over the devices in blocks.

For the source `sampled`: see `negatives/sources/sampled_source.py`, and
`negatives/sampling.py` for the mathematics.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, Key

from neg_contrast import scoring
from neg_contrast.negatives import sampling
from neg_contrast.retrieval import vector_table

EXAMPLES_AT_ONCE = 256
_BLOCK_BYTES = 2**26  # Of vectors, on a device.
_KEPT_BLOCKS = 4  # So many stay on the devices.


class Blocks:
  """The corpus, some passages at a time, each device its own."""

  def __init__(
      self,
      vecs: vector_table.Rows,
      among: Int[np.ndarray, ' passages'],
      groups: Int[np.ndarray, ' passages'],
      mesh: Mesh,
  ):
    """Reads nothing yet.

    Args:
      vecs: `[passages, features] float32`.
      among: `[passages] int32`, their rows in the corpus.
      groups: `[passages] int32`, equal for equal texts.
      mesh: devices share the passages along `data`.
    """
    self._vecs, self._among, self._groups = vecs, among, groups
    self._devices = mesh.shape['data']
    self._rows = max(1, min(
        -(-len(vecs) // self._devices), _BLOCK_BYTES // (4 * vecs.shape[1])
    ))
    self._split = NamedSharding(mesh, PartitionSpec('data'))

  def __len__(self) -> int:
    return -(-len(self._vecs) // (self._devices * self._rows))

  def __iter__(self):
    """(vectors, rows, groups), `[devices, block, ...]`; row -1 pads."""
    stride = self._devices * self._rows
    for start in range(0, len(self._vecs), stride):
      part = np.asarray(self._vecs[start : start + stride], np.float32)
      vecs = np.zeros((stride, part.shape[1]), np.float32)
      rows = np.full(stride, -1, np.int32)
      groups = np.full(stride, -1, np.int32)
      vecs[: len(part)] = part
      rows[: len(part)] = self._among[start : start + stride]
      groups[: len(part)] = self._groups[start : start + stride]
      shape = self._devices, self._rows
      yield jax.device_put(
          (vecs.reshape(*shape, -1), rows.reshape(shape),
           groups.reshape(shape)), self._split,
      )


class Drawer:
  """Draws the negatives of a block of examples."""

  def __init__(
      self,
      how: sampling.Sampling,
      is_iid: bool,
      score: scoring.ScoreFunction,
      scale: float,
      blocks: Blocks,
  ):
    """Puts a small corpus on the devices.

    Args:
      how: many of which kind.
      is_iid: draw with replacement instead, and tell the chance.
      score: of a query and a passage.
      scale: of scores.
      blocks: the corpus.
    """
    self._how, self._is_iid, self._blocks = how, is_iid, blocks
    self._score, self._scale = score, scale
    self._kept = list(blocks) if len(blocks) <= _KEPT_BLOCKS else None
    self._run = jax.jit(self._run_block)

  def __call__(
      self,
      key: Key[Array, ''],
      ids: Int[np.ndarray, ' examples'],
      query_vecs: Float[np.ndarray, 'examples query_features'],
      positive_groups: Int[np.ndarray, 'examples positives'],
  ) -> dict[str, np.ndarray]:
    """Draws for at most `EXAMPLES_AT_ONCE` examples.

    Args:
      key: of the epoch, see `sampling.draw_key`.
      ids: `[examples] int32`, numbers of the examples.
      query_vecs: `[examples, query_features] float32`.
      positive_groups: `[examples, positives] int32`, groups that are excluded;
        -1: none.

    Returns:
      `rows`, `[examples, K - 1] int32`, -1 where there is no passage left; with
      replacement also `log_proposal`, `[examples, K - 1] float32`.
    """
    count = len(ids)
    missing = EXAMPLES_AT_ONCE - count  # One shape for all.
    pad = lambda a, value: np.pad(
        a, [(0, missing)] + [(0, 0)] * (a.ndim - 1), constant_values=value
    )
    ids, query_vecs = pad(ids.astype(np.int32), 0), pad(query_vecs, 0)
    width = max(1, 1 << (positive_groups.shape[1] - 1).bit_length())
    positive_groups = np.pad(
        pad(positive_groups, -1),
        ((0, 0), (0, width - positive_groups.shape[1])), constant_values=-1,
    )
    race: sampling.IidRace | sampling.Race = (
        sampling.start_iid(len(ids), self._how.count) if self._is_iid
        else sampling.start_race(len(ids), self._how)
    )
    for block in self._kept or self._blocks:
      race = self._run(race, key, ids, query_vecs, positive_groups, *block)
    if isinstance(race, sampling.IidRace):
      made = {'rows': race.kept.rows, 'log_proposal': race.log_proposal}
    else:
      made = {'rows': sampling.finish_race(race, self._how).rows}
    return {name: np.asarray(values)[:count] for name, values in made.items()}

  def _run_block(
      self,
      race: Any,
      key: Array,
      ids: Int[Array, ' examples'],
      query_vecs: Float[Array, 'examples query_features'],
      positive_groups: Int[Array, 'examples positives'],
      vecs: Float[Array, 'devices block features'],
      rows: Int[Array, 'devices block'],
      groups: Int[Array, 'devices block'],
  ) -> Any:
    """Lets a block take part in the race, each device with its passages."""

    def of_device(vecs, rows, groups):
      scores = self._scale * self._score(query_vecs, vecs)
      usable = (rows >= 0)[None] & ~jnp.any(
          groups[None, :, None] == positive_groups[:, None, :], axis=2
      )
      where = key, ids, rows, scores, usable
      if self._is_iid:
        return sampling.run_iid(
            sampling.start_iid(len(ids), self._how.count), *where
        )
      return sampling.run_race(
          sampling.start_race(len(ids), self._how), *where, self._how
      )

    races = jax.vmap(of_device)(vecs, rows, groups)
    join = sampling.join_iid if self._is_iid else sampling.join_races
    for device in range(len(rows)):
      race = join(race, jax.tree.map(lambda a, at=device: a[at], races))
    return race

