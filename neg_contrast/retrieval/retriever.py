"""A corpus and its vectors, ready to be searched: for jobs and notebooks."""

import abc
import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from absl import logging

from neg_contrast import errors, scoring, sharding
from neg_contrast.artifacts import folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import records
from neg_contrast.retrieval import (
  exact,
  hits,
  matching,
  multi_vector,
  scann_index,
  text_encoder,
  vector_table,
)
from neg_contrast.settings import config as config_lib

FOLDER = 'retrieval'  # Of a workdir.
_RECALL_QUERIES = 200
_PAIRS_AT_ONCE = 16384
_LEAST_RECALL_DEPTH = 100  # One index serves searches of any depth.


@dataclasses.dataclass(frozen=True)
class Found:
  """A passage that a search found.

  Attributes:
    passage: title, text and ids.
    score: dot product of its embedding and the query's.
    match: (start, end) in characters of the part of `passage.text` whose own
      embedding is nearest to the query's; (0, 0) if the text is blank.
  """

  passage: records.Passage
  score: float
  match: tuple[int, int]


class Vectors(abc.ABC):
  """Vectors of the queries and passages of a dataset: by one model, or more.

  No Protocol: to check one, Python 3.11 would compute `passage_vecs`.
  """

  @property
  @abc.abstractmethod
  def identity(self) -> dict[str, Any]:
    """What the passages' vectors depend on, as json."""

  @property
  def search_identity(self) -> dict[str, Any]:
    """What a search depends on, if that is more."""
    return self.identity

  @property
  @abc.abstractmethod
  def dim(self) -> int:
    """Features of a passage's vector."""

  @property
  def score(self) -> scoring.ScoreFunction:
    """Of a query's vector and a passage's."""
    return scoring.DUAL

  @abc.abstractmethod
  def encode_queries(self, queries: Sequence[str]) -> np.ndarray:
    """`[queries, features] float32` of any queries."""

  @abc.abstractmethod
  def encode_passages(
      self, passages: Sequence[text_encoder.PassageLike]
  ) -> np.ndarray:
    """`[passages, features] float32` of any passages."""

  @abc.abstractmethod
  def query_vecs(self, query_rows: np.ndarray) -> np.ndarray:
    """`[queries, features] float32` of queries of the dataset."""

  @property
  @abc.abstractmethod
  def passage_vecs(self) -> vector_table.Rows:
    """`[passages, features] float32` of the dataset; made once."""

  @abc.abstractmethod
  def is_made(self) -> bool:
    """Whether `passage_vecs` lie on disk already."""


def index_settings(
    config: config_lib.Config,
    prepared: prepared_lib.Prepared,
    rows: np.ndarray | None = None,
) -> scann_index.Settings | None:
  """Of the ScaNN index of a corpus; None where search is exact.

  Args:
    config: of the job.
    prepared: the corpus. Worlds are parts of it, and searched exactly.
    rows: the passages of it that are searched; None: all.

  Raises:
    UserError: ScaNN is asked for, and there are worlds.
  """
  if prepared.worlds:
    if config.index.kind == 'scann':
      raise errors.UserError(
          f'config.index.kind="scann": {prepared.manifest["spec"]} has worlds, '
          'each of which is searched exactly; leave it at "auto"'
      )
    return None
  passages = len(prepared.passages) if rows is None else len(rows)
  if scann_index.kind_for(passages, config.index.kind) == 'exact':
    return None
  return scann_index.Settings(
      target_recall=config.index.target_recall,
      recall_k=max(config.evaluation.depth, _LEAST_RECALL_DEPTH),
      shard_rows=config.index.shard_rows,
  )


