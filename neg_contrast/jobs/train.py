"""Trains a dual encoder and shows what that changed."""

import functools
import pathlib
from typing import Any

import numpy as np

from neg_contrast import artifacts, plan
from neg_contrast import config as config_lib
from neg_contrast.evaluation import metrics
from neg_contrast.jobs import dataset as dataset_lib
from neg_contrast.jobs import encoder_training, evaluate, report
from neg_contrast.jobs import negatives as negatives_lib
from neg_contrast.models import loading


class TrainJob:
  """`job=train`: evaluate, train with early stopping, evaluate again."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir
    dataset = lambda: self._dataset
    self._negatives = negatives_lib.Negatives(config, workdir, dataset)
    self._has_pool = bool(config.negatives.pool or config.negatives.sources)
    self._training = encoder_training.DualEncoderTraining(
        config, workdir, dataset, self._negatives if self._has_pool else None
    )

  def steps(self) -> list[plan.Step]:
    """The plan."""
    config, workdir, split = (
        self._config, self._workdir, self._config.data.test_split
    )
    metrics.check_names(config.evaluation.metrics)
    bm25 = [] if not config.evaluation.bm25 else [evaluate.bm25_step(
        config, workdir, lambda: self._dataset, lambda: self._test, split
    )]
    return [
        dataset_lib.preparation_step(config.data, lambda: self._dataset),
        *bm25,
        evaluate.evaluation_step(
            'initial', config.data, workdir, lambda: self._test, split,
            identity=lambda: self._identity_of(self._training.model),
            search=lambda rows: self._search(self._training.model, rows),
        ),
        *self._negatives.steps(),
        self._training.step('training'),
        evaluate.evaluation_step(
            'trained', config.data, workdir, lambda: self._test, split,
            identity=lambda: self._identity_of(self._training.trained),
            search=lambda rows: self._search(self._training.trained, rows),
        ),
    ]

  def finish(self) -> None:
    """Writes and prints the numbers."""
    values = evaluate.gather(self._workdir, self._dataset)
    artifacts.write_json(self._workdir / artifacts.MANIFEST, {
        'config': config_lib.to_dict(self._config),
        'identity': self._training.identity,
        'environment': artifacts.environment(),
        'metrics': values,
    })
    report.write_report(
        self._workdir, self._config, self._dataset, self._training.model,
        self._negatives if self._has_pool else None,
    )

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  @functools.cached_property
  def _test(self) -> evaluate.Evaluation:
    return evaluate.Evaluation(
        self._config.evaluation, self._dataset, self._dataset.splits.test
    )

  def _identity_of(self, model: loading.Model) -> dict[str, Any]:
    return evaluate.dense_identity(
        self._dataset, self._config, self._config.data.test_split, model
    )

  def _search(
      self, model: loading.Model, query_rows: np.ndarray
  ) -> evaluate.Searched:
    return evaluate.search_dense(
        self._config, self._dataset, model, self._workdir, query_rows
    )
