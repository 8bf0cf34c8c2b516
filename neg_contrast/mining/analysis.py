"""What a pool is made of, and how far its negatives can be trusted.

Counts are of all queries, some at a time; what needs texts is of a sample.
"""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Bool, Float, Int, Integer

from neg_contrast.data import likeness, records
from neg_contrast.mining import strategies
from neg_contrast.negatives import pool as pool_lib

SAMPLED = 500
"""Queries whose negatives are read."""

_QUERIES_AT_ONCE = 4096
_BINS = 50
_OWN = (pool_lib.code(''), pool_lib.code('duplicate'))
_BEYOND = pool_lib.code('pool_size')


@dataclasses.dataclass(frozen=True)
class Histogram:
  """How many values lie between two edges.

  Attributes:
    edges: `[bins + 1] float64`, ascending.
    counts: `[bins] int64`.
  """

  edges: Float[np.ndarray, ' edges']
  counts: Int[np.ndarray, ' bins']


@dataclasses.dataclass(frozen=True)
class Source:
  """What one source gave.

  Attributes:
    name: of the source.
    by_filter: `[codes] int64`, its candidates by place in `DROPPED_BY`.
    per_query: `[depth + 1] int64`, queries with n of its negatives.
    ranks: `[depth + 1] int64`, its negatives of rank n.
    gaps: its negatives by their score less that of the positive; None where
      scores don't compare them.
  """

  name: str
  by_filter: Int[np.ndarray, ' codes']
  per_query: Int[np.ndarray, ' sizes']
  ranks: Int[np.ndarray, ' ranks']
  gaps: Histogram | None

  @property
  def candidates(self) -> int:
    """Mined, before any filter."""
    return int(self.by_filter.sum())

  @property
  def negatives(self) -> int:
    """In the pool."""
    return int(self.by_filter[0])

  @property
  def without(self) -> int:
    """Queries that have none of its negatives."""
    return int(self.per_query[0])

  @property
  def least(self) -> int:
    """Fewest negatives of a query."""
    return int(np.argmax(self.per_query > 0))

  @property
  def median(self) -> float:
    """Of the negatives of a query."""
    reached, total = np.cumsum(self.per_query), self.per_query.sum()
    middle = [np.argmax(reached > place)
              for place in ((total - 1) // 2, total // 2)]
    return float(np.mean(middle))


@dataclasses.dataclass(frozen=True)
class Summary:
  """A pool in numbers.

  Attributes:
    queries: how many it is for.
    sources: in the order of the pool.
    shared: `[sources, sources] int64`, passages that the pools of two sources
      have both, summed over queries; on the diagonal the pool of one. These are
      the pools before they are joined, where each passage stays with one
      source; copies of a passage count once.
  """

  queries: int
  sources: tuple[Source, ...]
  shared: Int[np.ndarray, 'sources sources']

  @property
  def overlap(self) -> Float[np.ndarray, 'sources sources']:
    """`[a, b]`: part of the pool of a that b has too; nan: a has none."""
    sizes = np.diagonal(self.shared)[:, None].astype(np.float64)
    return self.shared / np.where(sizes > 0, sizes, np.nan)


def summarize(
    pool: pool_lib.Pool, passage_groups: Integer[np.ndarray, ' passages']
) -> Summary:
  """Counts; memory holds 4,096 queries, whatever the size of the pool.

  Args:
    pool: may be mapped from disk.
    passage_groups: `[passages] int32`, equal for passages of the same text.
  """
  sources, depth = len(pool.sources), pool.rows.shape[1]
  by_filter = np.zeros((sources, len(pool_lib.DROPPED_BY)), np.int64)
  per_query = np.zeros((sources, depth + 1), np.int64)
  ranks = np.zeros((sources, depth + 1), np.int64)
  shared = np.zeros((sources, sources), np.int64)
  low, high = np.full(sources, np.inf), np.full(sources, -np.inf)
  for lines in _blocks(pool):
    source, negative = pool.source[lines], pool.is_negative(lines)
    exists = pool.rows[lines] >= 0
    by_filter += _cross(
        source[exists], pool.dropped_by[lines][exists], by_filter.shape
    )
    ranks += _cross(
        source[negative], pool.rank[lines][negative], ranks.shape
    )
    sizes = _cross(
        source[negative], np.nonzero(negative)[0], (sources, len(negative))
    )
    per_query += [np.bincount(line, minlength=depth + 1) for line in sizes]
    shared += _shared(pool, lines, passage_groups)
    places, values = _gaps(pool, lines)
    np.minimum.at(low, places, values)
    np.maximum.at(high, places, values)
  gaps = _histograms(pool, low, high)
  return Summary(len(pool), tuple(
      Source(name, by_filter[n], per_query[n], ranks[n], gaps[n])
      for n, name in enumerate(pool.sources)
  ), shared)


def _blocks(pool: pool_lib.Pool) -> Iterator[slice]:
  for begin in range(0, len(pool), _QUERIES_AT_ONCE):
    yield slice(begin, min(len(pool), begin + _QUERIES_AT_ONCE))


def _cross(first, second, shape) -> np.ndarray:
  """How often each pair of numbers occurs."""
  keys = first.astype(np.int64) * shape[1] + second
  return np.bincount(keys, minlength=shape[0] * shape[1]).reshape(shape)


def _shared(pool, lines, passage_groups) -> np.ndarray:
  """`Summary.shared` of some queries.

  The pool of a source alone follows from the joined one: joining adds nothing
  but duplicates. A duplicate within a source belongs to what it repeats, which
  may lie beyond M: so the best-ranked copy decides.
  """
  dropped, rows = pool.dropped_by[lines], pool.rows[lines]
  looked_at = (rows >= 0) & np.isin(dropped, (*_OWN, _BEYOND))
  place, _ = np.nonzero(looked_at)
  groups = pool_lib.groups_of(passage_groups, rows[looked_at])
  sources, ranks = len(pool.sources), pool.rows.shape[1] + 1
  key = place * (int(groups.max(initial=0)) + 1) + groups
  key = key * sources + pool.source[lines][looked_at]
  key = key * ranks + pool.rank[lines][looked_at]
  key = np.sort(key * 2 + (dropped[looked_at] == _BEYOND))
  is_best = np.diff(key // (2 * ranks), prepend=-1) != 0
  own = key[is_best & (key % 2 == 0)] // (2 * ranks)
  passages, source = np.divmod(own, sources)
  number = np.cumsum(np.diff(passages, prepend=-1) != 0) - 1
  has = np.zeros((number.max(initial=-1) + 1, sources), np.int64)
  has[number, source] = 1
  return has.T @ has


def _gaps(
    pool: pool_lib.Pool, lines: slice | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """(source, score less that of the positive) of negatives that have both."""
  gaps = score_gaps(pool, lines)
  known = pool.is_negative(lines) & ~np.isnan(gaps)
  return pool.source[lines][known], gaps[known]


def score_gaps(
    pool: pool_lib.Pool, lines: slice | Int[np.ndarray, ' lines']
) -> Float[np.ndarray, 'lines depth']:
  """Scores less the positive's.

  Returns:
    `[lines, depth] float64`; nan where there is no score to compare with.
  """
  is_scored = np.array([strategies.is_ranked(name) for name in pool.sources])
  own = np.where(is_scored, pool.positive_scores[lines], np.nan)
  own = np.where(np.isfinite(own), own, np.nan).astype(np.float64)
  source = pool.source[lines].astype(np.int64)
  return pool.score[lines] - np.take_along_axis(own, source, axis=1)


def _histograms(pool, low, high) -> list[Histogram | None]:
  """Of the gaps of each source, between known bounds."""
  flat = low == high
  low, high = np.where(flat, low - 0.5, low), np.where(flat, high + 0.5, high)
  made = [
      Histogram(np.linspace(*ends, _BINS + 1), np.zeros(_BINS, np.int64))
      if ends[0] < ends[1] else None
      for ends in zip(low, high, strict=True)
  ]
  for lines in _blocks(pool):
    places, values = _gaps(pool, lines)
    for number, each in enumerate(made):
      if each is not None:
        ours = values[places == number]
        each.counts[:] += np.histogram(ours, each.edges)[0]
  return made


def sample_lines(
    count: int, sampled: int = SAMPLED
) -> Int[np.ndarray, ' lines']:
  """At most `sampled` of the lines of a pool, evenly spaced, ascending."""
  return np.linspace(0, count - 1, min(count, sampled)).astype(np.int64)


@dataclasses.dataclass(frozen=True)
class Suspects:
  """Sampled negatives that may be positives nobody judged.

  Attributes:
    name: of the source.
    negatives: how many were looked at.
    answerable: those of queries with known answers.
    answers: of these, how many hold an answer.
    copies: how many are near-copies of a positive.
    scored: how many have a score beside that of the positive.
    above: of these, how many score above it.
  """

  name: str
  negatives: int
  answerable: int
  answers: int
  copies: int
  scored: int
  above: int


def count_suspects(
    name: str,
    ours: Bool[np.ndarray, 'lines depth'],
    is_answerable: Bool[np.ndarray, ' lines'],
    has_answer: Bool[np.ndarray, 'lines depth'],
    is_copy: Bool[np.ndarray, 'lines depth'],
    gaps: Float[np.ndarray, 'lines depth'],
) -> Suspects:
  """Counts what was found in a sample.

  Args:
    name: of the source.
    ours: `[lines, depth] bool`, which candidates are its negatives.
    is_answerable: `[lines] bool`, whether answers of the query are known.
    has_answer: `[lines, depth] bool`, which hold one.
    is_copy: `[lines, depth] bool`, which are near-copies of a positive.
    gaps: `[lines, depth] float64`, see `score_gaps`.
  """
  answerable = ours & is_answerable[:, None]
  return Suspects(name, *(int(marked.sum()) for marked in (
      ours, answerable, answerable & has_answer, ours & is_copy,
      ours & ~np.isnan(gaps), ours & (gaps > 0),
  )))


def near_copies(
    texts: Callable[[int], records.Passage],
    positives: Int[np.ndarray, 'lines positives'],
    rows: Int[np.ndarray, 'lines depth'],
    where: Bool[np.ndarray, 'lines depth'],
) -> Bool[np.ndarray, 'lines depth']:
  """Which candidates are near-copies of a known positive of their query.

  Each passage is read once, and the positives before them.

  Args:
    texts: row -> passage.
    positives: `[lines, positives] int32` passage rows; -1 pads.
    rows: `[lines, depth] int32`.
    where: `[lines, depth] bool`, which to look at; the others are False.
  """
  copies = np.zeros(rows.shape, bool)
  known = [[likeness.words(texts(int(row)).text) for row in some if row >= 0]
           for some in positives]
  lines, columns = np.nonzero(where)
  order = np.argsort(rows[lines, columns], kind='stable')
  last, ours = -1, frozenset[str]()
  for line, column in zip(lines[order], columns[order], strict=True):
    row = int(rows[line, column])
    if row != last:
      last, ours = row, likeness.words(texts(row).text)
    copies[line, column] = any(
        likeness.is_near(ours, theirs) for theirs in known[line]
    )
  return copies


def best_of_each(
    pool: pool_lib.Pool, line: int
) -> dict[str, int]:
  """Source -> the place of its best negative for a query, where it has one.

  That of the source's own pool: in the joined one, an earlier source may have
  the passage.
  """
  own = (pool.rows[line] >= 0) & np.isin(pool.dropped_by[line], _OWN)
  found = {}
  for number, name in enumerate(pool.sources):
    places = np.flatnonzero(own & (pool.source[line] == number))
    if len(places):
      found[name] = int(places[np.argmin(pool.rank[line][places])])
  return found


def telling_lines(
    pool: pool_lib.Pool, lines: Int[np.ndarray, ' lines'], count: int
) -> Int[np.ndarray, ' chosen']:
  """Lines to show: those where most sources have a negative, spread evenly.

  Args:
    pool: the pool.
    lines: to choose from, ascending.
    count: how many, if there are so many.
  """
  having = np.array([len(best_of_each(pool, int(line))) for line in lines])
  most = np.flatnonzero(having == having.max(initial=0))
  if len(most) >= count:
    return lines[most[sample_lines(len(most), count)]]
  return np.sort(lines[np.argsort(-having, kind='stable')[:count]])
