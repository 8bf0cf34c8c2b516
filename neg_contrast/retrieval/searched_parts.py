"""Search in a corpus, in each query's own world, or among some passages."""

from collections.abc import Callable
from typing import Any

import numpy as np

from neg_contrast import hosts, scoring, sharding
from neg_contrast.retrieval import (
  hits,
  mesh_search,
  search_settings,
  vector_table,
)

_WHOLE, _AMONG = 'whole', 'among'  # Worlds are numbers.


class SearchedParts:
  """A corpus and parts of it, each put on the mesh when it is first searched.

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
    self._worlds, self._among = worlds, among
    self._made: dict[
        tuple[Any, bool], tuple[np.ndarray | None, mesh_search.MeshSearch]
    ] = {}

  def search(
      self, query_vecs: np.ndarray, depth: int, exactly: bool = False
  ) -> hits.Hits:
    """The best passages for `[queries, features] float32` vectors."""
    return self._part(_WHOLE, lambda: None)[1].search(
        query_vecs, depth, exactly
    )

  def search_among(self, query_vecs: np.ndarray, depth: int) -> hits.Hits:
    """The best of the passages named by `among`, or of all."""
    if self._among is None:
      return self.search(query_vecs, depth)
    rows, index = self._part(_AMONG, lambda: self._among)
    return hits.renumber(index.search(query_vecs, depth), rows)

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
      rows, index = self._part(
          world, lambda: np.flatnonzero(self._worlds == world).astype(np.int32)
      )
      return hits.renumber(index.search(query_vecs[lines], depth), rows)

    return hits.search_parts(query_worlds, depth, search)

  def _part(
      self, name: Any, choose: Callable[[], np.ndarray | None]
  ) -> tuple[np.ndarray | None, mesh_search.MeshSearch]:
    """Rows of a part, ascending, or None for all; and its search.

    All processes search together, or the first one alone, see `hosts`.
    """
    key = name, hosts.are_together()
    if key not in self._made:
      rows, vecs, ranks = choose(), self._vecs, self._ranks
      if rows is not None:
        vecs, ranks = vector_table.Part(vecs, rows), ranks[rows]
      self._made[key] = rows, mesh_search.MeshSearch(
          vecs, ranks, sharding.make_common_mesh(self._settings.mesh),
          self._settings.index.block_rows, self._score, self._settings.recall,
      )
    return self._made[key]
