"""Who judges candidates: a cross-encoder with calibrated probabilities.

RocketQA (Qu et al., 2021) trains one to tell false negatives from true ones.
"""

import dataclasses

from neg_contrast import errors
from neg_contrast.artifacts import artifact
from neg_contrast.models import by_name, given, reranker
from neg_contrast.retrieval import encoding


@dataclasses.dataclass(frozen=True)
class JudgeModel(given.Checkpoint):
  """A trained cross-encoder: a workdir, or a folder or hub name of others."""

  kind = 'judge'
  name = 'judge'

  def lacks(self) -> str | None:
    """What is wrong with it, as far as a look at its place tells."""
    lack = by_name.missing_reranker(self.checkpoint)
    if lack is not None:
      return lack
    try:
      is_one = by_name.is_reranker(self.checkpoint)
    except errors.UserError as e:
      return str(e)
    return None if is_one else (
        f'{self.checkpoint}: an encoder without a score layer can\'t judge; '
        'train one by configs/judge_reranker.py, or name a cross-encoder of '
        'one label'
    )

  def read(self) -> reranker.Reranker:
    """Model and weights."""
    assert self.config is not None
    return by_name.load_reranker(self.checkpoint, self.config, self.seed)


@dataclasses.dataclass(frozen=True)
class Judge:
  """A cross-encoder, and what its scores mean.

  Attributes:
    model: loads as a `Reranker`.
    calibration: loads as `evaluation.calibrated` says.
    encoding: how the model scores pairs.
  """

  model: JudgeModel
  calibration: artifact.Artifact
  encoding: encoding.EncodingSettings
