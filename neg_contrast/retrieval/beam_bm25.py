"""BM25 searched by Beam: a worker takes a shard, and candidates are merged.

A candidate is a number of `best_keys`, which holds score and tie rank: the
largest of a query are its best, in the one order of `hits.py`, so that Beam's
own Top.PerKey merges them. A worker holds one shard and 1,024 queries.
"""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from neg_contrast import beams
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.retrieval import best_keys, bm25, bm25_folder, hits

_QUERIES_OF_A_FILE = 1024


@dataclasses.dataclass(frozen=True)
class _Search:
  """The best passages of queries, as a job.

  Attributes:
    corpus: folder of the prepared corpus, which has no worlds.
    scratch: holds `queries.json`; gets `best-<number>.npy`, `[queries, depth]
      int64` keys of some queries.
    depth: passages of a query.
    k1: of BM25.
    b: of BM25.
  """

  corpus: pathlib.Path
  scratch: pathlib.Path
  depth: int
  k1: float
  b: float

  def __call__(self, pipeline: Any) -> None:
    """Adds the transforms."""
    import apache_beam as beam

    shards = len(_index(self.corpus, self.k1, self.b).shards)
    pipeline | 'shards' >> beam.Create(range(shards)) | (
        'to searchers' >> beam.Reshuffle()
    ) | 'search' >> beam.FlatMap(self.candidates) | (
        'merge' >> beam.combiners.Top.PerKey(self.depth)
    ) | 'by files' >> beam.MapTuple(_with_file) | (
        'files' >> beam.GroupByKey()
    ) | 'write' >> beam.MapTuple(self.write)

  def candidates(self, shard: int) -> Iterator[tuple[int, int]]:
    """Queries and the keys of their best passages of a shard."""
    index = _index(self.corpus, self.k1, self.b)
    queries = json.loads((self.scratch / 'queries.json').read_text())
    for query, (rows, scores) in enumerate(
        index.search_shard(shard, queries, self.depth)
    ):
      for key in best_keys.keys_of(scores, index.ranks[rows]).tolist():
        yield query, key

  def write(
      self, number: int, merged: Iterable[tuple[int, list[int]]]
  ) -> None:
    """Writes the best of some queries."""
    keys = np.full((_QUERIES_OF_A_FILE, self.depth), best_keys.NOTHING)
    for query, best in merged:
      keys[query % _QUERIES_OF_A_FILE, : len(best)] = best
    with (beams.putting(self.scratch / f'best-{number}.npy') as path,
          open(path, 'wb') as f):
      np.save(f, keys, allow_pickle=False)


def _with_file(query: int, best: list[int]) -> tuple[int, tuple]:
  """The number of the file that a query's best are written to."""
  return query // _QUERIES_OF_A_FILE, (query, best)


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
    scratch: an empty folder that all workers see.
  """
  (scratch / 'queries.json').write_text(json.dumps(list(queries)))
  beams.run('searching by BM25', [
      _Search(prepared.corpus_folder, scratch, depth, k1, b)
  ])
  keys = np.full((len(queries), depth), best_keys.NOTHING)
  for begin in range(0, len(queries), _QUERIES_OF_A_FILE):
    path = scratch / f'best-{begin // _QUERIES_OF_A_FILE}.npy'
    if path.exists():  # Else no passage was found for any of them.
      part = keys[begin : begin + _QUERIES_OF_A_FILE]
      part[:] = np.load(path)[: len(part)]
  ranks = best_keys.ranks_of(keys)
  rows = np.argsort(prepared.tie_ranks).astype(np.int32)[ranks]
  return hits.Hits(np.where(ranks < 0, np.int32(-1), rows),
                   best_keys.scores_of(keys))
