"""Systems that are made of others: members, run files and BM25."""

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from neg_contrast.artifacts import folders
from neg_contrast.evaluation import dense_members, rankings, weight_tuning
from neg_contrast.retrieval import bm25_search, fusion, hits
from neg_contrast.retrieval import searched as searched_lib
from neg_contrast.settings import config as config_lib

EMBEDDING, RANK = 'fusion_embedding', 'fusion_rank'
HYBRIDS = ('hybrid', 'hybrid_scores', 'hybrid_ranks')
NAMES = (EMBEDDING, RANK, *HYBRIDS)


class FusedSystems:
  """Searches the test queries with the members of an ensemble, and fuses."""

  def __init__(
      self,
      settings: config_lib.EnsembleConfig,
      members: dense_members.DenseMembers,
      tuning: weight_tuning.WeightTuning,
      bm25: Callable[[], bm25_search.Bm25Search],
      test: Callable[[], rankings.Evaluation],
  ):
    """Reads nothing yet.

    Args:
      settings: what is fused.
      members: models.
      tuning: the weights.
      bm25: of the corpus.
      test: corpus, queries and depth.
    """
    self._settings, self._members, self._tuning = settings, members, tuning
    self._bm25, self._test = bm25, test

  @property
  def names(self) -> tuple[str, ...]:
    """The systems that these members and runs make."""
    settings, members = self._settings, len(self._settings.members)
    return (
        *([EMBEDDING] if members > 1 else []),
        *([RANK] if members + len(settings.runs) > 1 else []),
        *(HYBRIDS if members and settings.hybrid else ()),
    )

  def identity(self, name: str) -> dict[str, Any]:
    """What the ranking of a system depends on, beside data and index."""
    if name == EMBEDDING:
      return self._vectors.search_identity
    if name == RANK:
      return {
          'members': [one.search_identity for one in self._members.vectors],
          'runs': [folders.sha256_file(pathlib.Path(run))
                   for run in self._settings.runs],
          'k': self._settings.rank_k,
      }
    return {
        'dense': self._vectors.search_identity,
        'bm25': self._tuning.bm25_identity,
        'tuned': self._tuning.tuned.get(name, {'k': self._settings.rank_k}),
    }

  def search(self, name: str) -> searched_lib.Searched:
    """The ranking of the test queries by a system."""
    if name == EMBEDDING:
      return self._fused_found
    return searched_lib.Searched({
        RANK: self._fuse_ranks, 'hybrid': self._rerank,
        'hybrid_scores': self._add_scores, 'hybrid_ranks': self._add_ranks,
    }[name]())

  @functools.cache  # noqa: B019 - they live as long as their job.
  def search_member(self, number: int) -> searched_lib.Searched:
    """The ranking of the test queries by a member."""
    return self._members.search(number, self._test().query_rows)

  @property
  def _vectors(self):
    return self._members.fused(self._tuning.member_weights)

  @property
  def _fused_found(self) -> searched_lib.Searched:
    if len(self._members) == 1:
      return self.search_member(0)
    return self._search_fused(self._tuning.member_weights)

  @functools.cache  # noqa: B019 - they live as long as their job.
  def _search_fused(self, weights: tuple[float, ...]) -> searched_lib.Searched:
    return self._members.search_fused(weights, self._test().query_rows)

  def _fuse_ranks(self) -> hits.Hits:
    found = [
        *(self.search_member(number).found
          for number in range(len(self._members))),
        *(self._test().read(pathlib.Path(run)) for run in self._settings.runs),
    ]
    return fusion.fuse(
        found, (1.0,) * len(found), self._tie_ranks, self._depth,
        fusion.reciprocal_rank(self._settings.rank_k),
    )

  def _rerank(self) -> hits.Hits:
    """BM25's first passages, by both scores."""
    return self._members.rescored(
        self._sparse, self._test().query_rows, self._tuning.member_weights,
        self._tie_ranks,
    ).ranked(self._tuning.tuned['hybrid']['weights'], self._depth)

  def _add_scores(self) -> hits.Hits:
    return fusion.fuse(
        self._sparse_and_dense, self._tuning.tuned['hybrid_scores']['weights'],
        self._tie_ranks, self._depth, fusion.min_max,
    )

  def _add_ranks(self) -> hits.Hits:
    return fusion.fuse(
        self._sparse_and_dense, (1.0, 1.0), self._tie_ranks, self._depth,
        fusion.reciprocal_rank(self._settings.rank_k),
    )

  @functools.cached_property
  def _sparse(self) -> hits.Hits:
    """BM25's ranking of the test queries."""
    return self._bm25().search_rows(self._test().query_rows,
                                    self._settings.hybrid_depth)

  @property
  def _sparse_and_dense(self) -> list[hits.Hits]:
    depth, sparse = self._depth, self._sparse
    return [hits.Hits(sparse.rows[:, :depth], sparse.scores[:, :depth]),
            self._fused_found.found]

  @property
  def _tie_ranks(self) -> np.ndarray:
    return self._test().dataset.prepared.tie_ranks

  @property
  def _depth(self) -> int:
    return self._test().config.depth
