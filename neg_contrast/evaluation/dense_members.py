"""The members of an ensemble and their embedding fusion, to be searched."""

import functools
import pathlib
from collections.abc import Callable, Sequence

import numpy as np

from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import fused_vectors, fusion, hits
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import searched as searched_lib
from neg_contrast.retrieval import vectors as vectors_lib

MakeRetriever = Callable[
    [vectors_lib.Vectors, pathlib.Path], retriever_lib.Retriever
]
"""Vectors, and the folder that keeps their index, -> what searches them."""


class DenseMembers:
  """Models that search one corpus, each alone and all together."""

  def __init__(
      self,
      names: Sequence[str],
      load: Callable[[str], embedder_lib.Embedder],
      make_retriever: MakeRetriever,
      folder: pathlib.Path,
  ):
    """Reads nothing yet.

    Args:
      names: checkpoints.
      load: gives the vectors of one.
      make_retriever: of vectors and the folder of their index.
      folder: keeps what has no workdir of its own to keep it.
    """
    self._names, self._load = tuple(names), load
    self._make_retriever, self._folder = make_retriever, folder

  def __len__(self) -> int:
    return len(self._names)

  @functools.cached_property
  def vectors(self) -> list[embedder_lib.Embedder]:
    """The vectors of each member."""
    return list(map(self._load, self._names))

  @functools.cache  # noqa: B019 - they live as long as their job.
  def fused(self, weights: tuple[float, ...]) -> vectors_lib.Vectors:
    """The vectors of all, with weights of their scores."""
    if len(self.vectors) == 1:
      return self.vectors[0]
    return fused_vectors.FusedVectors(self.vectors, weights)

  def retriever(self, number: int) -> retriever_lib.Retriever:
    """Searches with a member."""
    folder = fused_vectors.folder_of(self._names[number], self._folder)
    assert folder is not None
    return self._make_retriever(self.vectors[number], folder)

  def fused_retriever(
      self, weights: tuple[float, ...]
  ) -> retriever_lib.Retriever:
    """Searches with all of them: with the index of the only one, if it is."""
    if len(self.vectors) == 1:
      return self.retriever(0)
    return self._make_retriever(self.fused(weights), self._folder)

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


def search(
    retriever: retriever_lib.Retriever, query_rows: np.ndarray, depth: int
) -> searched_lib.Searched:
  """The best passages of queries, and what an index missed.

  Args:
    retriever: of the corpus.
    query_rows: `[queries] int32`.
    depth: passages wanted.
  """
  found = retriever.search_rows(query_rows, depth)
  return searched_lib.Searched(
      found, retriever.measure_index(query_rows, found)
  )
