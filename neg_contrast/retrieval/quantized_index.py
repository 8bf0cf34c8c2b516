"""Approximate nearest passages by dot product, from quantized passages.

ScaNN (Guo et al., "Accelerating Large-Scale Inference with Anisotropic Vector
Quantization", ICML 2020), or one bit a feature (RaBitQ, see `binary_codes`),
propose candidates; they are scored again with the passages' own vectors, so
that what is found has the exact float32 dot product and the one order of
`hits`, and only what is missed differs from exact search.

What proposes is in `scann_shards` and `binary_shards`, how much is searched in
`quantized_tuning`, how an index is kept on disk in `quantized_files`.
"""

import dataclasses
import logging
import math
from collections.abc import Sequence
from concurrent import futures
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Int, Int32

from neg_contrast import hosts, sharding
from neg_contrast.retrieval import (
  binary_shards,
  hits,
  mesh_search,
  quantized_shard,
  quantized_tuning,
  scann_shards,
  vector_table,
)
from neg_contrast.settings import config as config_lib

GIVEN, PERTURBED = 'given', 'perturbed passages'  # Sources of sample queries.
_QUERIES_AT_ONCE = 1_024
QUANTIZERS = {q.kind: q for q in (scann_shards.SCANN, binary_shards.BINARY)}
_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Settings:
  """What an index has to reach, and what it may use.

  Attributes:
    target_recall: share of the exact `recall_k` best passages to be found, mean
      over queries; 0 to 1.
    recall_k: the depth that the target is for. Deeper searches look at
      proportionally more.
    shard_rows: passages of a shard, at most. A process builds one at a time,
      and holds about 3.3 x shard_rows x features x 4 bytes.
    threads: of building and search; 0: one for each core that may be used. The
      results are the same.
    seed: of the choice of sample queries. ScaNN's own seeds are fixed.
    kind: a key of `QUANTIZERS`.
  """

  target_recall: float = 0.95
  recall_k: int = 100
  shard_rows: int = 1_000_000
  threads: int = 0
  seed: int = 0
  kind: str = 'scann'

  def __post_init__(self):
    if not 0 < self.target_recall <= 1:
      raise ValueError(f'target_recall is {self.target_recall}, not in (0, 1]')
    if min(self.recall_k, self.shard_rows) < 1:
      raise ValueError(f'{self}: recall_k and shard_rows must be at least 1')
    if self.kind not in QUANTIZERS:
      raise ValueError(f'kind is {self.kind!r}; not one of {[*QUANTIZERS]}')
    if self.threads < 0:
      raise ValueError(f'threads is {self.threads}; 0 means all')

  @property
  def quantizer(self) -> quantized_shard.Quantizer:
    """Proposes the candidates."""
    return QUANTIZERS[self.kind]

  def to_json(self) -> dict[str, Any]:
    """Plain values; indexes are ScaNN's unless they say otherwise."""
    values = dataclasses.asdict(self)
    if self.kind == 'scann':
      del values['kind']
    return values

  @property
  def cores(self) -> int:
    """Threads, as many as there are."""
    return self.threads or hosts.usable_cores()

  def divide(self, passages: int) -> list[range]:
    """The rows of every shard of a corpus."""
    count = -(-passages // self.shard_rows)
    ends = [passages * n // max(1, count) for n in range(count + 1)]
    return [range(*pair) for pair in zip(ends, ends[1:], strict=False)]


@dataclasses.dataclass(frozen=True)
class Measured:
  """What was tuned, and the recall that came of it.

  Attributes:
    leaves: partitions of each shard to search.
    candidates: passages to score again.
    recall: share of the exact `recall_k` best that were found, mean over the
      held-out queries.
    recall_k: the depth it was measured at.
    queries: held-out queries it was measured with.
    source: of the queries: `GIVEN`, or `PERTURBED`.
  """

  leaves: int
  candidates: int
  recall: float
  recall_k: int
  queries: int
  source: str


@dataclasses.dataclass(frozen=True)
class Part:
  """What is made of the rows of a shard, which are read once for it.

  Attributes:
    shard: its searcher.
    exact: `[samples, recall_k]`, what exact search finds among its rows for the
      sample queries, as rows of the corpus.
  """

  shard: quantized_shard.Shard
  exact: hits.Hits


class QuantizedIndex:
  """Searches candidates; made by `build` and `quantized_files.load`.

  Attributes:
    settings: that it was built with.
    measured: the tuned values and the recall against exact search.
    passage_vecs: `[passages, features] float32`, which may lie on disk.
    tie_ranks: `[passages] int32`, see `hits.tie_ranks`.
    shards: searchers of all passages, in corpus order.
  """

  def __init__(
      self,
      passage_vecs: vector_table.Rows,
      tie_ranks: Int[np.ndarray, ' passages'],
      settings: Settings,
      shards: list[quantized_shard.Shard],
      measured: Measured,
  ):
    """Keeps a reference to the vectors, which may lie on disk."""
    self.settings = settings
    self.measured = measured
    # A view: memory-mapped arrays are slow to index one by one.
    self.passage_vecs = (passage_vecs.view(np.ndarray)
                  if isinstance(passage_vecs, np.ndarray) else passage_vecs)
    self.tie_ranks = tie_ranks
    self.shards = shards
    self._threads = settings.cores
    for shard in shards:
      shard.use_threads(self._threads)

  def search(
      self, queries: Float[np.ndarray, 'queries features'], depth: int
  ) -> hits.Hits:
    """About the `depth` best passages of each query.

    A query's result does not depend on the other queries.

    Args:
      queries: `[queries, features] float32`.
      depth: passages wanted; always found where the corpus has that many.

    Raises:
      ValueError: a vector is not finite, or depth is not positive.
    """
    if depth < 1:
      raise ValueError(f'depth is {depth}; it must be at least 1')
    vector_table.check_finite(queries, 'query')
    queries = np.ascontiguousarray(queries, np.float32)
    deeper = max(1.0, depth / self.measured.recall_k)
    leaves = math.ceil(self.measured.leaves * deeper)
    candidates = max(depth, math.ceil(self.measured.candidates * deeper))
    found = hits.Hits(
        np.full((len(queries), depth), -1, np.int32),
        np.full((len(queries), depth), -np.inf, np.float32),
    )
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
      some = np.arange(start, min(start + _QUERIES_AT_ONCE, len(queries)))
      wider = leaves
      while len(some):
        best = self._search_some(queries[some], depth, wider, candidates)
        found.rows[some], found.scores[some] = best.rows, best.scores
        # Few passages in the leaves of a query: look into more of them.
        lacking = (best.rows >= 0).sum(1) < min(depth, len(self.passage_vecs))
        some, wider = some[lacking], 2 * wider
    return found

  def recall_against(
      self, queries: Float[np.ndarray, 'queries features'], exact: hits.Hits
  ) -> float:
    """The recall of this index at the depth of the exact hits of queries."""
    return hits.recall(self.search(queries, exact.rows.shape[1]), exact)

  def _search_some(self, queries, depth, leaves, candidates):
    rows, _ = quantized_shard.propose(self.shards, queries, leaves, candidates)
    scores = _rescore(self.passage_vecs, queries, rows, self._threads)
    return hits.best_of(rows, scores, self.tie_ranks, depth)


def build(
    passage_vecs: vector_table.Rows,
    tie_ranks: Int[np.ndarray, ' passages'],
    settings: Settings,
    sample_queries: Float[np.ndarray, 'queries features'] | None = None,
) -> QuantizedIndex:
  """Builds an index in memory, shard by shard, and tunes it.

  Sample queries are searched exactly. On one half the cheapest pair of (leaves
  to search, candidates) is chosen whose recall is the target at least, two
  standard errors subtracted; on the other the recall that is reported is
  measured.

  Without sample queries, perturbed passages are used: 0.6 of a passage and 0.8
  of noise, a random combination of 64 passages. 0.6 is the mean best score of a
  SQuAD question under all-MiniLM-L6-v2. Passages as they are, even where their
  own row does not count, are too easy a sample, and so they are under isotropic
  noise, which is orthogonal to all passages and changes no ranking. (SQuAD dev,
  recall@20 in 16 of 45 leaves: questions 0.952, these 0.934, passages 0.990,
  with isotropic noise 0.977.)

  Equal arguments give equal indexes, see `quantized_files.make`.

  Args:
    passage_vecs: `[passages, features] float32`, read once, a shard at a time;
      may lie on disk. Kept: searches read from them.
    tie_ranks: `[passages] int32`, see `hits.tie_ranks`.
    settings: what is wanted.
    sample_queries: `[queries, features] float32`; at most 512 are used.

  Raises:
    UserError: the library of the quantizer is not installed.
    ValueError: a vector is not finite, or there are no sample queries in
      `sample_queries`.
  """
  library = settings.quantizer.library()
  queries = quantized_tuning.sample_queries(
      passage_vecs, settings.seed, sample_queries
  )
  parts = [build_part(library, passage_vecs, tie_ranks, settings, rows, queries)
           for rows in settings.divide(len(passage_vecs))]
  return tune(passage_vecs, tie_ranks, settings, parts, queries,
              PERTURBED if sample_queries is None else GIVEN)


def build_part(
    library: Any,
    passage_vecs: vector_table.Rows,
    tie_ranks: Int[np.ndarray, ' passages'],
    settings: Settings,
    rows: range,
    queries: Float32[np.ndarray, 'samples features'],
) -> Part:
  """Builds a shard, and searches its rows exactly for the sample queries.

  Args:
    library: of the settings' quantizer.
    passage_vecs: `[passages, features] float32`, of the corpus.
    tie_ranks: `[passages] int32`, likewise.
    settings: what is wanted.
    rows: of the shard.
    queries: `[samples, features] float32`, the sample queries.

  Raises:
    ValueError: a vector is not finite.
  """
  span = slice(rows.start, rows.stop)
  vecs = np.ascontiguousarray(passage_vecs[span], np.float32)
  vector_table.check_finite(vecs, 'passage')
  exact = mesh_search.MeshSearch(
      vecs, tie_ranks[span],
      sharding.make_local_mesh(config_lib.MeshConfig()), on_devices=False,
  ).search(queries, settings.recall_k)
  found = np.where(exact.rows >= 0, exact.rows + np.int32(rows.start), -1)
  return Part(
      settings.quantizer.build(library, vecs, rows.start, settings.cores),
      hits.Hits(found.astype(np.int32), exact.scores),
  )


def tune(
    passage_vecs: vector_table.Rows,
    tie_ranks: Int[np.ndarray, ' passages'],
    settings: Settings,
    parts: Sequence[Part],
    queries: Float32[np.ndarray, 'samples features'],
    source: str,
) -> QuantizedIndex:
  """An index of parts, tuned to the target recall; see `build`.

  Args:
    passage_vecs: `[passages, features] float32`; only candidates are read.
    tie_ranks: `[passages] int32`, see `hits.tie_ranks`.
    settings: what is wanted.
    parts: of the whole corpus, in its order.
    queries: `[samples, features] float32`, the sample queries.
    source: of these, see `Measured`.
  """
  k, shards = settings.recall_k, [part.shard for part in parts]
  if not shards:
    return QuantizedIndex(passage_vecs, tie_ranks, settings, shards,
                      Measured(1, k, 1.0, k, 0, source))
  sample = quantized_tuning.Sample(queries, hits.best_of(
      np.concatenate([part.exact.rows for part in parts], axis=1),
      np.concatenate([part.exact.scores for part in parts], axis=1),
      tie_ranks, k,
  ))
  held_out = sample.held_out
  index = QuantizedIndex(passage_vecs, tie_ranks, settings, shards, Measured(
      1, k, math.nan, k, len(held_out.queries), source
  ))
  leaves, candidates = quantized_tuning.choose(
      shards, sample.chosen_by.queries, sample.chosen_by.truth.rows,
      settings.target_recall,
  )
  index.measured = dataclasses.replace(
      index.measured, leaves=leaves, candidates=candidates
  )
  reached = index.recall_against(held_out.queries, held_out.truth)
  if reached < settings.target_recall:
    _log.warning(
        '%s index: recall@%d is %.4f on held-out queries, the target %.4f',
        settings.kind, k, reached, settings.target_recall,
    )
  index.measured = dataclasses.replace(index.measured, recall=reached)
  return index


def _rescore(
    vecs: vector_table.Rows,
    queries: Float32[np.ndarray, 'queries features'],
    rows: Int32[np.ndarray, 'queries candidates'],
    threads: int,
) -> Float32[np.ndarray, 'queries candidates']:
  """Dot products of each query with its candidates; -inf for row -1.

  Each is computed on its own, so that equal passages get equal scores,
  whichever the candidates beside them.
  """
  scores = np.empty(rows.shape, np.float32)

  def score(first: int, last: int) -> None:
    part = np.empty((rows.shape[1], vecs.shape[1]), np.float32)
    for q in range(first, last):
      if isinstance(vecs, np.ndarray) and vecs.dtype == np.float32:
        np.take(vecs, rows[q], axis=0, out=part, mode='clip')
      else:
        part = vecs[np.maximum(rows[q], 0)]
      np.vecdot(np.asarray(part, np.float32), queries[q], out=scores[q])

  step = max(1, -(-len(queries) // (4 * threads)))
  starts = range(0, len(queries), step)
  if threads == 1 or len(starts) < 2:
    score(0, len(queries))
  else:
    with futures.ThreadPoolExecutor(threads) as pool:
      list(pool.map(score, starts,
                    (min(s + step, len(queries)) for s in starts)))
  scores[rows < 0] = -np.inf
  return scores
