"""The best passages of queries among the parts of a corpus, merged by Beam.

A candidate is a number of `best_keys`, which holds score and tie rank: the
largest of a query are its best, in the one order of `hits.py`, so that Beam's
own Top.PerKey merges them.
"""

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Int

from neg_contrast import beams
from neg_contrast.artifacts import folders, passed_on
from neg_contrast.retrieval import best_keys, hits

_QUERIES_OF_A_FILE = 1024

Candidates = Callable[[int], Iterator[tuple[int, int]]]
"""(part of the corpus) -> queries, and keys of their best passages there."""


@dataclasses.dataclass(frozen=True)
class _Merge:
  """The best candidates of queries, as a job.

  Attributes:
    parts: of the corpus.
    candidates: of a part; can be pickled.
    depth: passages of a query.
    scratch: gets `best-<number>.npy`, `[queries, depth] int64` keys of some
      queries.
  """

  parts: int
  candidates: Candidates
  depth: int
  scratch: pathlib.Path

  def __call__(self, pipeline: Any) -> None:
    """Adds the transforms."""
    import apache_beam as beam

    pipeline | 'parts' >> beam.Create(range(self.parts)) | (
        'to searchers' >> beam.Reshuffle()
    ) | 'search' >> beam.FlatMap(beams.Emitting(self.candidates)) | (
        'merge' >> beam.combiners.Top.PerKey(self.depth)
    ) | 'by files' >> beam.MapTuple(_with_file) | (
        'files' >> beam.GroupByKey()
    ) | 'write' >> beam.MapTuple(beams.Placed(self.write))

  def write(
      self, number: int, merged: Iterable[tuple[int, list[int]]]
  ) -> None:
    """Writes the best of some queries."""
    keys = np.full((_QUERIES_OF_A_FILE, self.depth), best_keys.NOTHING)
    for query, best in merged:
      keys[query % _QUERIES_OF_A_FILE, : len(best)] = best
    passed_on.save(self.scratch / f'best-{number}.npy', keys)


def _with_file(query: int, best: list[int]) -> tuple[int, tuple]:
  """The number of the file that a query's best are written to."""
  return query // _QUERIES_OF_A_FILE, (query, best)


@contextlib.contextmanager
def scratch_in(folder: pathlib.Path) -> Iterator[pathlib.Path]:
  """A folder beside another, which all workers see, for one search at a time.

  What a program left there that was killed goes.
  """
  place = folder.with_name(f'{folder.name}.beam')
  with folders.only_one(place), passed_on.shared(place) as scratch:
    yield scratch


def search(
    what: str,
    parts: int,
    candidates: Candidates,
    queries: int,
    depth: int,
    tie_ranks: Int[np.ndarray, ' passages'],
    scratch: pathlib.Path,
) -> hits.Hits:
  """The best passages of queries, as rows of the corpus.

  Args:
    what: is done, for messages.
    parts: of the corpus.
    candidates: of a part; can be pickled. `depth` of a query are enough.
    queries: how many.
    depth: passages of a query.
    tie_ranks: `[passages] int32`, see `hits.tie_ranks`.
    scratch: of `scratch_in`.
  """
  beams.run(what, [_Merge(parts, candidates, depth, scratch)])
  keys = np.full((queries, depth), best_keys.NOTHING)
  for begin in range(0, queries, _QUERIES_OF_A_FILE):
    path = scratch / f'best-{begin // _QUERIES_OF_A_FILE}.npy'
    if path.exists():  # Else no passage was found for any of them.
      part = keys[begin : begin + _QUERIES_OF_A_FILE]
      part[:] = np.load(path)[: len(part)]
  ranks = best_keys.ranks_of(keys)
  rows = np.argsort(tie_ranks).astype(np.int32)[ranks]
  return hits.Hits(np.where(ranks < 0, np.int32(-1), rows),
                   best_keys.scores_of(keys))
