"""Searches for queries of a dataset, none of which finds its own passage.

See `data/shared_ids.py`. A search looks one passage deeper and drops the
query's own, so that every query has as many hits as are wanted.
"""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from neg_contrast.data import dataset as dataset_lib
from neg_contrast.retrieval import hits


@runtime_checkable
class Searcher(Protocol):
  """Searches a corpus for queries of a dataset."""

  def search_rows(
      self, query_rows: Int[np.ndarray, ' queries'], depth: int
  ) -> hits.Hits:
    """The best passages of queries, as rows of the corpus."""
    ...


def search_rows(
    searcher: Searcher,
    dataset: dataset_lib.Dataset,
    query_rows: Int[np.ndarray, ' queries'],
    depth: int,
) -> hits.Hits:
  """The best passages of queries, without their own.

  Args:
    searcher: of the corpus.
    dataset: of the queries.
    query_rows: `[queries] int32`.
    depth: passages wanted.
  """
  found = searcher.search_rows(query_rows, depth_for(dataset, depth))
  return drop(dataset, query_rows, found, depth)


def depth_for(dataset: dataset_lib.Dataset, depth: int) -> int:
  """How deep to search, so that `drop` leaves `depth` passages."""
  return depth if dataset.own_passages is None else depth + 1


def drop(
    dataset: dataset_lib.Dataset,
    query_rows: Int[np.ndarray, ' queries'],
    found: hits.Hits,
    depth: int,
) -> hits.Hits:
  """Hits without the queries' own passages.

  Args:
    dataset: of the queries.
    query_rows: `[queries] int32`, whose hits they are.
    found: `[queries, depth_for(depth)]`, no passage twice for a query.
    depth: passages wanted.
  """
  if dataset.own_passages is None:
    return found
  own = dataset.own_passages[query_rows][:, None]
  dropped = (found.rows == own) & (own >= 0)
  dropped[~dropped.any(axis=1), -1] = True  # One of each query.
  shape = len(found.rows), depth
  return hits.Hits(found.rows[~dropped].reshape(shape),
                   found.scores[~dropped].reshape(shape))
