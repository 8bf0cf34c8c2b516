"""A corpus and its vectors, ready to be searched: for jobs and notebooks."""

import functools
import pathlib
from collections.abc import Sequence

import numpy as np

from neg_contrast.artifacts import folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.retrieval import (
  finding,
  hits,
  kept_index,
  search_settings,
  searched_parts,
  vector_table,
)
from neg_contrast.retrieval import vectors as vectors_lib

FOLDER = 'retrieval'  # Of a workdir.
_PAIRS_AT_ONCE = 16384


class Retriever:
  """Searches the passages of a dataset, or some of them.

  Queries of the dataset that have a world are searched in their own, as if it
  were a corpus of its own.

  Attributes:
    vectors: of its queries and passages.
  """

  def __init__(
      self,
      settings: search_settings.SearchSettings,
      dataset: dataset_lib.Dataset,
      vectors: vectors_lib.Vectors,
      folder: pathlib.Path | None = None,
      rows: np.ndarray | None = None,
      among: np.ndarray | None = None,
  ):
    """Encodes nothing yet.

    Args:
      settings: of search.
      dataset: corpus and queries.
      vectors: of both.
      folder: keeps indexes of whole corpora, of any number of models; None:
        memory keeps them.
      rows: `[n] int32` passages that `vectors` has, ascending; default: the
        whole corpus.
      among: `[n] int32` passages that `search_and_score` finds, ascending, of a
        whole corpus with worlds; default: all.
    """
    self.vectors = vectors
    self._settings, self._dataset = settings, dataset
    self._folder = None if folder is None or rows is not None else (
        folder / folders.sha256_json(vectors.identity)[:12]
    )
    self._rows, self._among = rows, among
    self._quantized = settings.quantized(dataset.prepared, rows)

  def find(
      self, query: vectors_lib.QueryLike, depth: int = 10
  ) -> finding.Answers:
    """The best passages for a query, best first, with their matching parts.

    Raises:
      ValueError: the query is blank, or depth is not positive.
    """
    return self.find_each([query], depth)[0]

  def find_each(
      self, queries: Sequence[vectors_lib.QueryLike], depth: int = 10,
      search: finding.Search | None = None,
  ) -> finding.AnswerSets:
    """`find` for many queries, which are encoded and searched together.

    The first call encodes the corpus and compiles. A later one compiles where
    it has many more or fewer texts to encode, by a factor of two. `search`
    ranks passages; default: by the model alone.

    Raises:
      TypeError: a single text is given, not a list.
      ValueError: as `find`.
    """
    return finding.find_each(self._encoder, self._dataset.prepared.passages,
                             search or self.search_vecs, queries, depth)

  def search(
      self, queries: Sequence[vectors_lib.QueryLike], depth: int = 100
  ) -> hits.Hits:
    """The best passages of each query, as rows of the whole corpus."""
    return self.search_vecs(self._encoder.encode_queries(queries), depth)

  def search_rows(self, query_rows: np.ndarray, depth: int) -> hits.Hits:
    """The same for queries of the dataset."""
    return self.search_vecs(
        self.vectors.query_vecs(query_rows), depth, query_rows
    )

  def search_and_score(
      self, query_rows: np.ndarray, depth: int, rows: np.ndarray
  ) -> tuple[hits.Hits, np.ndarray]:
    """The best passages of queries of the dataset, and scores of some others.

    Here queries are searched in all worlds, or in `among`.

    Args:
      query_rows: `[queries] int32`.
      depth: passages wanted.
      rows: as those of `score`, whose results come second.
    """
    query_vecs = self.vectors.query_vecs(query_rows)
    found = (self.search_vecs(query_vecs, depth) if self._among is None
             else self._exact.search_among(query_vecs, depth))
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
      return self._as_rows(self.index.search(query_vecs, depth))
    return self._as_rows(self._exact.search_own(
        query_vecs, depth, prepared.query_worlds[query_rows]
    ))

  def score(self, query_vecs: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Scores of some passages for each query vector.

    Args:
      query_vecs: `[queries, features] float32`.
      rows: `[queries, some] int32` passages; -1 pads.

    Returns:
      `[queries, some] float32`, -inf for padding.
    """
    vecs = query_vecs, self.vectors.passage_vecs
    return _score_rows(self._encoder, *vecs, rows)

  @property
  def is_exact(self) -> bool:
    """Whether every passage is scored, and none missed."""
    return self.is_on_mesh and self._settings.recall is None

  @property
  def is_on_mesh(self) -> bool:
    """Whether processes that search together share the corpus: unless there is
    a quantized index, by which each finds all.
    """
    return self._quantized is None

  def is_made(self) -> bool:
    """Whether embeddings and index lie on disk already."""
    return self._folder is not None and self.vectors.is_made() and (
        self._quantized is None
        or kept_index.is_kept(self._folder, self._quantized)
    )

  def make(self) -> None:
    """Encodes the corpus and builds the index, where they are not there.

    Processes that do so together divide the work.
    """
    if self._quantized is None:
      _ = self.index
    else:
      self._kept.make()

  def search_exactly(self, query_vecs: np.ndarray, depth: int) -> hits.Hits:
    """`search_vecs` where nothing is missed, whatever the index."""
    return self._as_rows(self._exact.search(query_vecs, depth, exactly=True))

  @property
  def _encoder(self) -> vectors_lib.Encoder:
    return self.vectors.encoder

  @functools.cached_property
  def index(self) -> hits.Index:
    """What searches; made where it is not there."""
    return self._exact if self._quantized is None else self._kept.index

  @functools.cached_property
  def _kept(self) -> kept_index.KeptIndex:
    assert self._quantized is not None
    return kept_index.KeptIndex(
        self.vectors.passage_vecs, self.tie_ranks, self._encoder.score,
        self._quantized, self._folder,
    )

  @functools.cached_property
  def _exact(self) -> searched_parts.SearchedParts:
    prepared, rows = self._dataset.prepared, self._rows
    worlds = prepared.passage_worlds if prepared.worlds else None
    return searched_parts.SearchedParts(
        self._settings, self.vectors.passage_vecs, self.tie_ranks,
        self._encoder.score,
        worlds if worlds is None or rows is None else worlds[rows],
        self._among,
    )

  @property
  def tie_ranks(self) -> np.ndarray:
    """`[passages] int32`, see `hits.tie_ranks`."""
    ranks = self._dataset.prepared.tie_ranks
    return ranks if self._rows is None else ranks[self._rows]

  def _as_rows(self, found: hits.Hits) -> hits.Hits:
    """Places in the index as rows of the whole corpus."""
    return hits.renumber(found, self._rows)


def _score_rows(
    encoder: vectors_lib.Encoder,
    query_vecs: np.ndarray,
    passage_vecs: vector_table.Rows,
    rows: np.ndarray,
) -> np.ndarray:
  """`Retriever.score`, some pairs at a time."""
  scores = np.full(rows.shape, -np.inf, np.float32)
  lines, columns = np.nonzero(rows >= 0)
  for begin in range(0, len(lines), _PAIRS_AT_ONCE):
    line, column = (places[begin : begin + _PAIRS_AT_ONCE]
                    for places in (lines, columns))
    scores[line, column] = encoder.score_pairs(
        query_vecs[line], passage_vecs[rows[line, column]]
    )
  return scores
