"""Scores of a corpus on the cores of this machine, from where it lies.

The scores of a block are one matrix product of a fixed shape on one thread, so
that they depend neither on the threads nor on who computes them. The rows of a
float32 table are read from its map, and nothing is copied or sorted.
"""

import concurrent.futures
import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
import threadpoolctl
from jaxtyping import Float, Int

from neg_contrast import hosts, scoring
from neg_contrast.retrieval import best_keys, corpus_blocks, vector_table

_QUERIES_AT_ONCE = 512
_SCORES_AT_ONCE = 2**21  # 8 MiB a thread, or more for many queries.
_READ_BYTES = 2**27  # Of vectors, in memory twice.
_LEAST_WORK = 2**24  # Multiplications of a thread, which it is started for.

_Block = tuple[range, np.ndarray]
_Work = Callable[[Any], None]


class HostScan:
  """Finds the best passages of queries; each process reads its own blocks."""

  def __init__(
      self,
      vecs: vector_table.Rows,
      ranks: Int[np.ndarray, ' passages'],
      blocks: corpus_blocks.Blocks,
      own: range,
      score: scoring.ScoreFunction,
      is_shared: bool = False,
  ):
    """Reads nothing yet.

    Args:
      vecs: `[passages, features] float32`.
      ranks: `[passages] int32`, tie ranks.
      blocks: of the corpus.
      own: those of this process.
      score: of a query's vectors and a passage's.
      is_shared: whether other processes search too, though they may have no
        blocks.
    """
    self._vecs, self._ranks, self._blocks = vecs, ranks, blocks
    self._own, self._score, self._is_shared = own, score, is_shared
    self._is_finite: set[int] = set()

  def search(
      self, query_vecs: Float[np.ndarray, 'queries features'], k: int
  ) -> np.ndarray:
    """The keys of the best; see `best_keys`.

    Where processes share the corpus, all come here.

    Args:
      query_vecs: `[queries, features] float32`.
      k: passages wanted of each.

    Returns:
      `[queries, k] int64`, descending.

    Raises:
      ValueError: a vector is not finite.
    """
    best = self._search_own(query_vecs, k)
    if not self._is_shared:
      return best
    words = hosts.gather(best.view(np.int32))  # JAX would cut int64.
    parts = words.view(np.int64).reshape(-1, len(query_vecs), k)
    return best_keys.best_of(np.concatenate(list(parts), axis=1), k)

  def _search_own(self, query_vecs, k):
    """The same of this process's blocks."""
    tiles = [query_vecs[start : start + _QUERIES_AT_ONCE]
             for start in range(0, len(query_vecs), _QUERIES_AT_ONCE)]
    threads = hosts.usable_cores() if self._score.is_dot else 1
    work = query_vecs.size * len(self._own) * self._blocks.block_rows
    lanes = max(1, min(
        -(-threads // len(tiles)), len(self._own), work // _LEAST_WORK
    ))
    items = []
    for tile in tiles:
      floor, columns = best_keys.floor_of(len(tile)), np.ascontiguousarray(
          tile.T  # BLAS is a little faster with these.
      )
      items += [(columns, lane, best_keys.Best(len(tile), k, floor))
                for lane in range(lanes)]

    def score(blocks: Sequence[_Block], item: Any) -> None:
      columns, lane, best = item
      count = len(blocks)
      self._add(best, columns,
                blocks[count * lane // lanes : count * (lane + 1) // lanes])

    with _one_blas_thread(), _workers(min(threads, len(items))) as run:
      for blocks in self._read_ahead():
        run(functools.partial(score, blocks), items)
    found = [best.keys for _, _, best in items]
    return np.concatenate([
        best_keys.best_of(np.concatenate(found[at : at + lanes], axis=1), k)
        for at in range(0, len(found), lanes)
    ])

  def _read_ahead(self) -> Iterator[list[_Block]]:
    """This process's blocks, some at a time; the next are read meanwhile."""
    each = max(1, _READ_BYTES // (
        4 * self._blocks.block_rows * max(1, self._vecs.shape[1])
    ))
    parts = [self._own[start : start + each]
             for start in range(0, len(self._own), each)]
    if len(parts) < 2:
      yield from map(self._read, parts)
      return
    with concurrent.futures.ThreadPoolExecutor(1) as reader:
      coming = reader.submit(self._read, parts[0])
      for part in [*parts[1:], None]:
        blocks = coming.result()
        if part is not None:
          coming = reader.submit(self._read, part)
        yield blocks

  def _read(self, part: range) -> list[_Block]:
    return [(self._blocks.rows_of(block), self._block(block))
            for block in part]

  def _block(self, block: int) -> np.ndarray:
    rows = self._blocks.rows_of(block)
    vecs = np.asarray(self._vecs[rows.start : rows.stop], np.float32)
    if block not in self._is_finite:
      vector_table.check_finite(vecs, 'passage')
      self._is_finite.add(block)
    return vecs

  def _add(self, best, columns, blocks):
    """Lets neighbouring blocks take part, as many as give enough scores."""
    size, queries = self._blocks.block_rows, columns.shape[1]
    each = max(1, _SCORES_AT_ONCE // (size * queries))
    scores = np.empty((min(each, len(blocks)) * size, queries), np.float32)
    for start in range(0, len(blocks), each):
      some = blocks[start : start + each]
      first = some[0][0].start
      for rows, vecs in some:
        self._score_block(
            columns, vecs, scores[rows.start - first : rows.stop - first]
        )
      stop = some[-1][0].stop
      best.add(scores[: stop - first], self._ranks[first:stop])

  def _score_block(self, columns, vecs, out):
    """Fills `[rows, queries]` scores of a block."""
    count = columns.shape[1]
    if self._score.is_dot and count == 1:
      np.vecdot(vecs, columns[:, 0], out=out[:, 0])  # As quick as reading.
      return
    if self._score.is_dot:
      np.matmul(vecs, columns, out=out)
      return
    queries = 1 << (count - 1).bit_length()  # Few shapes.
    out[:] = np.asarray(self._jitted(
        _filled(columns.T, queries), _filled(vecs, self._blocks.block_rows)
    ))[:count, : len(vecs)].T

  @functools.cached_property
  def _jitted(self) -> Callable[..., Any]:
    return jax.jit(self._score)


def _filled(rows: np.ndarray, count: int) -> np.ndarray:
  """Rows, and zeros to make them so many."""
  if len(rows) == count:
    return rows
  return np.pad(rows, ((0, count - len(rows)), (0, 0)))


@functools.cache
def _blas() -> threadpoolctl.ThreadpoolController:
  return threadpoolctl.ThreadpoolController()  # Looks at all libraries.


def _one_blas_thread() -> contextlib.AbstractContextManager[Any]:
  """Threads of ours each compute a product alone, and none waits by spinning.
  """
  return _blas().limit(limits=1, user_api='blas')


@contextlib.contextmanager
def _workers(threads: int) -> Iterator[Callable[[_Work, list[Any]], Any]]:
  """Calls a function with every item, on so many threads."""
  if threads < 2:
    yield lambda work, items: list(map(work, items))
    return
  with concurrent.futures.ThreadPoolExecutor(threads) as pool:
    yield lambda work, items: list(pool.map(work, items))