class Retriever:
  """Searches the passages of a dataset, or some of them.

  Queries of the dataset that have a world are searched in their own, as if it
  were a corpus of its own.
  """

  def __init__(
      self,
      config: config_lib.Config,
      dataset: dataset_lib.Dataset,
      embedder: Vectors,
      folder: pathlib.Path | None = None,
      rows: np.ndarray | None = None,
      among: np.ndarray | None = None,
  ):
    """Encodes nothing yet.

    Args:
      config: settings of search.
      dataset: corpus and queries.
      embedder: gives the vectors of both.
      folder: keeps indexes of whole corpora, of any number of embedders; None:
        memory keeps them.
      rows: `[n] int32` passages that `embedder` has, ascending; default: the
        whole corpus.
      among: `[n] int32` passages that `search_and_score` finds, ascending, of a
        whole corpus with worlds; default: all.
    """
    self._config, self._dataset, self._embedder = config, dataset, embedder
    self._among = among
    self._parts: dict[int, tuple[np.ndarray, exact.ExactIndex]] = {}
    self._folder = None if folder is None or rows is not None else (
        folder / folders.sha256_json(embedder.identity)[:12] / 'index'
    )
    self._rows, self._score = rows, embedder.score
    self._settings = index_settings(config, dataset.prepared, rows)

  @property
  def embedder(self) -> Vectors:
    """What gives the vectors of its queries and passages."""
    return self._embedder

  def find(self, query: str, depth: int = 10) -> list[Found]:
    """The best passages for a query, best first, with their matching parts.

    Raises:
      ValueError: the query is blank, or depth is not positive.
    """
    if depth < 1:
      raise ValueError(f'depth is {depth}; it must be at least 1')
    if not query.strip():
      raise ValueError('the query is blank')
    query_vecs = self._embedder.encode_queries([query])
    found = self.search_vecs(query_vecs, depth)
    kept = found.rows[0] >= 0
    passages = [self._dataset.prepared.passages[int(row)]
                for row in found.rows[0][kept]]
    return [
        Found(passage, float(score), match) for passage, score, match in zip(
            passages, found.scores[0][kept],
            self._matches(query_vecs[0], passages), strict=True,
        )
    ]

  def search(self, queries: Sequence[str], depth: int = 100) -> hits.Hits:
    """The best passages of each query, as rows of the whole corpus."""
    return self.search_vecs(self._embedder.encode_queries(queries), depth)

  def search_rows(self, query_rows: np.ndarray, depth: int) -> hits.Hits:
    """The same for queries of the dataset."""
    return self.search_vecs(
        self._embedder.query_vecs(query_rows), depth, query_rows
    )

  def search_and_score(
      self, query_rows: np.ndarray, depth: int, rows: np.ndarray
  ) -> tuple[hits.Hits, np.ndarray]:
    """The best passages of queries of the dataset, and scores of some others.

    Here queries are searched in all worlds, or in `among`.

    Args:
      query_rows: `[queries] int32`.
      depth: passages wanted.
      rows: `[queries, some] int32` passages to score for each query; -1 pads.

    Returns:
      (hits, `[queries, some] float32`, -inf for padding).
    """
    query_vecs = self._embedder.query_vecs(query_rows)
    if self._among is None:
      found = self.search_vecs(query_vecs, depth)
    else:
      found = hits.renumber(
          self._index_among.search(query_vecs, depth), self._among
      )
    return found, self.score(query_vecs, rows)

  def search_vecs(
      self,
      query_vecs: np.ndarray,
      depth: int,
      query_rows: np.ndarray | None = None,
  ) -> hits.Hits:
    """The best passages for `[queries, features] float32` vectors.

    Args:
      query_vecs: of the queries.
      depth: passages wanted.
      query_rows: `[queries] int32`, which queries of the dataset they are, so
        that each is searched in its own world; None: in all of them.
    """
    prepared = self._dataset.prepared
    if query_rows is None or not prepared.worlds:
      return self._as_rows(self._index.search(query_vecs, depth))

    def search(world: int, lines: np.ndarray) -> hits.Hits:
      places, index = self._part(world)
      return hits.renumber(index.search(query_vecs[lines], depth), places)

    return self._as_rows(hits.search_parts(
        prepared.query_worlds[query_rows], depth, search
    ))

  def score(self, query_vecs: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Scores of some passages for each query vector.

    Args:
      query_vecs: `[queries, features] float32`.
      rows: `[queries, some] int32` passages; -1 pads.

    Returns:
      `[queries, some] float32`, -inf for padding.
    """
    scores = np.full(rows.shape, -np.inf, np.float32)
    lines, columns = np.nonzero(rows >= 0)
    for begin in range(0, len(lines), _PAIRS_AT_ONCE):
      line, column = (places[begin : begin + _PAIRS_AT_ONCE]
                      for places in (lines, columns))
      vecs = query_vecs[line], self.passage_vecs[rows[line, column]]
      scores[line, column] = (
          np.einsum('pd,pd->p', *vecs) if self._score.is_dot
          else self._score.pairs(*map(jnp.asarray, vecs))
      )
    return scores

  @property
  def is_exact(self) -> bool:
    """Whether every passage is scored."""
    return self._settings is None

  @property
  def passage_vecs(self) -> vector_table.Rows:
    """`[passages, features] float32` of the passages that are searched."""
    return self._embedder.passage_vecs

  def is_made(self) -> bool:
    """Whether embeddings and index lie on disk already."""
    return self._folder is not None and self._embedder.is_made() and (
        self._settings is None or self._has_index()
    )

  def make(self) -> None:
    """Encodes the corpus and builds the index, where they are not there."""
    _ = self._index

  def measure_index(
      self, query_rows: np.ndarray, found: hits.Hits
  ) -> dict[str, Any]:
    """What the index missed of what exact search finds, for some queries.

    Args:
      query_rows: `[queries] int32` of the dataset.
      found: what `search_rows` found for them.

    Returns:
      Json values for a manifest; exact search has nothing to measure.
    """
    if self._index is self._exact:
      return {'kind': 'exact'}
    depth = found.rows.shape[1]
    some = np.linspace(
        0, len(query_rows) - 1, min(_RECALL_QUERIES, len(query_rows)), dtype=int
    )
    exact_hits = self._as_rows(
        self._exact.search(self._embedder.query_vecs(query_rows[some]), depth)
    )
    recall = scann_index.recall(
        hits.Hits(found.rows[some], found.scores[some]), exact_hits
    )
    logging.info('ScaNN found %.2f%% of the exact top %d of %d queries',
                 100 * recall, depth, len(some))
    tuned = {} if not isinstance(self._index, scann_index.ScannIndex) else {
        'tuned': dataclasses.asdict(self._index.measured)
    }
    return {
        'kind': 'scann',
        **tuned,
        'recall': recall,
        'depth': depth,
        'queries': len(some),
    }

  @functools.cached_property
  def _index(self) -> hits.Index:
    if self._settings is None:
      return self._exact
    vecs, ranks = self.passage_vecs, self._tie_ranks
    if self._score.is_dot:
      return self._build(vecs, ranks)
    singles = multi_vector.SingleVectors(
        vecs, vecs.shape[1] // self._score.passage_vectors
    )
    return multi_vector.CandidateIndex(
        vecs, ranks, self._score, singles,
        self._build(singles, np.arange(len(singles), dtype=np.int32)),
    )

  def _build(
      self, vecs: vector_table.Rows, ranks: np.ndarray
  ) -> scann_index.ScannIndex:
    """A ScaNN index of vectors; the folder keeps it."""
    settings = self._settings
    assert settings is not None
    if self._folder is None:
      return scann_index.build(vecs, ranks, settings)
    with folders.only_one(self._folder):
      if not self._has_index():
        logging.info('building a ScaNN index of %d vectors', len(vecs))
        scann_index.build(vecs, ranks, settings).save(self._folder)
    return scann_index.load(self._folder, vecs)

  def _has_index(self) -> bool:
    assert self._folder is not None
    made = folders.read_manifest(self._folder)
    return made is not None and self._settings is not None and (
        made.get('settings') == dataclasses.asdict(self._settings)
    )

  @functools.cached_property
  def _exact(self) -> exact.ExactIndex:
    return self._make_exact(self.passage_vecs, self._tie_ranks)

  @functools.cached_property
  def _index_among(self) -> exact.ExactIndex:
    assert self._among is not None
    return self._make_part(self._among)

  def _part(self, world: int) -> tuple[np.ndarray, exact.ExactIndex]:
    """Places of the passages of a world, ascending, and their index."""
    if world not in self._parts:
      worlds = self._dataset.prepared.passage_worlds
      of = worlds if self._rows is None else worlds[self._rows]
      places = np.flatnonzero(of == world).astype(np.int32)
      self._parts[world] = places, self._make_part(places)
    return self._parts[world]

  def _make_part(self, places: np.ndarray) -> exact.ExactIndex:
    return self._make_exact(vector_table.Part(self.passage_vecs, places),
                            self._tie_ranks[places])

  def _make_exact(
      self, vecs: vector_table.Rows, ranks: np.ndarray
  ) -> exact.ExactIndex:
    return exact.ExactIndex(
        vecs, ranks, sharding.make_local_mesh(self._config.mesh),
        self._config.index.block_rows, self._score,
    )

  @property
  def _tie_ranks(self) -> np.ndarray:
    ranks = self._dataset.prepared.tie_ranks
    return ranks if self._rows is None else ranks[self._rows]

  def _as_rows(self, found: hits.Hits) -> hits.Hits:
    """Places in the index as rows of the whole corpus."""
    return hits.renumber(found, self._rows)

  def _matches(
      self, query_vec: np.ndarray, passages: Sequence[records.Passage]
  ) -> list[tuple[int, int]]:
    """The best part of each passage, all encoded together."""
    parts = [matching.parts(passage.text) for passage in passages]
    vecs = self._embedder.encode_passages([
        passage.text[start:end]
        for passage, of in zip(passages, parts, strict=True)
        for start, end in of
    ])
    ends = np.cumsum([len(of) for of in parts])[:-1]
    scores = np.asarray(
        self._score(jnp.asarray(query_vec)[None], jnp.asarray(vecs))[0]
    )
    return [
        of[int(np.argmax(scores))] if of else (0, 0)
        for of, scores in zip(parts, np.split(scores, ends), strict=True)
    ]
