"""The training of a reranker as an artifact."""

import dataclasses

from neg_contrast.artifacts import artifact
from neg_contrast.evaluation import judged
from neg_contrast.models import by_name, reranker
from neg_contrast.training import recipe, reranker_run, run_artifacts


@dataclasses.dataclass(frozen=True)
class RerankerRun(run_artifacts.Run):
  """The training of a cross-encoder; loads as the selected checkpoint.

  Attributes:
    candidates: of the tune queries, which early stopping ranks again.
  """

  kind = 'training of a reranker'
  candidates: judged.Ranking = dataclasses.field(kw_only=True)

  def needs(self) -> dict[str, artifact.Artifact]:
    """The same, and what it is tuned by."""
    return {**super().needs(), 'candidates': self.candidates}

  def training(self) -> reranker_run.RerankerTraining:
    """What trains it."""
    return reranker_run.RerankerTraining(
        self.config, self.workdir, self._given(), self.identity
    )

  def read(self) -> reranker.Reranker:
    """The selected checkpoint."""
    return by_name.load_reranker_workdir(self.workdir)

  def _given(self) -> recipe.Given:
    return dataclasses.replace(super()._given(), candidates=self.candidates)
