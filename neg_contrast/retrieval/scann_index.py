"""Approximate nearest passages by dot product: ScaNN behind our protocol.

ScaNN (Guo et al., "Accelerating Large-Scale Inference with Anisotropic Vector
Quantization", ICML 2020) proposes candidates from quantised passages; they are
scored again with the passages' own vectors, so that what is found has the exact
float32 dot product and the one order of `hits`, and only what is missed differs
from exact search.

What is chosen from the size of a shard (rules of thumb of ScaNN's
docs/algorithms.md, unless said otherwise):

* leaves: the square root of the rows.
* dimensions per block: 2, hence 4 bits for 2 dimensions; 3 or more where 2
  would make over 256 blocks, beyond which ScaNN has no fast selection
  (`use_global_topn` in scann_builder.py).
* anisotropic threshold T: such that an error along a passage weighs 4.1 times
  one across it, (d - 1) T^2 / (1 - T^2) = 4.1 (theorem 3.4 of the paper) for
  d features. That is 0.2 at the 100 features of the paper's Glove1.2M, where
  0.2 is from, and 0.1 at 384 features, where 0.2 finds less than no threshold
  (recall@100 in 200 candidates of 30,000 clustered vectors: 0.832, 0.814
  and 0.825).
* training: up to 100,000 rows, ScaNN's default.
* below 1,000 rows: no quantisation, ScaNN scores them all.

The leaves to search and the number of candidates are measured, see `build`.
"""

import dataclasses
import hashlib
import importlib.metadata
import itertools
import logging
import math
import os
import pathlib
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Int, Int32, Shaped

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.retrieval import hits, vector_table

