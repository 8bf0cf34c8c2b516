"""A corpus of which every vector is scored: for the best passages, or a draw.

The corpus is read once per search, whatever the number of queries, in blocks
that lie over all devices of all processes. Ties go to the larger id, as
everywhere (float32 score descending, then id bytes descending), at the boundary
too. The bytes are the same for any number of devices and processes.

On accelerators the devices score (`device_scan.py`), on CPUs the cores of the
machine do (`host_scan.py`): XLA takes 15 times as long for the products of one
query there, and sorts where a comparison will do. A backend has one of the two.
Whatever else is made of all scores, such as draws with the noise of every pair,
is a fold that devices compute everywhere.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float, Int

from neg_contrast import hosts, scoring
from neg_contrast.retrieval import (
  best_keys,
  corpus_blocks,
  device_best,
  device_scan,
  hits,
  host_scan,
  vector_table,
)

_BLOCK_BYTES = 2**28
_APPROXIMATE_BLOCKS = 8  # As long: little is left out of a short block.


class MeshSearch:
  """A corpus whose vectors are searched; see the docstring of this file.

  Where the mesh is that of several processes, all of them search together.
  """

  def __init__(
      self,
      passage_vecs: vector_table.Rows,
      tie_ranks: Int[np.ndarray, ' passages'],
      mesh: Mesh,
      block_rows: int = 4096,
      score: scoring.ScoreFunction = scoring.DUAL,
      recall: float | None = None,
      on_devices: bool | None = None,
  ):
    """Keeps a reference to the vectors, which may lie on disk.

    Args:
      passage_vecs: `[passages, features] float32`; a process reads the rows of
        `corpus_blocks.own_rows` alone.
      tie_ranks: `[passages] int32`, see `hits.tie_ranks`.
      mesh: devices that share the corpus.
      block_rows: passages that are scored at once; fewer where a passage has so
        many vectors that the block would take more than 256 MiB.
      score: of a query's vectors and a passage's.
      recall: of approximate search, which TPUs alone have: the part of the best
        of every block that has to be found. Elsewhere, and with None, search is
        exact.
      on_devices: whether devices score; None: unless they are CPUs.
    """
    devices = corpus_blocks.devices_of(mesh)
    platform = devices[0].platform
    self._recall = recall if platform == 'tpu' else None
    self._blocks = corpus_blocks.Blocks(
        len(passage_vecs), rows_of_block(
            block_rows, len(passage_vecs), passage_vecs.shape[1],
            is_approximate=recall is not None,
        ), len(devices),
    )
    self._vecs, self._score, self._devices = passage_vecs, score, devices
    self._tie_ranks = tie_ranks
    self._is_on_devices = (
        platform != 'cpu' if on_devices is None else on_devices
    )

  def search(
      self, queries: Float[np.ndarray, 'queries features'], depth: int,
      exactly: bool = False,
  ) -> hits.Hits:
    """The `depth` best passages of each query.

    Args:
      queries: `[queries, features] float32`.
      depth: passages wanted; fewer exist in a smaller corpus.
      exactly: miss nothing, to measure what approximate search misses.

    Raises:
      ValueError: a vector is not finite.
    """
    vector_table.check_finite(queries, 'query')
    queries = np.ascontiguousarray(queries, np.float32)
    if not len(queries) or not self._blocks.count:
      keys = np.full((len(queries), depth), best_keys.NOTHING)
    elif self._is_on_devices:
      keys = device_best.search(self._on_devices, device_best.Best(
          depth, self._score, None if exactly else self._recall
      ), queries)
    else:
      keys = self._on_host.search(queries, depth)
    ranks = best_keys.ranks_of(keys)
    return hits.Hits(
        np.where(ranks >= 0, self._row_of[ranks], np.int32(-1)),
        best_keys.scores_of(keys),
    )

  def fold(
      self,
      fold: device_scan.Fold,
      queries: Any,
      columns: Sequence[Int[np.ndarray, ' passages']],
      at_once: int,
      on_progress: Callable[[int], None] = lambda passages: None,
  ) -> tuple[Any, Any]:
    """Folds all passages; see `device_scan.DeviceScan.fold`.

    Args:
      fold: how; scores are its own.
      queries: a tree of `[queries, ...]`.
      columns: `[passages] int32` each, given beside vectors and tie ranks.
      at_once: queries of a tile, at most.
      on_progress: called with the number of passages that were seen of this
        process's.

    Returns:
      What is kept in the end, a tree of `[queries, ...]`; and what was told of
      every block, a tree of `[blocks, queries, ...]`.

    Raises:
      ValueError: a passage's vector is not finite, or there are no passages.
    """
    if not self._blocks.count:
      raise ValueError('there are no passages')
    kept, told = device_scan.DeviceScan(
        self._vecs, (self._ranks, *columns), self._blocks, self._devices,
        is_for_one=True,
    ).fold(fold, queries, at_once, on_progress)
    return kept, jax.tree.map(hosts.gather, told) if self._is_shared else told

  @property
  def score(self) -> scoring.ScoreFunction:
    """Of a query's vectors and a passage's."""
    return self._score

  @property
  def _is_shared(self) -> bool:
    """Whether other processes search too."""
    return len(corpus_blocks.own(self._devices)) < len(self._devices)

  @functools.cached_property
  def _on_devices(self) -> device_scan.DeviceScan:
    return device_scan.DeviceScan(
        self._vecs, (self._ranks,), self._blocks, self._devices
    )

  @functools.cached_property
  def _on_host(self) -> host_scan.HostScan:
    devices = corpus_blocks.own(self._devices)
    return host_scan.HostScan(
        self._vecs, self._ranks, self._blocks, self._blocks.of_devices(devices),
        self._score, is_shared=self._is_shared,
    )

  @functools.cached_property
  def _row_of(self) -> np.ndarray:
    """`[passages] int32`: the row of each rank among these passages."""
    rows = np.empty(max(1, len(self._ranks)), np.int32)
    rows[self._ranks] = np.arange(len(self._ranks), dtype=np.int32)
    return rows

  @functools.cached_property
  def _ranks(self) -> np.ndarray:
    """Tie ranks among these passages: from 0, none left out."""
    ranks = self._tie_ranks
    if len(ranks) and ranks.max() >= len(ranks):
      order, ranks = np.argsort(ranks), np.empty(len(ranks), np.int32)
      ranks[order] = np.arange(len(ranks), dtype=np.int32)
    return ranks


def rows_of_block(
    block_rows: int, passages: int, features: int,
    is_approximate: bool = False,
) -> int:
  """Passages that are scored at once.

  Args:
    block_rows: that are asked for.
    passages: of the corpus.
    features: of a passage, all its vectors together.
    is_approximate: whether some of the best may be missed.
  """
  block_rows *= _APPROXIMATE_BLOCKS if is_approximate else 1
  return max(1, min(
      block_rows, passages, _BLOCK_BYTES // (4 * max(1, features))
  ))
