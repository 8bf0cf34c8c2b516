"""What a search returns, and the one order all rankings here follow.

Scores descend as float32, and equal scores are ordered by passage id, bytes
descending: trec_eval's order, so that our ranks are the ranks it judges.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, Int, Int32

_Queries = TypeVar('_Queries', contravariant=True)


@dataclasses.dataclass(frozen=True)
class Hits:
  """The best passages of each query, best first.

  Attributes:
    rows: [queries, depth] int32, corpus rows; -1 where fewer were found.
    scores: [queries, depth] float32, descending; -inf where fewer were found.
  """

  rows: Int32[np.ndarray, '*queries depth']
  scores: Float32[np.ndarray, '*queries depth']

  def part(self, lines: slice | Int[np.ndarray, ' some']) -> 'Hits':
    """Those of some queries."""
    return Hits(self.rows[lines], self.scores[lines])


@runtime_checkable
class Index(Protocol[_Queries]):
  """A corpus that can be searched.

  `_Queries` is whatever the index ranks by: a sequence of texts for BM25, query
  vectors [queries, features] float32 for exact search and ScaNN.
  """

  def search(self, queries: _Queries, depth: int) -> Hits:
    """The `depth` best passages of each query, in the order of this module."""
    ...


def renumber(
    found: Hits, rows: Int32[np.ndarray, ' part'] | None
) -> Hits:
  """Hits in a part of a corpus as rows of the corpus.

  Args:
    found: places in the part.
    rows: `[part] int32`, its rows; None: the part is the whole.
  """
  if rows is None:
    return found
  if not len(rows):
    return Hits(np.full_like(found.rows, -1), found.scores)
  return Hits(np.where(found.rows >= 0, rows[found.rows], np.int32(-1)),
              found.scores)


def search_parts(
    parts: Int32[np.ndarray, ' queries'],
    depth: int,
    search: Callable[[int, Bool[np.ndarray, ' queries']], Hits],
) -> Hits:
  """The best passages of each query in its own part of the corpus.

  Args:
    parts: `[queries] int32`, the number of each query's part.
    depth: passages wanted.
    search: (part, which queries are of it) -> their hits.
  """
  found = Hits(np.full((len(parts), depth), -1, np.int32),
               np.full((len(parts), depth), -np.inf, np.float32))
  for part in np.unique(parts).tolist():
    lines = parts == part
    some = search(part, lines)
    found.rows[lines], found.scores[lines] = some.rows, some.scores
  return found


def tie_ranks(
    passage_ids: Sequence[str] | np.ndarray,
) -> Int32[np.ndarray, ' passages']:
  """The place of each corpus row when ids are sorted by bytes, descending.

  Args:
    passage_ids: the id of each corpus row, as text or as an array of UTF-8
      bytes.

  Returns:
    `[passages] int32`: 0 for the largest id. Among equal scores the lower rank
    comes first.
  """
  if not isinstance(passage_ids, np.ndarray):
    passage_ids = np.array([text.encode() for text in passage_ids], np.bytes_)
  ranks = np.empty(len(passage_ids), np.int32)
  ranks[np.argsort(passage_ids)[::-1]] = np.arange(len(ranks), dtype=np.int32)
  return ranks


def top_k(
    scores: Float32[np.ndarray, '*queries passages'],
    ranks: Int32[np.ndarray, '... passages'],
    k: int,
) -> Hits:
  """The k best columns of each line by (score descending, rank ascending).

  Exact also where the k-th and the next have the same score. One line is
  worked on at a time: beyond its arguments it needs O(passages) memory.

  Args:
    scores: [..., passages] float32; -inf stands for "not found".
    ranks: [passages] or [..., passages] int32, from `tie_ranks`.
    k: how many to return; lines with fewer finds are padded.

  Returns:
    Hits of shape [..., k]; its rows are columns of `scores`.

  Raises:
    ValueError: a score is NaN, or k is not positive.
  """
  if k < 1:
    raise ValueError(f'k is {k}; it must be at least 1')
  if np.isnan(scores).any():
    raise ValueError('a score is NaN: the model or its vectors are broken')
  ranks = np.broadcast_to(ranks, scores.shape)
  shape = (*scores.shape[:-1], k)
  hits = Hits(
      np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32)
  )
  for line in np.ndindex(scores.shape[:-1]):
    rows = _best_rows(scores[line], ranks[line], k)
    hits.rows[line][:len(rows)] = rows
    hits.scores[line][:len(rows)] = scores[line][rows]
  return hits


def best_of(
    rows: Int32[np.ndarray, 'queries candidates'],
    scores: Float32[np.ndarray, 'queries candidates'],
    tie_ranks: Int[np.ndarray, ' passages'],
    depth: int,
) -> Hits:
  """The best of some candidates, in the order of this module.

  Args:
    rows: `[queries, candidates] int32`, corpus rows; -1 pads.
    scores: `[queries, candidates] float32`, -inf for padding.
    tie_ranks: `[passages] int32`, of the corpus.
    depth: hits wanted.
  """
  if not rows.shape[1]:
    shape = (len(rows), depth)
    return Hits(
        np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32)
    )
  found = top_k(scores, tie_ranks[rows], depth)
  taken = np.take_along_axis(rows, np.maximum(found.rows, 0), axis=1)
  return Hits(
      np.where(found.rows >= 0, taken, -1).astype(np.int32), found.scores
  )


def recall(found: Hits, exact: Hits) -> float:
  """The share of the exact hits that were found, mean over queries.

  Args:
    found: `[queries, depth]` of an approximate index.
    exact: `[queries, depth]` of exact search; -1 rows do not count, nor do
      queries that have nothing else. Where there is nothing to find it is 1.
      Passages that score as its last one, such as copies, count as that one.
  """
  shares = []
  for mine, my_scores, best, scores in zip(
      found.rows, found.scores, exact.rows, exact.scores, strict=True
  ):
    best, scores = best[best >= 0], scores[best >= 0]
    if len(best):
      last = scores[-1] - 1e-6 * abs(scores[-1])
      hit = np.isin(mine, best) | (my_scores >= last)
      shares.append(min(1.0, (hit & (mine >= 0)).sum() / len(best)))
  return float(np.mean(shares)) if shares else 1.0


def _best_rows(
    scores: Float32[np.ndarray, 'passages'],
    ranks: Int32[np.ndarray, 'passages'],
    k: int,
) -> np.ndarray:
  """The columns of the at most k best finite scores, best first."""
  rows = np.flatnonzero(scores > -np.inf)
  if len(rows) > k:
    kth_best = np.partition(scores, -k)[-k]
    rows = np.flatnonzero(scores >= kth_best)  # all that tie with the k-th
  return rows[np.lexsort((ranks[rows], -scores[rows]))[:k]]
