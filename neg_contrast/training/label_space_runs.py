"""Trainings on a whole label space, as artifacts."""

import dataclasses

from neg_contrast.artifacts import artifact
from neg_contrast.bias import measured
from neg_contrast.training import label_space_run, run_artifacts


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelSpaceRun(run_artifacts.EncoderRun):
  """A training that bias is measured after; loads as its last checkpoint.

  Attributes:
    meter: makes the scores of the label space.
    negatives: what it trains with; see `label_space_run.LabelSpaceTraining`.
  """

  kind = 'training on a label space'
  meter: measured.Meter
  negatives: str

  def describe(self) -> str:
    """How long, and where it lies."""
    return (f'{self.config.optim.steps} steps of {self.config.nce.queries} '
            f'queries in {self.workdir}')

  def needs(self) -> dict[str, artifact.Artifact]:
    """Data, the first model, and the scores."""
    return {**super().needs(), 'meter': self.meter}

  @property
  def stop_corpus(self) -> None:
    """None: it is not tuned."""

  def training(self) -> label_space_run.LabelSpaceTraining:
    """What trains it."""
    return label_space_run.LabelSpaceTraining(
        self.config, self.folder, self._given(), self.identity, self.meter,
        self.negatives,
    )
