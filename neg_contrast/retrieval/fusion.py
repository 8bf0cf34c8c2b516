"""Several systems as one: embeddings, scores or ranks put together.

Lu et al., section 4.4, have embedding fusion and rank fusion. Scores here are
those of `hits.Hits`: unscaled dot products, or BM25's.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from neg_contrast import errors
from neg_contrast.retrieval import hits, vector_table

_MOST_POINTS = 50_000
_QUERIES_AT_ONCE = 256
_MRR_CUT = 10
_SHARE = 2520  # Of 1, 1/2, ... 1/10 all are whole multiples of 1/2520.


class ConcatenatedTable:
  """The vectors of several models side by side; a view, nothing is copied.

  Attributes:
    shape: (passages, features of all).
  """

  def __init__(self, tables: Sequence[vector_table.Rows]):
    """Keeps references to the tables.

    Args:
      tables: of each model, `[passages, features] float32`, of one corpus.

    Raises:
      ValueError: they are not of equal length.
    """
    lengths = {len(rows) for rows in tables}
    if len(lengths) != 1:
      raise ValueError(f'tables of {sorted(lengths)} passages do not match')
    self._tables = tables
    self.shape = (lengths.pop(), sum(rows.shape[1] for rows in tables))

  def __len__(self) -> int:
    return self.shape[0]

  @property
  def nbytes(self) -> int:
    """Bytes of all tables."""
    return sum(rows.nbytes for rows in self._tables)

  def __getitem__(
      self, rows: slice | int | Int[np.ndarray, '*some']
  ) -> Float[np.ndarray, '*some features']:
    """Vectors of some passages."""
    return np.concatenate([part[rows] for part in self._tables], axis=-1)


def fuse_queries(
    query_vecs: Sequence[Float[np.ndarray, 'queries _']],
    weights: Sequence[float],
) -> Float[np.ndarray, 'queries features']:
  """Query vectors whose products with a `ConcatenatedTable` are Σ w_k · s_k.

  Lu et al. multiply both sides by a coefficient c_k; scores are the same for
  w_k = c_k². With weights on this side alone one table serves them all.

  Args:
    query_vecs: of each model, `[queries, features] float32`.
    weights: of each model.
  """
  return np.concatenate([
      np.float32(weight) * vecs
      for weight, vecs in zip(weights, query_vecs, strict=True)
  ], axis=-1)


@dataclasses.dataclass(frozen=True)
class Candidates:
  """Passages that any of several systems proposes, and what each says of them.

  Attributes:
    rows: `[queries, candidates] int32`, those of a query in the order in which
      ties are broken; -1 pads.
    scores: `[queries, candidates, systems] float`.
  """

  rows: Int[np.ndarray, 'queries candidates']
  scores: Float[np.ndarray, 'queries candidates systems']

  def with_scores(
      self, scores: Float[np.ndarray, 'queries candidates']
  ) -> 'Candidates':
    """The same with one more system, which says this of them."""
    scores = np.where(self.rows >= 0, scores, 0).astype(self.scores.dtype)
    return Candidates(self.rows, np.concatenate(
        [self.scores, scores[..., None]], axis=2
    ))

  def ranked(self, weights: Sequence[float], depth: int) -> hits.Hits:
    """The best passages by Σ w_k · s_k."""
    fused = _weighted(self.scores, np.array([weights], float))[..., 0]
    best = hits.top_k(
        np.where(self.rows >= 0, fused, -np.inf).astype(np.float32),
        np.arange(self.rows.shape[1], dtype=np.int32), depth,
    )
    rows = np.take_along_axis(self.rows, np.maximum(best.rows, 0), axis=1)
    return hits.Hits(np.where(best.rows >= 0, rows, np.int32(-1)), best.scores)


def gather(
    proposals: Sequence[Int[np.ndarray, 'queries _']],
    scorers: Sequence[Callable[[np.ndarray], np.ndarray]],
    tie_ranks: Int[np.ndarray, ' passages'],
) -> Candidates:
  """The union of what is proposed, scored by every system.

  Args:
    proposals: `[queries, any] int32` rows of each system; -1 pads.
    scorers: `[queries, candidates]` rows -> their scores, of each system.
    tie_ranks: see `hits.tie_ranks`.
  """
  rows = np.sort(np.concatenate(proposals, axis=1), axis=1).astype(np.int32)
  rows[:, 1:][rows[:, 1:] == rows[:, :-1]] = -1
  rows = np.take_along_axis(
      rows, np.argsort(_tie_keys(rows, tie_ranks), axis=1), axis=1
  )
  rows = rows[:, : max(1, int((rows >= 0).sum(axis=1).max(initial=0)))]
  scores = np.stack([score(rows) for score in scorers], axis=2)
  return Candidates(rows, np.where(rows[..., None] >= 0, scores,
                                   scores.dtype.type(0)))


def _tie_keys(rows, tie_ranks):
  return np.where(rows >= 0, tie_ranks[rows], np.iinfo(np.int32).max)


Scale = Callable[[hits.Hits], Float[np.ndarray, 'queries depth']]
"""What counts of a ranking: a number for each of its places, 0 for padding."""


def raw(found: hits.Hits) -> Float[np.ndarray, 'queries depth']:
  """Scores as they are."""
  return np.where(found.rows >= 0, found.scores.astype(np.float64), 0)


def min_max(found: hits.Hits) -> Float[np.ndarray, 'queries depth']:
  """Scores of each query brought to 0 (its last) to 1 (its first).

  All are 0 where they are equal.
  """
  is_there, scores = found.rows >= 0, raw(found)
  low = np.min(scores, axis=1, keepdims=True, initial=np.inf, where=is_there)
  high = np.max(scores, axis=1, keepdims=True, initial=-np.inf, where=is_there)
  span = np.where(high > low, high - low, 1)
  return np.where(is_there, (scores - low) / span, 0)


def reciprocal_rank(k: float) -> Scale:
  """1 / (k + rank), whatever the scores."""
  return lambda found: np.where(
      found.rows >= 0, 1 / (k + np.arange(1, found.rows.shape[1] + 1)), 0
  )


def align(
    rankings: Sequence[hits.Hits],
    tie_ranks: Int[np.ndarray, ' passages'],
    scale: Scale,
) -> Candidates:
  """Rankings of the same queries side by side.

  A passage that one of them lacks has 0 there.

  Args:
    rankings: of each system; depths may differ.
    tie_ranks: see `hits.tie_ranks`.
    scale: what counts of a ranking.
  """
  def scorer(found: hits.Hits) -> Callable[[np.ndarray], np.ndarray]:
    values, keys = scale(found), _tie_keys(found.rows, tie_ranks)

    def score(rows: np.ndarray) -> np.ndarray:
      scores = np.zeros(rows.shape)
      for line, wanted in enumerate(_tie_keys(rows, tie_ranks)):
        own = found.rows[line] >= 0
        places = np.searchsorted(wanted, keys[line][own])
        scores[line][places] = values[line][own]
      return scores

    return score

  return gather([found.rows for found in rankings],
                [scorer(found) for found in rankings], tie_ranks)


def fuse(
    rankings: Sequence[hits.Hits],
    weights: Sequence[float],
    tie_ranks: Int[np.ndarray, ' passages'],
    depth: int,
    scale: Scale,
) -> hits.Hits:
  """The best passages by the weighted sum of what rankings say of them.

  With `reciprocal_rank(60)` and weights of 1 it is reciprocal rank fusion
  (Cormack, Clarke and Büttcher, SIGIR 2009; Lu et al., section 4.4).

  Args:
    rankings: of each system, for the same queries; depths may differ.
    weights: of each system.
    tie_ranks: see `hits.tie_ranks`.
    depth: passages wanted.
    scale: what counts of a ranking: `raw`, `min_max` or `reciprocal_rank(k)`.
  """
  queries = len(rankings[0].rows)
  parts = [hits.Hits(np.zeros((0, depth), np.int32),
                     np.zeros((0, depth), np.float32))]
  for start in range(0, queries, _QUERIES_AT_ONCE):
    at = slice(start, start + _QUERIES_AT_ONCE)
    some = [hits.Hits(of.rows[at], of.scores[at]) for of in rankings]
    parts.append(align(some, tie_ranks, scale).ranked(weights, depth))
  return hits.Hits(np.concatenate([part.rows for part in parts]),
                   np.concatenate([part.scores for part in parts]))


def _weighted(
    scores: Float[np.ndarray, '*any systems'],
    grid: Float[np.ndarray, 'points systems'],
) -> Float[np.ndarray, '*any points']:
  """Σ w_k · s_k, added up in one order whatever the shapes."""
  total = np.zeros((*scores.shape[:-1], len(grid)), scores.dtype)
  for k, weights in enumerate(grid.astype(scores.dtype).T):
    total += scores[..., k, None] * weights
  return total


def simplex(systems: int, steps: int) -> Float[np.ndarray, 'points systems']:
  """All weights that are multiples of 1/`steps` and add up to 1.

  Those nearest to equal weights come first.

  Args:
    systems: how many weights.
    steps: 10 for weights 0, 0.1, ... 1.

  Raises:
    UserError: there are too many to try all.
  """
  count = 1  # Of ways to place the bars between the shares.
  for i in range(1, systems):
    count = count * (steps + i) // i
  if count > _MOST_POINTS:
    raise errors.UserError(
        f'{errors.key("ensemble.weight_steps")}={steps}: {systems} members '
        f'would have {count:,} weightings to try; lower it, or name fewer '
        'members'
    )
  bars = itertools.combinations(range(steps + systems - 1), systems - 1)
  shares = np.array([
      np.diff([-1, *at, steps + systems - 1]) - 1 for at in bars
  ]).reshape(-1, systems)
  uneven = ((systems * shares - steps) ** 2).sum(axis=1)
  # The sort is stable: of equally even ones the first member has most.
  return shares[::-1][np.argsort(uneven[::-1], kind='stable')] / steps


@dataclasses.dataclass(frozen=True)
class Tuned:
  """The best weights of a grid.

  Attributes:
    weights: of each system.
    accuracy: accuracy@1 that they reach.
    mrr: mrr@10 that they reach.
  """

  weights: tuple[float, ...]
  accuracy: float
  mrr: float


def tune(
    candidates: Candidates,
    is_positive: Bool[np.ndarray, 'queries candidates'],
    grid: Float[np.ndarray, 'points systems'],
) -> Tuned:
  """Tries all weights of a grid: best accuracy@1, then best mrr@10.

  Of equally good ones the first of the grid is taken. Weights are not negative,
  so that a candidate outranks a positive only if some system scores it higher:
  the others need not be looked at, and most are others.

  Args:
    candidates: of the queries to tune on, all of which count.
    is_positive: which candidates are positives.
    grid: weights to try, none negative.

  Raises:
    ValueError: there are no queries, or a weight is negative.
  """
  if not len(candidates.rows) or (grid < 0).any():
    raise ValueError('tuning needs queries, and weights of at least 0')
  counts = np.concatenate([
      _count_ranks(candidates, is_positive, some)
      for some in np.array_split(grid, -(-len(grid) // 256))
  ])
  shares = counts @ (_SHARE // np.arange(1, _MRR_CUT + 1))  # Exact.
  best = int(np.lexsort((np.arange(len(grid)), -shares, -counts[:, 0]))[0])
  queries = len(candidates.rows)
  return Tuned(
      tuple(float(weight) for weight in grid[best]),
      float(counts[best, 0]) / queries,
      float(shares[best]) / _SHARE / queries,
  )


def _count_ranks(
    candidates: Candidates,
    is_positive: Bool[np.ndarray, 'queries candidates'],
    grid: Float[np.ndarray, 'points systems'],
) -> Int[np.ndarray, 'points 10']:
  """How many queries have their best positive at rank 1, 2, ... 10."""
  counts = np.zeros((len(grid), _MRR_CUT), np.int64)
  points = np.arange(len(grid))
  for rows, scores, positives in zip(
      candidates.rows, candidates.scores, is_positive, strict=True
  ):
    best = np.full(len(grid), _MRR_CUT)
    others = (rows >= 0) & ~positives
    for place in np.flatnonzero(positives):
      rivals = np.flatnonzero(
          others & (scores >= scores[place]).any(axis=-1)
      )
      theirs = _weighted(scores[rivals], grid)
      own = _weighted(scores[place], grid)
      above = (theirs > own) | ((theirs == own) & (rivals < place)[:, None])
      best = np.minimum(best, above.sum(axis=0))
    found = best < _MRR_CUT
    counts[points[found], best[found]] += 1
  return counts
