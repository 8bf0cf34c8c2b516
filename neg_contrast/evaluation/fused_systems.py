"""Systems that are made of others: members, run files and BM25."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from neg_contrast.artifacts import artifact
from neg_contrast.evaluation import dense_members, judged, weight_tuning
from neg_contrast.retrieval import (
  fusion,
  hits,
  hybrid,
  search_settings,
  searched,
)
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import vectors as vectors_lib
from neg_contrast.settings import config as config_lib

EMBEDDING, RANK = dense_members.EMBEDDING, 'fusion_rank'
HYBRIDS = (*weight_tuning.HYBRIDS, 'hybrid_ranks')
NAMES = (EMBEDDING, RANK, *HYBRIDS)


def names(config: config_lib.EnsembleConfig) -> tuple[str, ...]:
  """The systems that members and runs make."""
  members = len(config.members)
  return (
      *([EMBEDDING] if members > 1 else []),
      *([RANK] if members + len(config.runs) > 1 else []),
      *(HYBRIDS if members and config.hybrid else ()),
  )


@dataclasses.dataclass(frozen=True)
class FusedEmbeddings(artifact.InMemory):
  """Embedding fusion of members; loads as `Vectors`.

  Attributes:
    members: models.
    weights: of their scores.
  """

  kind = 'fused embeddings'
  name = 'fused embeddings'
  is_large = True
  members: dense_members.DenseMembers
  weights: weight_tuning.Weights

  def describe(self) -> str:
    """Of what."""
    return f'vectors of {len(self.members)} members as one'

  def needs(self) -> dict[str, artifact.Artifact]:
    """The members and their weights."""
    return {**self.members.needs(), EMBEDDING: self.weights}

  def read(self) -> vectors_lib.Vectors:
    """The members' vectors, with their weights."""
    return self.members.fused(self.weights.of(EMBEDDING))


@dataclasses.dataclass(frozen=True)
class RankFusion(judged.Ranking):
  """What rankings agree on, whatever their scores.

  Attributes:
    rankings: of the same queries; what lies below the depth does not count.
    k: constant of reciprocal rank fusion.
  """

  kind = 'rank fusion'
  rankings: tuple[judged.Ranking, ...]
  k: float

  def needs(self) -> dict[str, artifact.Artifact]:
    """Passages and queries, and the rankings."""
    return {**super().needs(), **{
        f'ranking-{number}': one for number, one in enumerate(self.rankings)
    }}

  def settings(self) -> dict[str, Any]:
    """The constant."""
    return {**super().settings(), 'k': self.k}

  def read(self) -> searched.Searched:
    """Fuses them."""
    return searched.Searched(_fuse(
        self.judged, self.rankings, (1.0,) * len(self.rankings),
        fusion.reciprocal_rank(self.k),
    ))


@dataclasses.dataclass(frozen=True)
class ScoreFusion(judged.Ranking):
  """The scores of BM25 and of vectors, brought to one scale and added up.

  Attributes:
    sparse: what BM25 finds; what lies below the depth does not count.
    dense: what vectors find.
    weights: of both.
  """

  kind = 'score fusion'
  sparse: judged.Ranking
  dense: judged.Ranking
  weights: weight_tuning.Weights

  def needs(self) -> dict[str, artifact.Artifact]:
    """Passages and queries, both rankings and their weights."""
    return {**super().needs(), 'bm25': self.sparse, 'dense': self.dense,
            self.system: self.weights}

  def read(self) -> searched.Searched:
    """Fuses them."""
    return searched.Searched(_fuse(
        self.judged, (self.sparse, self.dense),
        self.weights.of(self.system), fusion.min_max,
    ))


@dataclasses.dataclass(frozen=True)
class Rescored(judged.Ranking):
  """BM25's first passages, ranked anew by its score and that of vectors.

  Attributes:
    sparse: what BM25 finds.
    vectors: of passages and queries.
    weights: of both scores.
    search: of the vectors.
  """

  kind = 'rescored BM25'
  sparse: judged.Ranking
  vectors: artifact.Artifact
  weights: weight_tuning.Weights
  search: search_settings.SearchSettings

  def needs(self) -> dict[str, artifact.Artifact]:
    """Passages and queries, what BM25 finds, vectors and weights."""
    return {**super().needs(), 'bm25': self.sparse, 'vectors': self.vectors,
            self.system: self.weights}

  def read(self) -> searched.Searched:
    """Scores and ranks."""
    vectors = self.vectors.load()
    candidates = hybrid.rescored(
        retriever_lib.Retriever(self.search, self.judged.dataset, vectors),
        self.sparse.load().found,
        vectors.query_vecs(self.judged.judgements.queries),
    )
    return searched.Searched(candidates.ranked(
        self.weights.of(self.system), self.judged.config.depth
    ))


def _fuse(
    queries: judged.Judged,
    rankings: tuple[judged.Ranking, ...],
    weights: Sequence[float],
    scale: fusion.Scale,
) -> hits.Hits:
  """Rankings as one, none of them deeper than it."""
  depth = queries.config.depth
  found = [one.load().found for one in rankings]
  return fusion.fuse(
      [hits.Hits(of.rows[:, :depth], of.scores[:, :depth]) for of in found],
      weights, queries.dataset.prepared.tie_ranks, depth, scale,
  )
