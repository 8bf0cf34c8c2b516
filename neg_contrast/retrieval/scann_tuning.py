"""How much of a ScaNN index to search: chosen with queries searched exactly.

Sample queries are searched exactly. On one half of them the cheapest pair of
(leaves to search, candidates) is chosen that reaches the target recall; the
other half is held out to measure it.
"""

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Float32, Int, Int32

from neg_contrast.retrieval import hits, scann_shards, vector_table

_SIGNAL, _MIXED = 0.6, 64  # Of a sample query, see `scann_index.build`.
_SAMPLES = 512  # Queries that are searched exactly, half of them to choose by.
_EXACT_ROWS = 16_384  # Passages scored at once in doing so: 32 MiB.
# Scoring a candidate again costs as much as scanning this many quantised ones
# (0.35 us against 11 ns for single queries of 384 features, 5 ns for many at
# once; all grow with the features). A constant, since a measured time would
# make two builds differ.
_CANDIDATE_COST = 30


@dataclasses.dataclass(frozen=True)
class Sample:
  """Queries, and the passages that exact search finds for them.

  Attributes:
    queries: `[queries, features] float32`.
    truth: `[queries, depth]`, their exact hits.
    source: of the queries: `given`, or `perturbed passages`.
  """

  queries: Float32[np.ndarray, 'queries features']
  truth: hits.Hits
  source: str

  @property
  def chosen_by(self) -> 'Sample':
    """The half to choose by."""
    return self._half(slice(0, None, 2))

  @property
  def held_out(self) -> 'Sample':
    """The half to measure with; the same query, if there is only one."""
    return self._half(slice(len(self.queries) > 1, None, 2))

  def _half(self, lines: slice) -> 'Sample':
    return Sample(
        self.queries[lines],
        hits.Hits(self.truth.rows[lines], self.truth.scores[lines]),
        self.source,
    )


def make_sample(
    passage_vecs: vector_table.Rows,
    tie_ranks: Int[np.ndarray, ' passages'],
    depth: int,
    seed: int,
    sample_queries: Float[np.ndarray, 'queries features'] | None = None,
) -> Sample:
  """At most 512 queries, searched exactly.

  Args:
    passage_vecs: `[passages, features] float32`, at least one.
    tie_ranks: `[passages] int32`, see `hits.tie_ranks`.
    depth: of exact search.
    seed: of the choice of queries.
    sample_queries: `[queries, features] float32` to choose from; None: passages
      with noise, see `scann_index.build`.

  Raises:
    ValueError: a query is not finite, or `sample_queries` is empty.
  """
  rng = np.random.default_rng(seed)
  if sample_queries is None:
    queries, source = _perturbed(passage_vecs, rng), 'perturbed passages'
  elif len(sample_queries):
    at = rng.permutation(len(sample_queries))[:_SAMPLES]
    queries = np.ascontiguousarray(sample_queries[at], np.float32)
    vector_table.check_finite(queries, 'sample query')
    source = 'given'
  else:
    raise ValueError('sample_queries is empty; leave it out to use passages')
  truth = _exact(passage_vecs, tie_ranks, queries, depth)
  return Sample(queries, truth, source)


def choose(
    shards: list[scann_shards.Shard],
    queries: Float32[np.ndarray, 'queries features'],
    truth: Int32[np.ndarray, 'queries depth'],
    target: float,
) -> tuple[int, int]:
  """The cheapest (leaves to search, candidates) that reach the target.

  Args:
    shards: of the index.
    queries: `[queries, features] float32` to choose by.
    truth: `[queries, depth] int32`, rows that exact search finds; -1 pads.
    target: recall to be reached, two standard errors subtracted.
  """
  total = sum(shard.rows for shard in shards)
  most_leaves = max(shard.leaves for shard in shards)
  levels = sorted({min(most_leaves, math.ceil(2 ** (n / 2)))
                   for n in range(2 * most_leaves.bit_length() + 1)})
  k = truth.shape[1]
  limit = k
  while True:
    limit = min(16 * limit, total)
    sizes = [n for n in _sizes(k) if n < limit] + [limit]
    possible = []
    for leaves in levels:
      rows, _ = scann_shards.propose(shards, queries, leaves, limit)
      places = np.array(
          [_places(*pair) for pair in zip(rows, truth, strict=True)]
      )
      cost = sum(s.rows * min(1.0, leaves / s.leaves) for s in shards)
      for size in sizes:
        shares = (places < size).sum(1) / (truth >= 0).sum(1)
        error = np.std(shares) / math.sqrt(len(shares))
        if np.mean(shares) - 2 * error >= target:
          possible.append((cost + _CANDIDATE_COST * size, leaves, size))
          break
    if possible:
      return min(possible)[1:]
    if limit == total:  # All leaves, all passages: only rounding is left.
      return most_leaves, total


def _perturbed(passage_vecs, rng) -> Float32[np.ndarray, 'samples features']:
  """Passages with noise that has their own covariance."""
  count = min(_SAMPLES, len(passage_vecs))
  some = rng.choice(len(passage_vecs), count, replace=False)
  queries = np.empty((count, passage_vecs.shape[1]), np.float32)
  for query, row in zip(queries, some, strict=True):
    mixed = rng.choice(len(passage_vecs), _MIXED)
    noise = rng.standard_normal(_MIXED, np.float32) @ passage_vecs[mixed]
    query[:] = _SIGNAL * _unit(passage_vecs[row])
    query += math.sqrt(1 - _SIGNAL**2) * _unit(noise)
  return queries


def _unit(vec: Float[np.ndarray, ' features']) -> np.ndarray:
  return vec / max(float(np.linalg.norm(vec)), 1e-30)


def _exact(passage_vecs, tie_ranks, queries, k) -> hits.Hits:
  """The k best passages, with a few MiB of them at a time."""
  best = hits.Hits(np.full((len(queries), 0), -1, np.int32),
                   np.full((len(queries), 0), -np.inf, np.float32))
  for start in range(0, len(passage_vecs), _EXACT_ROWS):
    block = np.asarray(passage_vecs[start : start + _EXACT_ROWS], np.float32)
    found = hits.top_k(
        queries @ block.T, tie_ranks[start : start + len(block)], k
    )
    rows = np.where(found.rows >= 0, found.rows + start, -1)
    best = hits.best_of(
        np.concatenate([best.rows, rows], axis=1),
        np.concatenate([best.scores, found.scores], axis=1), tie_ranks, k,
    )
  return best


def _sizes(k: int) -> Iterator[int]:
  """Numbers of candidates to try: k, 1.25 k, 1.5 k, 2 k, 2.5 k, 3 k, 4 k, .."""
  size = k
  while size < 2**31:
    yield from (size, math.ceil(1.25 * size), math.ceil(1.5 * size))
    size *= 2


def _places(rows, wanted):
  """The place of each wanted row among `rows`; beyond its end if missing."""
  order = np.argsort(rows, kind='stable')
  at = np.minimum(np.searchsorted(rows, wanted, sorter=order), len(rows) - 1)
  found = (rows[order[at]] == wanted) & (wanted >= 0)
  return np.where(found, order[at], 2**31)
