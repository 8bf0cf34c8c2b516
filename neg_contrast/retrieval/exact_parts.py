"""Exact search in a corpus, in each query's own world, or among some passages.
"""

import functools

import numpy as np

from neg_contrast import scoring, sharding
from neg_contrast.retrieval import exact, hits, search_settings, vector_table


class ExactParts:
  """Exact indexes of a corpus and of parts of it, made when first searched.

  Hits are rows of the corpus.
  """

  def __init__(
      self,
      settings: search_settings.SearchSettings,
      vecs: vector_table.Rows,
      tie_ranks: np.ndarray,
      score: scoring.ScoreFunction,
      worlds: np.ndarray | None = None,
      among: np.ndarray | None = None,
  ):
    """Makes nothing yet.

    Args:
      settings: of search.
      vecs: `[passages, features] float32`, of the corpus.
      tie_ranks: `[passages] int32`, see `hits.tie_ranks`.
      score: of a query's vector and a passage's.
      worlds: `[passages] int32`, the world of each passage, if there are any.
      among: `[n] int32`, passages that `search_among` finds, ascending.
    """
    self._settings, self._score = settings, score
    self._vecs, self._ranks = vecs, tie_ranks
    self._worlds, self._among_rows = worlds, among
    self._by_world: dict[int, tuple[np.ndarray, exact.ExactIndex]] = {}

  def search(self, query_vecs: np.ndarray, depth: int) -> hits.Hits:
    """The best passages for `[queries, features] float32` vectors."""
    return self._whole.search(query_vecs, depth)

  def search_among(self, query_vecs: np.ndarray, depth: int) -> hits.Hits:
    """The best of the passages named by `among`, or of all."""
    if self._among_rows is None:
      return self.search(query_vecs, depth)
    return hits.renumber(
        self._among.search(query_vecs, depth), self._among_rows
    )

  def search_own(
      self, query_vecs: np.ndarray, depth: int, query_worlds: np.ndarray
  ) -> hits.Hits:
    """The best passages of each query's own world.

    Args:
      query_vecs: `[queries, features] float32`.
      depth: passages wanted.
      query_worlds: `[queries] int32`.
    """

    def search(world: int, lines: np.ndarray) -> hits.Hits:
      rows, index = self._world(world)
      return hits.renumber(index.search(query_vecs[lines], depth), rows)

    return hits.search_parts(query_worlds, depth, search)

  @functools.cached_property
  def _whole(self) -> exact.ExactIndex:
    return self._index(self._vecs, self._ranks)

  @functools.cached_property
  def _among(self) -> exact.ExactIndex:
    assert self._among_rows is not None
    return self._part(self._among_rows)

  def _world(self, world: int) -> tuple[np.ndarray, exact.ExactIndex]:
    """Rows of the passages of a world, ascending, and their index."""
    if world not in self._by_world:
      rows = np.flatnonzero(self._worlds == world).astype(np.int32)
      self._by_world[world] = rows, self._part(rows)
    return self._by_world[world]

  def _part(self, rows: np.ndarray) -> exact.ExactIndex:
    return self._index(vector_table.Part(self._vecs, rows), self._ranks[rows])

  def _index(
      self, vecs: vector_table.Rows, ranks: np.ndarray
  ) -> exact.ExactIndex:
    return exact.ExactIndex(
        vecs, ranks, sharding.make_local_mesh(self._settings.mesh),
        self._settings.index.block_rows, self._score,
    )
