"""The members of an ensemble and their embedding fusion, to be searched."""

import functools
import pathlib
from collections.abc import Callable, Sequence

import numpy as np

from neg_contrast.data import dataset as dataset_lib
from neg_contrast.retrieval import (
  embedder,
  encoding,
  fused_vectors,
  fusion,
  hits,
  search_settings,
  searched,
)
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import vectors as vectors_lib


class DenseMembers:
  """Models that search one corpus, each alone and all together."""

  def __init__(
      self,
      names: Sequence[str],
      dataset: Callable[[], dataset_lib.Dataset],
      encoding_settings: encoding.EncodingSettings,
      search: search_settings.SearchSettings,
      folder: pathlib.Path,
      seed: int,
  ):
    """Reads nothing yet.

    Args:
      names: checkpoints.
      dataset: corpus and queries.
      encoding_settings: how they encode.
      search: how their vectors are searched, and how deep.
      folder: keeps what has no workdir of its own to keep it.
      seed: of parameters that a checkpoint does not have.
    """
    self._names, self._dataset = tuple(names), dataset
    self._encoding, self._search = encoding_settings, search
    self._folder, self._seed = folder, seed

  def __len__(self) -> int:
    return len(self._names)

  @functools.cached_property
  def vectors(self) -> list[embedder.Embedder]:
    """The vectors of each member."""
    return [
        fused_vectors.load_member(self._encoding, self._dataset(), name,
                                  self._folder, self._seed)
        for name in self._names
    ]

  @functools.cache  # noqa: B019 - they live as long as their job.
  def fused(self, weights: tuple[float, ...]) -> vectors_lib.Vectors:
    """The vectors of all, with weights of their scores."""
    if len(self.vectors) == 1:
      return self.vectors[0]
    return fused_vectors.FusedVectors(self.vectors, weights)

  def retriever(self, number: int) -> retriever_lib.Retriever:
    """Searches with a member."""
    return self._make_retriever(self.vectors[number], self._folder_of(number))

  def fused_retriever(
      self, weights: tuple[float, ...]
  ) -> retriever_lib.Retriever:
    """Searches with all of them: with the index of the only one, if it is."""
    if len(self.vectors) == 1:
      return self.retriever(0)
    return self._make_retriever(self.fused(weights), self._folder)

  def search(
      self, number: int, query_rows: np.ndarray
  ) -> searched.Searched:
    """The ranking of queries by a member, `[queries] int32`."""
    return searched.search_dense(
        self._search, self._dataset(), self.vectors[number],
        self._folder_of(number), query_rows,
    )

  def search_fused(
      self, weights: tuple[float, ...], query_rows: np.ndarray
  ) -> searched.Searched:
    """The same by all of them; a single one has its own."""
    return searched.search_dense(
        self._search, self._dataset(), self.fused(weights), self._folder,
        query_rows,
    )

  def rescored(
      self,
      sparse: hits.Hits,
      query_rows: np.ndarray,
      weights: tuple[float, ...],
      tie_ranks: np.ndarray,
  ) -> fusion.Candidates:
    """What BM25 found for queries, with BM25's and the fused score.

    Args:
      sparse: of BM25.
      query_rows: `[queries] int32`.
      weights: of the members.
      tie_ranks: `[passages] int32`, see `hits.tie_ranks`.
    """
    found = fusion.align([sparse], tie_ranks, fusion.raw)
    return found.with_scores(self.fused_retriever(weights).score(
        self.fused(weights).query_vecs(query_rows), found.rows
    ))

  def _make_retriever(
      self, of: vectors_lib.Vectors, folder: pathlib.Path
  ) -> retriever_lib.Retriever:
    return retriever_lib.Retriever(self._search, self._dataset(), of, folder)

  def _folder_of(self, number: int) -> pathlib.Path:
    """The folder that keeps the index of a member."""
    folder = fused_vectors.folder_of(self._names[number], self._folder)
    assert folder is not None
    return folder
