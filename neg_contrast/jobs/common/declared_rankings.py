"""Declares ensembles: their weights, and the systems that they make."""

import dataclasses
import pathlib
from collections.abc import Sequence

from neg_contrast.artifacts import places
from neg_contrast.evaluation import (
  dense_members,
  fused_systems,
  judged,
  runs,
  weight_tuning,
)
from neg_contrast.evaluation import evaluations as evaluations_lib
from neg_contrast.retrieval import (
  bm25_search,
  corpus_vectors,
  fused_vectors,
  search_settings,
)
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib


@dataclasses.dataclass(frozen=True)
class Ensemble:
  """Members, their weights, and the systems that they make with others.

  Attributes:
    config: what is fused; `members` are their names, for `save`.
    members: name of the system and vectors of each.
    bm25: of the corpus.
    tune: queries of the tune split.
    test: queries that systems are evaluated on.
    search: of all vectors.
    workdir: gets weights, evaluations and the ensemble.
    is_shown_with_split: whether plans name the split of an evaluation.
    weights_in: folder that gets the weights; None: the workdir.
  """

  config: config_lib.EnsembleConfig
  members: tuple[tuple[str, corpus_vectors.Embeddings], ...]
  bm25: bm25_search.Bm25
  tune: judged.TuneJudged
  test: judged.Judged
  search: search_settings.SearchSettings
  workdir: pathlib.Path
  is_shown_with_split: bool = False
  weights_in: pathlib.Path | None = None

  @property
  def names(self) -> tuple[str, ...]:
    """The fusions and hybrids that these members and runs make."""
    return fused_systems.names(self.config)

  @property
  def weights(self) -> weight_tuning.Weights:
    """Those of the members, and of hybrids."""
    return weight_tuning.Weights(
        self.config, self._dense, self.bm25, self.tune,
        self.weights_in or self.workdir,
    )

  @property
  def member_evaluations(self) -> list[evaluations_lib.Evaluation]:
    """Of each member alone."""
    return list(map(self._evaluation, self._member_rankings))

  @property
  def run_evaluations(self) -> list[evaluations_lib.Evaluation]:
    """Of each run file alone."""
    return list(map(self._evaluation, self._run_rankings))

  def evaluations(
      self, names: Sequence[str]
  ) -> list[evaluations_lib.Evaluation]:
    """Of systems that are made of others, by name."""
    return [self._evaluation(self._ranking(name)) for name in names]

  def save(self, workdir: pathlib.Path) -> None:
    """Makes a workdir a checkpoint, once all is made."""
    fingerprints = tuple(of.model.contents()['model'] for _, of in self.members)
    fused_vectors.Ensemble(
        self.config.members, fingerprints,
        self.weights.of(fused_systems.EMBEDDING),
    ).save(workdir)

  @property
  def _folder(self) -> pathlib.Path:
    """Keeps the index of the members together."""
    return self.workdir / retriever_lib.FOLDER

  @property
  def _dense(self) -> dense_members.DenseMembers:
    return dense_members.DenseMembers(
        tuple(of for _, of in self.members), self.search, self._folder
    )

  @property
  def _member_rankings(self) -> tuple[judged.Ranking, ...]:
    return tuple(
        judged.DenseRanking(self.test, name, of, self.search, of.folder)
        for name, of in self.members
    )

  @property
  def _run_rankings(self) -> tuple[judged.Ranking, ...]:
    paths = map(places.path, self.config.runs)
    return tuple(judged.RunRanking(self.test, runs.run_name(path), (path,))
                 for path in paths)

  def _ranking(self, name: str) -> judged.Ranking:
    config, test, weights = self.config, self.test, self.weights
    if name == fused_systems.RANK:
      both = *self._member_rankings, *self._run_rankings
      return fused_systems.RankFusion(test, name, both, config.rank_k)
    single = len(self.members) == 1
    vectors = self.members[0][1] if single else fused_systems.FusedEmbeddings(
        self._dense, weights
    )
    dense = self._member_rankings[0] if single else judged.DenseRanking(
        test, fused_systems.EMBEDDING, vectors, self.search, self._folder
    )
    sparse = judged.Bm25Ranking(
        dataclasses.replace(test, config=dataclasses.replace(
            test.config, depth=config.hybrid_depth
        )), 'bm25', self.bm25,
    )
    return {
        fused_systems.EMBEDDING: dense,
        'hybrid': fused_systems.Rescored(
            test, 'hybrid', sparse, vectors, weights, self.search
        ),
        'hybrid_scores': fused_systems.ScoreFusion(
            test, 'hybrid_scores', sparse, dense, weights
        ),
        'hybrid_ranks': fused_systems.RankFusion(
            test, 'hybrid_ranks', (sparse, dense), config.rank_k
        ),
    }[name]

  def _evaluation(self, ranking: judged.Ranking) -> evaluations_lib.Evaluation:
    return evaluations_lib.Evaluation(
        ranking, self.workdir, self.is_shown_with_split
    )
