"""Trains a dual encoder and shows what that changed."""

import functools
import pathlib

from neg_contrast import errors
from neg_contrast.artifacts import artifact
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import evaluations, metrics, summary
from neg_contrast.jobs.common import (
  checks,
  declared_draws,
  declared_judged,
  declared_mixture,
  declared_pairs,
  declared_runs,
  declared_systems,
  negatives_checks,
  next_command,
  reporting,
  unread_models,
)
from neg_contrast.models import loading
from neg_contrast.retrieval import corpus_vectors
from neg_contrast.settings import config as config_lib
from neg_contrast.training import mixture_run, run_artifacts


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=train`."""
  if config.mixture.sets:
    declared_mixture.check(config)
  else:
    checks.check_source(config)
  checks.check_init(config)
  sets = [*declared_mixture.configs_of(config).values()] or [config]
  unread_models.check(config, sets)
  checks.check_same_model(config)
  declared_judged.check(config)
  if config.loss.label_smoothing:
    raise config.error('loss.label_smoothing', 'is for job=train_generator')
  metrics.check_criterion(config.evaluation.criterion)
  config.evaluation.check_depth()
  if config.evaluation.hybrid and config.model.score not in (None, 'dual'):
    raise config.error('evaluation.hybrid', 'is for model.score=dual')
  for own in sets:
    negatives_checks.check_trained_with(own)


class TrainJob:
  """`job=train`: evaluate, train with early stopping, evaluate again."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = declared_mixture.main_config(config), workdir
    self._place = errors.place()
    self.gold = dataset_lib.data_of(self._config.data)

  def targets(self) -> list[artifact.Artifact]:
    """Evaluations before and after, and the training.

    Raises:
      UserError: a metric is not known.
    """
    config, systems = self._config, self._systems
    metrics.check_names(config.evaluation.metrics)
    starts = declared_runs.starts(
        self.run, self.stage1.run if self.stage1 is not None
        and config.evaluation.untouched else None
    )
    return [
        *[of.gold for of in systems],
        *[of.bm25() for of in systems if config.evaluation.bm25],
        *[of.dense(name, start) for of in systems
          for name, start in starts.items()],
        self.run,
        *[one for of in systems for one in of.trained(self.run)],
        *[of.hybrid(self.run) for of in systems if config.evaluation.hybrid],
    ]

  @functools.cached_property
  def run(self) -> run_artifacts.EncoderRun:
    """The training."""
    with errors.at(self._place):
      after = None if self.stage1 is None else self.stage1.run
      if self._config.mixture.sets:
        return declared_mixture.mixture_run_of(
            self._config, self._workdir, after
        )
      return declared_runs.encoder_run(
          self._config, self._workdir, self._data, self.gold, self._pool, after,
          drawn_from=declared_draws.drawn_from(
              self._config, self._data, self.gold
          ),
      )

  def vectors(self, model: artifact.Artifact) -> corpus_vectors.Embeddings:
    """The vectors of the corpus by a model of this job."""
    return self._systems[0].vectors(model)

  def evaluation(
      self, system: str, model: artifact.Artifact, split: str,
      is_shown_with_split: bool = False,
  ) -> evaluations.Evaluation:
    """The evaluation of a model of this job on a split."""
    return self._systems[0].dense(system, model, split, is_shown_with_split)

  @functools.cached_property
  def _systems(self) -> list[declared_systems.Systems]:
    """What is evaluated on each data set; those of `gold` come first."""
    with errors.at(self._place):
      return declared_systems.systems_of(self._config, self._workdir)

  def finish(self) -> None:
    """Writes and prints the numbers."""
    dataset, model = self.gold.load(), self.run.start.load()
    values = summary.gather(
        self._workdir, dataset,
        others=mixture_run.tuned_metrics(self._workdir)
        if self._config.mixture.sets else {},
    )
    reporting.write_manifest(self._workdir, self._config, self.run, values)
    assert isinstance(model, loading.Model)
    reporting.write_report(
        self._workdir, self._config, dataset, model, self._pool,
        facts=declared_judged.facts(
            *[job._data for job in (self, self.stage1) if job]),
    )
    next_command.print_search(self._config, self._workdir)

  @functools.cached_property
  def stage1(self) -> 'TrainJob | None':
    """The training that this one goes on from, if there is one."""
    first = self._config.stage1
    if first is None:
      return None
    with errors.within('stage1'):
      return TrainJob(first, declared_runs.stage1_folder(first, self._workdir))

  @functools.cached_property
  def _data(self) -> artifact.Artifact:
    """What is trained on."""
    return declared_pairs.training_data(self._config, self.gold)

  @functools.cached_property
  def _pool(self):
    if self._config.mixture.sets:
      return None
    return declared_draws.pool_of_training(
        self._config, self._workdir, self._data, self.gold)
