"""BM25 searched by Beam: a worker takes a shard and all queries.

What the formula needs of all shards is added up first, for the terms of the
queries alone, so that a worker reads one shard and no other.
"""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Iterator, Sequence

import numpy as np

from neg_contrast import beams
from neg_contrast.artifacts import passed_on
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.retrieval import (
  beam_best,
  best_keys,
  bm25,
  bm25_folder,
  bm25_terms,
  bm25_totals,
  hits,
)


@dataclasses.dataclass(frozen=True)
class _Files:
  """What the workers of one search read and write.

  Attributes:
    corpus: folder of the prepared corpus, which has no worlds.
    scratch: of `beam_best.scratch_in`.
  """

  corpus: pathlib.Path
  scratch: pathlib.Path

  @property
  def queries(self) -> pathlib.Path:
    """Json of their texts."""
    return self.scratch / 'queries.json'

  @property
  def terms(self) -> pathlib.Path:
    """`[terms] uint64` of the queries, ascending, different."""
    return self.scratch / 'terms.npy'

  @property
  def totals(self) -> pathlib.Path:
    """`[2 + terms] int64` of the corpus: passages, words, and `holding`."""
    return self.scratch / 'totals.npy'

  def totals_of(self, shard: int) -> pathlib.Path:
    """The same of one shard."""
    return self.scratch / f'totals-{shard}.npy'

  def shard(self, number: int) -> bm25_folder.Shard:
    """A shard, and nothing of the others."""
    return bm25_folder.open_shards(
        prepared_lib.Prepared(self.corpus), [number])[0]


def _save(path: pathlib.Path, totals: bm25_totals.Totals) -> None:
  passed_on.save(path, np.concatenate([
      [totals.passages, totals.words], totals.holding]).astype(np.int64))


def _load(path: pathlib.Path, terms: np.ndarray) -> bm25_totals.Totals:
  passages, words, *_ = values = np.load(path)
  return bm25_totals.Totals(int(passages), int(words), terms, values[2:])


@dataclasses.dataclass(frozen=True)
class _Count:
  """Adds up a shard, as a part of a pipeline."""

  files: _Files

  def __call__(self, shard: int) -> None:
    """Writes the totals of a shard."""
    _save(self.files.totals_of(shard), bm25_totals.of_shard(
        self.files.shard(shard).postings, np.load(self.files.terms)))


@dataclasses.dataclass(frozen=True)
class _Candidates:
  """The best passages of queries in a shard.

  Attributes:
    files: of the search.
    depth: passages of a query.
    k1: of BM25.
    b: of BM25.
  """

  files: _Files
  depth: int
  k1: float
  b: float

  def __call__(self, shard: int) -> Iterator[tuple[int, int]]:
    """Queries and the keys of their best passages of a shard."""
    ranks, queries, totals = _of_search(self.files)
    index = bm25.Bm25Index(
        [self.files.shard(shard)], ranks, self.k1, self.b, totals)
    for query, (rows, scores) in enumerate(
        index.candidates(queries, self.depth)
    ):
      for key in best_keys.keys_of(scores, ranks[rows]).tolist():
        yield query, key


@functools.lru_cache(1)
def _of_search(files: _Files):
  """Tie ranks, texts of queries and totals."""
  return (prepared_lib.Prepared(files.corpus).tie_ranks,
          json.loads(files.queries.read_text()),
          _load(files.totals, np.load(files.terms)))


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
  files = _Files(prepared.corpus_folder, scratch)
  files.queries.write_text(json.dumps(list(queries)))
  terms = np.unique(bm25_terms.TermReader().read(queries).terms)
  passed_on.save(files.terms, terms)
  shards = list(range(len(bm25_folder.rows_of_shards(prepared))))
  beams.run('adding up words', [beams.Each(_Count(files), shards)])
  _save(files.totals, bm25_totals.together(
      [_load(files.totals_of(shard), terms) for shard in shards], terms))
  return beam_best.search(
      'searching by BM25', len(shards), _Candidates(files, depth, k1, b),
      len(queries), depth, prepared.tie_ranks, scratch,
  )
