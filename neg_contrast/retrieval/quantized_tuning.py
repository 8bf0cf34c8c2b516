"""How much of a quantized index to search: chosen by exact search.

Sample queries are searched exactly, in each shard while that is built. On one
half of them the cheapest pair of (leaves to search, candidates) is chosen that
reaches the target recall; the other half is held out to measure it.
"""

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Float32, Int32

from neg_contrast.retrieval import hits, quantized_shard, vector_table

_SIGNAL, _MIXED = 0.6, 64  # Of a sample query, see `quantized_index.build`.
_SAMPLES = 512  # Queries that are searched exactly, half of them to choose by.
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
  """

  queries: Float32[np.ndarray, 'queries features']
  truth: hits.Hits

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
    )


def sample_queries(
    passage_vecs: vector_table.Rows,
    seed: int,
    given: Float[np.ndarray, 'queries features'] | None = None,
) -> Float32[np.ndarray, 'samples features']:
  """At most 512 queries, `[samples, features] float32`.

  Args:
    passage_vecs: `[passages, features] float32`.
    seed: of the choice of queries.
    given: `[queries, features] float32` to choose from; None: passages with
      noise, see `quantized_index.build`.

  Raises:
    ValueError: a query is not finite, or `given` is empty.
  """
  rng = np.random.default_rng(seed)
  if given is None:
    return _perturbed(passage_vecs, rng)
  if not len(given):
    raise ValueError('sample_queries is empty; leave it out to use passages')
  at = rng.permutation(len(given))[:_SAMPLES]
  queries = np.ascontiguousarray(given[at], np.float32)
  vector_table.check_finite(queries, 'sample query')
  return queries


def choose(
    shards: list[quantized_shard.Shard],
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
      rows, _ = quantized_shard.propose(shards, queries, leaves, limit)
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
