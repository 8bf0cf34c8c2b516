"""Measurements of bias as artifacts, and the meter that they share."""

import dataclasses
import pathlib
from typing import Any

from neg_contrast.artifacts import artifact, folders
from neg_contrast.bias import labels, meter
from neg_contrast.data import feature_store
from neg_contrast.models import given
from neg_contrast.negatives import sampling
from neg_contrast.retrieval import bm25_search
from neg_contrast.settings import config as config_lib


@dataclasses.dataclass(frozen=True)
class Meter(artifact.InMemory):
  """What measures a model on random queries of a split; loads as `BiasMeter`.

  Attributes:
    data: of queries and passages.
    start: the model whose parameters will be measured.
    split: of the queries.
    config: how many queries, labels, negatives and draws.
    bm25: of its `bm25_k1` and `bm25_b`, and the rule for answers.
    scale: factor on the scores.
    seed: of the choice of queries.
    row_length: see `meter.BiasMeter`.
  """

  kind = 'bias meter'
  name = 'meter'
  data: artifact.Artifact
  start: given.Start
  split: str
  config: config_lib.NceConfig
  bm25: config_lib.EvaluationConfig
  scale: float
  seed: int
  row_length: int

  def describe(self) -> str:
    """Of what."""
    return f'{self.config.labels} labels of {self.config.queries} queries'

  def needs(self) -> dict[str, artifact.Artifact]:
    """Texts and model."""
    return {'data': self.data, 'start': self.start}

  def inputs(self) -> dict[str, artifact.Artifact]:
    """And BM25 of the texts, which chooses labels; settings tell it."""
    return {**super().inputs(),
            'bm25': bm25_search.bm25_of(self.bm25, self.data)}

  def settings(self) -> dict[str, Any]:
    """Those that the scores of the labels depend on."""
    return {
        'split': self.split, 'scale': self.scale, 'seed': self.seed,
        'labels': self.config.labels, 'queries': self.config.queries,
        'bm25': [self.bm25.bm25_k1, self.bm25.bm25_b],
        'dtype': self._compute.dtype,
        **feature_store.contents_of(
            self.data.load().prepared, self.start.side_features
        ),
    }

  def read(self) -> meter.BiasMeter:
    """Chooses queries and labels.

    Raises:
      UserError: there are too few queries, or passages.
    """
    dataset = self.data.load()
    space = labels.choose_labels(
        self.config, self.bm25, self.seed, dataset,
        dataset.prepared.judgements(self.split), f'data.split="{self.split}"',
    )
    return meter.BiasMeter(
        self.config, self.scale, dataset, self.start.load(), space,
        self._compute, self.row_length,
    )

  @property
  def _compute(self) -> config_lib.ModelConfig:
    assert self.start.config is not None
    return self.start.config


@dataclasses.dataclass(frozen=True)
class Bias(artifact.Json):
  """What a meter measures at one point: a file `bias-<point>.json`.

  Attributes:
    meter: loads as `BiasMeter`.
    point: name of the parameters.
    model: loads as the model that has them.
    steps: of training, at which the draws come after those that it made.
    workdir: of the file.
  """

  kind = 'bias'
  format = 4
  meter: Meter
  point: str
  model: artifact.Artifact
  steps: int
  workdir: pathlib.Path

  @property
  def name(self) -> str:
    """With the point."""
    return f'measure {self.point}'

  @property
  def path(self) -> pathlib.Path:
    """Where it lies."""
    return self.workdir / f'bias-{self.point}.json'

  def describe(self) -> str:
    """How often is drawn, and where the result lies."""
    return f'{self.meter.config.draws} draws, in {self.path}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """Meter and model."""
    return {'meter': self.meter, 'model': self.model}

  def settings(self) -> dict[str, Any]:
    """Those of the draws, and what tells which labels answer."""
    config = self.meter.config
    return {'answer_rule': self.meter.bm25.answer_rule,
            'draws': config.draws, 'epoch': self.steps,
            'percents': config.percents, 'negatives': config.negatives}

  def compute(self) -> dict[str, Any]:
    """Measures; see `BiasMeter.measure`."""
    params = {'encoder': self.model.load().params, 'loss': {}}
    # The first step that training does not draw for.
    key = sampling.draw_key(self.meter.seed, self.steps)
    return {**self.meter.load().measure(params, key),
            'environment': folders.environment()}
