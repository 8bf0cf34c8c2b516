"""Exact search of vectors by Beam: a worker takes some blocks and all queries.

Workers score on their cores, as `host_scan.py` does: the scores are those of an
exact search on a CPU, to the last bit.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from neg_contrast import scoring
from neg_contrast.artifacts import passed_on
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.retrieval import (
  beam_best,
  best_keys,
  corpus_blocks,
  hits,
  host_scan,
  mesh_search,
  vector_table,
)

_PART_ROWS = 2**18  # 800 MB of 768 features, mapped.


@dataclasses.dataclass(frozen=True)
class _Candidates:
  """The best passages of queries in a part of a table.

  Attributes:
    corpus: folder of the prepared corpus, which has no worlds.
    table: folder of the vectors.
    layout: of the table.
    score: of a query's vectors and a passage's.
    blocks: of the corpus; a part has those of a device.
    queries: file of `[queries, features] float32`.
    depth: passages of a query.
  """

  corpus: pathlib.Path
  table: pathlib.Path
  layout: vector_table.Layout
  score: scoring.ScoreFunction
  blocks: corpus_blocks.Blocks
  queries: pathlib.Path
  depth: int

  def __call__(self, part: int) -> Iterator[tuple[int, int]]:
    """Queries and the keys of their best passages of a part."""
    scan = host_scan.HostScan(
        _table(self.table, self.layout), _ranks(self.corpus), self.blocks,
        self.blocks.of_devices(range(part, part + 1)), self.score,
    )
    found = scan.search(np.load(self.queries), self.depth)
    for query, keys in enumerate(found):
      for key in keys[keys != best_keys.NOTHING].tolist():
        yield query, key


@functools.lru_cache(1)
def _table(
    folder: pathlib.Path, layout: vector_table.Layout
) -> vector_table.Table:
  return vector_table.Table(folder, layout)


@functools.lru_cache(1)
def _ranks(corpus: pathlib.Path) -> np.ndarray:
  return prepared_lib.Prepared(corpus).tie_ranks


def search(
    prepared: prepared_lib.Prepared,
    table: vector_table.Table,
    score: scoring.ScoreFunction,
    queries: Float[np.ndarray, 'queries features'],
    depth: int,
    block_rows: int,
    scratch: pathlib.Path,
) -> hits.Hits:
  """The best passages of queries; as `MeshSearch.search` on a CPU.

  Args:
    prepared: the corpus, which has no worlds.
    table: the vectors of all its passages.
    score: of a query's vectors and a passage's.
    queries: `[queries, features] float32`.
    depth: passages of a query.
    block_rows: passages that are scored at once.
    scratch: of `beam_best.scratch_in`.

  Raises:
    ValueError: a vector is not finite.
  """
  vector_table.check_finite(queries, 'query')
  path = scratch / 'queries.npy'
  passed_on.save(path, np.ascontiguousarray(queries, np.float32))
  parts = -(-len(table) // _PART_ROWS)
  blocks = corpus_blocks.Blocks(len(table), mesh_search.rows_of_block(
      block_rows, *table.shape), parts)
  return beam_best.search(
      'searching vectors', parts, _Candidates(
          prepared.corpus_folder, table.folder, table.layout, score, blocks,
          path, depth,
      ), len(queries), depth, prepared.tie_ranks, scratch,
  )
