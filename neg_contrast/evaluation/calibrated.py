"""The calibration of a cross-encoder, fitted on the tune split: a file."""

import dataclasses
import hashlib
import pathlib
from typing import Any

import numpy as np

from neg_contrast import errors, hosts
from neg_contrast.artifacts import artifact, folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples
from neg_contrast.evaluation import calibration, candidate_scores, judged
from neg_contrast.models import reranker
from neg_contrast.retrieval import embedder, encoding, pair_scorer

FILE = 'calibration.json'
"""In the workdir of a reranker."""


@dataclasses.dataclass(frozen=True)
class FittedCalibration(artifact.Json):
  """Temperature and bias of a model's scores of tune candidates.

  It loads as a dict: `temperature`, `bias`, `pairs`, `positives`, `before` and
  `after` (see `calibration.reliability`), and `model`, its fingerprint.

  Attributes:
    model: loads as a `Reranker`.
    candidates: a ranking of the tune queries.
    encoding: how the model scores pairs.
    folder: has the file.
  """

  kind = 'calibration of a reranker'
  name = 'calibration'
  is_divided = True  # Processes divide the pairs.
  model: artifact.Artifact
  candidates: judged.Ranking
  encoding: encoding.EncodingSettings
  folder: pathlib.Path

  @property
  def path(self) -> pathlib.Path:
    """Of the file."""
    return self.folder / FILE

  def describe(self) -> str:
    """Of what, and where."""
    return f'calibration on the tune split in {self.path}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """The judgements, the model, and what it scores."""
    return {'data': self.candidates.judged.data, 'model': self.model,
            'candidates': self.candidates}

  def settings(self) -> dict[str, Any]:
    """How the scores are computed, and of which queries."""
    judged_queries = self.candidates.judged
    rows = judged_queries.judgements.queries
    return {
        **embedder.vectors_identity(
            self.encoding, judged_queries.dataset, self.model.load()
        ),
        'tune_queries': hashlib.sha256(rows.tobytes()).hexdigest(),
    }

  def build(self) -> None:
    """Scores the pairs with all processes; the first writes the file."""
    values = self.compute()

    def write() -> None:
      folders.make_folder(self.folder)
      folders.write_sealed(self.path, {'identity': self.identity, **values})

    hosts.on_first(write)

  def compute(self) -> dict[str, Any]:
    """Scores the candidates of the tune queries, and fits.

    Raises:
      UserError: none of them is a positive, or positives score no higher.
    """
    ranking, model = self.candidates, self.model.load()
    dataset: dataset_lib.Dataset = ranking.judged.dataset
    queries = ranking.judged.open().query_rows
    rows = ranking.load().found.rows
    scores = candidate_scores.cross_scores(
        pair_scorer.PairScorer(model, self.encoding), dataset, queries, rows,
        self.folder / candidate_scores.FOLDER,
    )
    is_there = rows >= 0
    is_positive = known_positives(dataset, queries, rows)[is_there]
    return {'model': model.fingerprint,
            **_fitted(model, scores[is_there], is_positive)}


@dataclasses.dataclass(frozen=True)
class GivenCalibration(artifact.Given):
  """What a training left beside its checkpoint; loads as the same dict.

  Attributes:
    model: that it has to be of.
    path: of the file.
  """

  kind = 'calibration'
  name = 'calibration'
  model: artifact.Artifact
  path: pathlib.Path

  def describe(self) -> str:
    """Where it lies."""
    return f'calibration in {self.path}'

  def lacks(self) -> str | None:
    """The file."""
    return None if self.path.exists() else f'{self.path}: no such file'

  def read(self) -> dict[str, Any]:
    """The file.

    Raises:
      UserError: it is damaged, or of another model.
    """
    values = folders.read_sealed(self.path, self.path)
    if values.get('model') != self.model.load().fingerprint:
      raise errors.UserError(
          f'{self.path}: calibrates other weights than those beside it; remove '
          'it to have them calibrated again'
      )
    return values

  def _find_contents(self, role: str) -> Any:
    del role
    values = self.read()
    return {key: values[key] for key in ('temperature', 'bias', 'model')}


def of(values: dict[str, Any]) -> calibration.Calibration:
  """The calibration of what either file holds."""
  return calibration.Calibration(values['temperature'], values['bias'])


def metrics(dataset: str, values: dict[str, Any]) -> dict[str, float]:
  """Both errors on the tune split, named as in `metrics.json`.

  Args:
    dataset: its name.
    values: of either file.
  """
  return {
      f'{dataset}/tune/{system}/{name}': values[when][name]
      for system, when in (('uncalibrated', 'before'), ('calibrated', 'after'))
      for name in ('ece', 'cross_entropy')
  }


def describe(values: dict[str, Any]) -> str:
  """Both errors and the bins after it, as lines for the terminal."""
  before, after = values['before'], values['after']
  lines = [
      f'calibration on {values["pairs"]:,} tune pairs, of which '
      f'{values["positives"]:,} are positive: temperature '
      f'{values["temperature"]:.3f}, bias {values["bias"]:+.3f}',
      f'expected calibration error {before["ece"]:.4f} -> {after["ece"]:.4f}, '
      f'cross-entropy {before["cross_entropy"]:.4f} -> '
      f'{after["cross_entropy"]:.4f}',
      'probability    pairs  mean   positive',
  ]
  return '\n'.join(lines + [
      f'{one["low"]:.1f} to {one["high"]:.1f} {one["pairs"]:>9,}  '
      f'{one["probability"]:.3f}  {one["positive"]:.3f}'
      for one in after['bins']
  ])


def known_positives(
    dataset: dataset_lib.Dataset, queries: np.ndarray, rows: np.ndarray
) -> np.ndarray:
  """Which candidates are known positives of their query, or copies of one.

  Args:
    dataset: the judgements, of all splits.
    queries: `[queries] int32`.
    rows: `[queries, depth] int32` passages of the corpus; -1 pads.

  Returns:
    `[queries, depth] bool`.
  """
  groups = dataset.prepared.passage_groups[np.maximum(rows, 0)]
  positives = examples.known_positives(dataset.prepared)[queries]
  found = np.zeros(rows.shape, bool)
  for column in positives.T:
    found |= groups == column[:, None]
  return found & (rows >= 0)


def _fitted(
    model: reranker.Reranker, scores: np.ndarray, is_positive: np.ndarray
) -> dict[str, Any]:
  try:
    fitted = calibration.fit(scores, is_positive)
  except ValueError as e:
    raise errors.UserError(
        f'{model.name}: its scores of tune candidates can\'t be calibrated: '
        f'{e}; in another --workdir train it longer, with more candidates '
        f'(--{errors.key("evaluation.depth")}) or more tune queries'
    ) from None
  return {
      **dataclasses.asdict(fitted),
      'pairs': len(scores), 'positives': int(is_positive.sum()),
      'before': calibration.reliability(
          calibration.Calibration().probabilities(scores), is_positive
      ),
      'after': calibration.reliability(
          fitted.probabilities(scores), is_positive
      ),
  }
