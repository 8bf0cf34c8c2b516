"""Search by BM25 and a model together, for any text."""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from neg_contrast.retrieval import (
  bm25_search,
  finding,
  fusion,
  hits,
  retriever,
)
from neg_contrast.retrieval import vectors as vectors_lib


def rescored(
    dense: retriever.Retriever, sparse: hits.Hits, query_vecs: np.ndarray
) -> fusion.Candidates:
  """What BM25 found for queries, with BM25's and the dense score.

  Args:
    dense: has the passages' vectors.
    sparse: of BM25.
    query_vecs: `[queries, features] float32`.
  """
  found = fusion.align([sparse], dense.tie_ranks, fusion.raw)
  return found.with_scores(dense.score(query_vecs, found.rows))


@dataclasses.dataclass(frozen=True)
class Tuned:
  """What a training has tuned.

  Attributes:
    weights: of BM25's and of the dense score.
    first: passages of BM25 that are ranked anew.
    k1: of BM25, as the weights were tuned with it.
    b: likewise.
    model: fingerprint of the one that they were tuned for; empty: an ensemble.
    corpus: fingerprint of what was searched.
  """

  weights: tuple[float, ...]
  first: int
  k1: float
  b: float
  model: str = ''
  corpus: str = ''


class HybridRetriever:
  """BM25's first passages for a query, ranked anew by its and a model's score.

  A query that shares no word with any passage finds nothing.
  """

  def __init__(
      self,
      dense: retriever.Retriever,
      sparse: bm25_search.Bm25Search,
      tuned: Tuned,
  ):
    """Opens nothing yet.

    Args:
      dense: has the passages' vectors.
      sparse: over the same corpus, with k1 and b of `tuned`.
      tuned: weights and depth.
    """
    self._dense, self._sparse, self._tuned = dense, sparse, tuned

  def find(
      self, query: vectors_lib.QueryLike, depth: int = 10
  ) -> finding.Answers:
    """As `Retriever.find`, the score being the weighted sum."""
    search = functools.partial(self.search_vecs, [vectors_lib.text_of(query)])
    return self._dense.find_each([query], depth, search)[0]

  def search_vecs(
      self, texts: Sequence[str], query_vecs: np.ndarray, depth: int
  ) -> hits.Hits:
    """The best passages of each query, as rows of the corpus.

    Args:
      texts: of the queries.
      query_vecs: `[queries, features] float32`, of the same.
      depth: passages wanted.
    """
    sparse = self._sparse.search(texts, max(depth, self._tuned.first))
    candidates = rescored(self._dense, sparse, query_vecs)
    return candidates.ranked(self._tuned.weights, depth)