_EXACT_BELOW = 50_000
_BRUTE_FORCE_BELOW = 1_000
_BLOCKS = 256
_ANISOTROPY = 4.1
_TRAINING_ROWS = 100_000
_SIGNAL, _MIXED = 0.6, 64  # Of a sample query, see `build`.
_SAMPLES = 512  # Queries that are searched exactly, half of them to choose by.
_EXACT_ROWS = 16_384  # Passages scored at once in doing so: 32 MiB.
_SOME_ROWS = 4_096  # For a fingerprint, or a mean.
_QUERIES_AT_ONCE = 1_024
# Scoring a candidate again costs as much as scanning this many quantised ones
# (0.35 us against 11 ns for single queries of 384 features, 5 ns for many at
# once; all grow with the features). A constant, since a measured time would
# make two builds differ.
_CANDIDATE_COST = 30
_FORMAT = 1
_TIE_RANKS = 'tie_ranks.npy'
_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Settings:
  """What an index has to reach, and what it may use.

  Attributes:
    target_recall: share of the exact `recall_k` best passages to be found, mean
      over queries; 0 to 1.
    recall_k: the depth that the target is for. Deeper searches look at
      proportionally more.
    shard_rows: passages of a shard, at most. Building holds about
      3.3 x shard_rows x features x 4 bytes.
    threads: of a search; 0: one for each core that may be used. Building uses
      one, without which ScaNN is not reproducible.
    seed: of the choice of sample queries. ScaNN's own seeds are fixed.
  """

  target_recall: float = 0.95
  recall_k: int = 100
  shard_rows: int = 1_000_000
  threads: int = 0
  seed: int = 0

  def __post_init__(self):
    if not 0 < self.target_recall <= 1:
      raise ValueError(f'target_recall is {self.target_recall}, not in (0, 1]')
    if min(self.recall_k, self.shard_rows) < 1:
      raise ValueError(f'{self}: recall_k and shard_rows must be at least 1')
    if self.threads < 0:
      raise ValueError(f'threads is {self.threads}; 0 means all')


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
    source: of the queries: `given`, or `perturbed passages`.
  """

  leaves: int
  candidates: int
  recall: float
  recall_k: int
  queries: int
  source: str


@dataclasses.dataclass(frozen=True)
class _Shard:
  """Rows `first` to `last` of the corpus, under one ScaNN searcher."""

  first: int
  last: int
  leaves: int
  searcher: Any

  @property
  def rows(self) -> int:
    return self.last - self.first


def kind_for(passages: int, wanted: str) -> str:
  """Which index a corpus gets: `exact` or `scann`.

  Below 50,000 passages exact search is fast enough, and exact.

  Args:
    passages: of the corpus.
    wanted: `auto`, or one of the two.

  Raises:
    ValueError: `wanted` is something else.
  """
  if wanted not in ('auto', 'exact', 'scann'):
    raise ValueError(f'index kind {wanted!r}: not auto, exact or scann')
  if wanted == 'auto':
    return 'exact' if passages < _EXACT_BELOW else 'scann'
  return wanted


def recall(found: hits.Hits, exact: hits.Hits) -> float:
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


class ScannIndex:
  """Searches candidates of ScaNN; made by `build` and `load`.

  Attributes:
    settings: that it was built with.
    measured: the tuned values and the recall against exact search.
  """

  def __init__(
      self,
      passage_vecs: vector_table.Rows,
      tie_ranks: Int[np.ndarray, ' passages'],
      settings: Settings,
      shards: list[_Shard],
      measured: Measured,
  ):
    """Keeps a reference to the vectors, which may lie on disk."""
    self.settings = settings
    self.measured = measured
    # A view: memory-mapped arrays are slow to index one by one.
    self._vecs = (passage_vecs.view(np.ndarray)
                  if isinstance(passage_vecs, np.ndarray) else passage_vecs)
    self._ranks = tie_ranks
    self._shards = shards
    self._threads = settings.threads or _cores()
    for shard in shards:
      shard.searcher.set_num_threads(self._threads)

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
    _check_finite(queries, 'query')
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
        lacking = (best.rows >= 0).sum(1) < min(depth, len(self._vecs))
        some, wider = some[lacking], 2 * wider
    return found

  def recall_against(
      self, queries: Float[np.ndarray, 'queries features'], exact: hits.Hits
  ) -> float:
    """The recall of this index at the depth of the exact hits of queries."""
    return recall(self.search(queries, exact.rows.shape[1]), exact)

  def save(self, folder: pathlib.Path) -> None:
    """Writes all but the vectors; the folder may be moved afterwards.

    Two indexes built alike on the same machine are equal in every byte.

    Args:
      folder: replaced if it exists.
    """
    manifest: dict[str, Any] = {
        'kind': 'scann index',
        'format': _FORMAT,
        'settings': dataclasses.asdict(self.settings),
        'measured': dataclasses.asdict(self.measured),
        'passages': len(self._vecs),
        'features': self._vecs.shape[1],
        'passages_sha256': _fingerprint(self._vecs),
        'scann': importlib.metadata.version('scann'),
        'environment': folders.environment(),
    }
    with folders.writing(folder, manifest) as scratch:
      np.save(scratch / _TIE_RANKS, self._ranks)
      shards = []
      for number, shard in enumerate(self._shards):
        part = scratch / f'shard-{number:05d}'
        part.mkdir()
        # The default is absolute paths, of the scratch folder at that.
        shard.searcher.serialize(str(part), relative_path=True)
        shards.append({'folder': part.name, 'first': shard.first,
                       'last': shard.last, 'leaves': shard.leaves})
      manifest['shards'] = shards
      manifest['files'] = {
          name: {'bytes': (scratch / name).stat().st_size,
                 'sha256': folders.sha256_file(scratch / name)}
          for name in _files(scratch)
      }

  def _search_some(self, queries, depth, leaves, candidates):
    rows, _ = _candidates(self._shards, queries, leaves, candidates)
    scores = _rescore(self._vecs, queries, rows, self._threads)
    return _best(rows, scores, self._ranks, depth)


def build(
    passage_vecs: vector_table.Rows,
    tie_ranks: Int[np.ndarray, ' passages'],
    settings: Settings,
    sample_queries: Float[np.ndarray, 'queries features'] | None = None,
) -> ScannIndex:
  """Builds an index, shard by shard, and tunes it to the target recall.

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

  Equal arguments give equal indexes, see `ScannIndex.save`.

  Args:
    passage_vecs: `[passages, features] float32`, read a shard at a time; may
      lie on disk. Kept: searches read from them.
    tie_ranks: `[passages] int32`, see `hits.tie_ranks`.
    settings: what is wanted.
    sample_queries: `[queries, features] float32`; at most 512 are used.

  Raises:
    UserError: ScaNN is not installed.
    ValueError: a vector is not finite, or there are no sample queries in
      `sample_queries`.
  """
  library = _scann()
  if len(passage_vecs) != len(tie_ranks):
    raise ValueError(f'{len(passage_vecs)} passages, {len(tie_ranks)} ranks')
  count = -(-len(passage_vecs) // settings.shard_rows)
  ends = [len(passage_vecs) * n // max(1, count) for n in range(count + 1)]
  shards = [_build_shard(library, passage_vecs, first, last)
            for first, last in itertools.pairwise(ends)]
  for shard in shards:
    shard.searcher.set_num_threads(settings.threads or _cores())
  measured = _tune(passage_vecs, tie_ranks, settings, shards, sample_queries)
  return ScannIndex(passage_vecs, tie_ranks, settings, shards, measured)


def load(
    folder: pathlib.Path,
    passage_vecs: vector_table.Rows,
    threads: int = 0,
) -> ScannIndex:
  """Reads an index that `ScannIndex.save` wrote, wherever it lies now.

  Args:
    folder: of the index.
    passage_vecs: that it was built from; may lie on disk.
    threads: of a search; 0: one for each core that may be used. Building uses
      one, without which ScaNN is not reproducible.

  Raises:
    UserError: ScaNN is not installed; the index is missing, unfinished or
      damaged; or it belongs to other vectors.
  """
  library = _scann()
  manifest = folders.read_manifest(folder)
  if manifest is None:
    raise errors.UserError(
        f'{folder / folders.MANIFEST}: no such file, so there is no finished '
        'index here; build it again'
    )
  try:
    if (manifest['kind'], manifest['format']) != ('scann index', _FORMAT):
      raise ValueError('not an index of this version')
    settings = dataclasses.replace(
        Settings(**manifest['settings']), threads=threads
    )
    measured = Measured(**manifest['measured'])
    files = {name: (file['bytes'], file['sha256'])
             for name, file in manifest['files'].items()}
    places = [(folder / shard['folder'], shard['first'], shard['last'],
               shard['leaves']) for shard in manifest['shards']]
    wanted = manifest['passages_sha256']
  except (AttributeError, KeyError, TypeError, ValueError) as e:
    raise _broken(folder, folders.MANIFEST, repr(e)) from None
  _check_files(folder, files)
  given = _fingerprint(passage_vecs)
  if given != wanted:
    raise errors.UserError(
        f'{folder}: an index of other passages or another model: its vectors '
        f'have sha256 {wanted}, those given {given}. Remove the folder to '
        'build it again, or give the vectors it was built from'
    )
  shards = []
  for place, first, last, leaves in places:
    try:
      searcher = library.load_searcher(str(place), assets_backcompat_shim=False)
    except (IndexError, OSError, RuntimeError, ValueError) as e:
      raise _broken(folder, place.name, str(e)) from None
    shards.append(_Shard(first, last, leaves, searcher))
  ranks = np.load(folder / _TIE_RANKS, allow_pickle=False)
  return ScannIndex(passage_vecs, ranks, settings, shards, measured)


def _scann() -> Any:
  """ScaNN's numpy interface.

  Raises:
    UserError: it can't be imported.
  """
  try:
    from scann import scann_ops_pybind
  except Exception as e:  # A library that does not fit raises what it likes.
    raise errors.UserError(
        f'the package scann cannot be imported here ({e}). It exists for Linux '
        'and Python up to 3.13, and a TensorFlow beside it must be 2.20: '
        'pip install scann; or search exactly with --config.index.kind=exact'
    ) from e
  return scann_ops_pybind


def _build_shard(library, passage_vecs, first, last) -> _Shard:
  vecs = np.ascontiguousarray(passage_vecs[first:last], np.float32)
  _check_finite(vecs, 'passage')
  rows, features = vecs.shape
  builder = library.builder(vecs, 1, 'dot_product').set_n_training_threads(1)
  leaves = 1
  if rows < _BRUTE_FORCE_BELOW:
    builder = builder.score_brute_force()
  else:
    leaves = round(math.sqrt(rows))
    builder = builder.tree(
        leaves, 1, training_sample_size=_TRAINING_ROWS, random_init=False
    ).score_ah(
        max(2, -(-features // _BLOCKS)),
        anisotropic_quantization_threshold=_threshold(vecs),
        training_sample_size=_TRAINING_ROWS,
    )
  return _Shard(first, last, leaves, builder.build())


def _threshold(vecs: Float32[np.ndarray, 'rows features']) -> float:
  """The anisotropic threshold, for ScaNN takes it absolute: T times a norm."""
  features = vecs.shape[1]
  some = vecs[:: max(1, len(vecs) // _SOME_ROWS)]
  norm = math.sqrt(np.mean(np.sum(some * some, axis=1)))
  return norm * math.sqrt(_ANISOTROPY / (features - 1 + _ANISOTROPY))


def _tune(passage_vecs, tie_ranks, settings, shards, sample_queries):
  """Chooses leaves and candidates, and measures what they reach."""
  total = len(passage_vecs)
  k = settings.recall_k
  source = 'perturbed passages' if sample_queries is None else 'given'
  if not total:
    return Measured(1, k, 1.0, k, 0, source)
  rng = np.random.default_rng(settings.seed)
  if sample_queries is None:
    queries = _perturbed(passage_vecs, rng)
  elif len(sample_queries):
    at = rng.permutation(len(sample_queries))[:_SAMPLES]
    queries = np.ascontiguousarray(sample_queries[at], np.float32)
    _check_finite(queries, 'sample query')
  else:
    raise ValueError('sample_queries is empty; leave it out to use passages')
  truth = _exact(passage_vecs, tie_ranks, queries, k)
  first, second = slice(0, None, 2), slice(len(queries) > 1, None, 2)
  leaves, candidates = _choose(
      shards, queries[first], truth.rows[first], settings.target_recall, total
  )
  measured = Measured(
      leaves, candidates, math.nan, k, len(queries[second]), source
  )
  index = ScannIndex(passage_vecs, tie_ranks, settings, shards, measured)
  reached = index.recall_against(
      queries[second], hits.Hits(truth.rows[second], truth.scores[second])
  )
  if reached < settings.target_recall:
    _log.warning(
        'ScaNN index: recall@%d is %.4f on held-out queries, the target %.4f',
        k, reached, settings.target_recall,
    )
  return dataclasses.replace(measured, recall=reached)


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
    best = _best(
        np.concatenate([best.rows, rows], axis=1),
        np.concatenate([best.scores, found.scores], axis=1), tie_ranks, k,
    )
  return best


def _choose(shards, queries, truth, target, total) -> tuple[int, int]:
  """The cheapest (leaves to search, candidates) that reach the target."""
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
      rows, _ = _candidates(shards, queries, leaves, limit)
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


def _candidates(
    shards: list[_Shard],
    queries: Float32[np.ndarray, 'queries features'],
    leaves: int,
    count: int,
) -> tuple[Int32[np.ndarray, 'queries found'],
           Float32[np.ndarray, 'queries found']]:
  """The best passages by ScaNN's approximate score, best first.

  Scores of all shards estimate the same dot products and are compared, so that
  the number of candidates does not grow with the shards.

  Returns:
    Rows, -1 where there are fewer, and approximate scores; found <= count.
  """
  if not shards:
    empty = np.zeros((len(queries), 0))
    return empty.astype(np.int32), empty.astype(np.float32)
  parts = []
  for shard in shards:
    size = min(count, shard.rows)
    rows, scores = shard.searcher.search_batched_parallel(
        queries, size, size, min(leaves, shard.leaves), batch_size=64
    )
    missing = np.isnan(scores)  # ScaNN's padding.
    rows = rows.astype(np.int32) + np.int32(shard.first)
    rows[missing], scores[missing] = -1, -np.inf
    parts.append((rows, scores))
  if len(parts) == 1:
    return parts[0]
  rows = np.concatenate([p[0] for p in parts], axis=1)
  scores = np.concatenate([p[1] for p in parts], axis=1)
  order = np.argsort(-scores, axis=1, kind='stable')[:, :count]
  return (np.take_along_axis(rows, order, 1),
          np.take_along_axis(scores, order, 1))


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


def _best(
    rows: Int32[np.ndarray, 'queries candidates'],
    scores: Float32[np.ndarray, 'queries candidates'],
    tie_ranks: Int[np.ndarray, ' passages'],
    depth: int,
) -> hits.Hits:
  """The best candidates, in the order of `hits`; rows are corpus rows."""
  if not rows.shape[1]:
    shape = (len(rows), depth)
    return hits.Hits(
        np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32)
    )
  found = hits.top_k(scores, tie_ranks[rows], depth)
  taken = np.take_along_axis(rows, np.maximum(found.rows, 0), axis=1)
  return hits.Hits(
      np.where(found.rows >= 0, taken, -1).astype(np.int32), found.scores
  )


def _fingerprint(vecs: vector_table.Rows) -> str:
  """The sha256 of the shape and of rows spread over the whole table."""
  step = max(1, len(vecs) // _SOME_ROWS)
  some = np.ascontiguousarray(vecs[::step], np.float32)
  digest = hashlib.sha256(repr(vecs.shape).encode())
  digest.update(some.tobytes())
  return digest.hexdigest()


def _files(folder: pathlib.Path) -> list[str]:
  """The files of an index but its manifest, as relative names in order."""
  names = (path.relative_to(folder).as_posix() for path in folder.rglob('*')
           if not path.is_dir())
  return sorted(name for name in names if name != folders.MANIFEST)


def _check_files(
    folder: pathlib.Path, files: dict[str, tuple[int, str]]
) -> None:
  """Compares what lies there with the manifest, before ScaNN reads it.

  A file too many is refused as well: ScaNN would unpickle a scann_docids.pkl.

  Raises:
    UserError: something is missing, damaged or should not be there.
  """
  there = _files(folder)
  for name in sorted(set(there) ^ set(files)):
    raise _broken(
        folder, name,
        'no such file' if name in files else 'not a file of this index',
    )
  for name, (size, sha256) in files.items():
    actual = (folder / name).stat().st_size
    if actual != size:
      raise _broken(folder, name, f'has {actual} bytes instead of {size}')
    if folders.sha256_file(folder / name) != sha256:
      raise _broken(folder, name, 'has other contents than were written')


def _broken(folder: pathlib.Path, name: str, what: str) -> errors.UserError:
  return errors.UserError(
      f'{folder / name}: {what}. Remove {folder} and build the index again'
  )


def _check_finite(vecs: Shaped[np.ndarray, '...'], what: str) -> None:
  parts = range(0, len(vecs), _EXACT_ROWS)  # What is made is a part's.
  if not all(np.isfinite(vecs[at : at + _EXACT_ROWS]).all() for at in parts):
    raise ValueError(f'a {what} vector is not finite: the model is broken')


def _cores() -> int:
  """Cores this process may use."""
  if hasattr(os, 'sched_getaffinity'):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1
