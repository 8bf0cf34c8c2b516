"""BM25 searched by Beam: a worker takes a shard and all queries."""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Iterator, Sequence

from neg_contrast.data import prepared as prepared_lib
from neg_contrast.retrieval import (
  beam_best,
  best_keys,
  bm25,
  bm25_folder,
  hits,
)


@dataclasses.dataclass(frozen=True)
class _Candidates:
  """The best passages of queries in a shard.

  Attributes:
    corpus: folder of the prepared corpus, which has no worlds.
    queries: json file of their texts.
    depth: passages of a query.
    k1: of BM25.
    b: of BM25.
  """

  corpus: pathlib.Path
  queries: pathlib.Path
  depth: int
  k1: float
  b: float

  def __call__(self, shard: int) -> Iterator[tuple[int, int]]:
    """Queries and the keys of their best passages of a shard."""
    index = _index(self.corpus, self.k1, self.b)
    queries = json.loads(self.queries.read_text())
    for query, (rows, scores) in enumerate(
        index.search_shard(shard, queries, self.depth)
    ):
      for key in best_keys.keys_of(scores, index.ranks[rows]).tolist():
        yield query, key


@functools.lru_cache(1)
def _index(corpus: pathlib.Path, k1: float, b: float) -> bm25.Bm25Index:
  prepared = prepared_lib.Prepared(corpus)
  return bm25.Bm25Index(
      bm25_folder.open_shards(prepared), prepared.tie_ranks, k1, b
  )


def search(
    prepared: prepared_lib.Prepared, queries: Sequence[str], depth: int,
    k1: float, b: float, scratch: pathlib.Path,
) -> hits.Hits:
  """The best passages of queries; as `Bm25Index.search`.

  Args:
    prepared: the corpus, whose postings are made, and which has no worlds.
    queries: texts.
    depth: passages of a query.
    k1: of BM25.
    b: of BM25.
    scratch: of `beam_best.scratch_in`.
  """
  path = scratch / 'queries.json'
  path.write_text(json.dumps(list(queries)))
  return beam_best.search(
      'searching by BM25', len(bm25_folder.open_shards(prepared)),
      _Candidates(prepared.corpus_folder, path, depth, k1, b), len(queries),
      depth, prepared.tie_ranks, scratch,
  )
