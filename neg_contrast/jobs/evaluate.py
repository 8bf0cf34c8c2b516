"""Evaluates a checkpoint beside BM25 and given runs."""

import collections
import dataclasses
import functools
import pathlib

from neg_contrast import errors
from neg_contrast.artifacts import plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import (
  evaluations,
  metrics,
  rankings,
  summary,
)
from neg_contrast.jobs import checks, reporting, settings_of_rooms
from neg_contrast.models import by_name as model_lib
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import searched as searched_lib
from neg_contrast.retrieval import vectors as vectors_lib
from neg_contrast.settings import config as config_lib


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=evaluate`."""
  checks.check_source(config)
  checks.check_checkpoint(config)
  config.evaluation.check_depth()


class EvaluateJob:
  """`job=evaluate`: any checkpoint, any source, beside BM25 and given runs."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir

  def steps(self) -> list[plan.Step]:
    """The plan.

    Raises:
      UserError: two systems have the same name.
    """
    config, workdir, split = (
        self._config, self._workdir, self._config.data.split
    )
    system = (
        'fusion_embedding' if model_lib.is_ensemble(config.checkpoint) else
        'trained' if model_lib.is_workdir(config.checkpoint) else 'initial'
    )
    dataset, evaluation = lambda: self._dataset, lambda: self._evaluation
    model = evaluations.evaluation_step(
        system, config.data, workdir, evaluation, split,
        identity=lambda: evaluations.dense_identity(
            self._dataset, config.evaluation, split,
            self._vectors.search_identity,
            settings_of_rooms.search(config),
        ),
        search=lambda rows: searched_lib.search_dense(
            settings_of_rooms.search(config), self._dataset, self._vectors,
            workdir / retriever_lib.FOLDER, rows,
        ),
        share=lambda: self._vectors.passage_vecs,
    )
    systems = [
        *([evaluations.bm25_step(
            config.data, config.evaluation, workdir, dataset, evaluation, split
        )]
          if config.evaluation.bm25 else []),
        *(evaluations.run_step(
            config.data, config.evaluation, workdir, dataset, evaluation, split,
            path,
        ) for path in map(pathlib.Path, config.evaluation.runs)),
        dataclasses.replace(
            model, missing=lambda: model_lib.missing(config.checkpoint)
        ),
    ]
    metrics.check_names(config.evaluation.metrics)
    names = collections.Counter(step.name for step in systems)
    name, count = names.most_common(1)[0]
    if count > 1:
      raise errors.UserError(
          f'config.evaluation.runs={config.evaluation.runs}: there would be '
          f'two systems called {name}, after the name of the file; rename one'
      )
    return [dataset_lib.preparation_step(config.data, dataset), *systems]

  def finish(self) -> None:
    """Writes and prints the numbers, and the report."""
    summary.gather(self._workdir, self._dataset)
    vectors = self._vectors
    reporting.write_report(
        self._workdir, self._config, self._dataset,
        vectors.encoder.model if isinstance(vectors, embedder_lib.Embedder)
        else None,
    )

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  @functools.cached_property
  def _evaluation(self) -> rankings.Evaluation:
    return rankings.Evaluation(
        self._config.evaluation, self._dataset,
        self._dataset.prepared.judgements(self._config.data.split),
    )

  @functools.cached_property
  def _vectors(self) -> vectors_lib.Vectors:
    return settings_of_rooms.vectors(
        self._config, self._dataset, self._workdir / retriever_lib.FOLDER
    )
