"""Trains a dual encoder and shows what that changed."""

import functools
import pathlib

from neg_contrast import errors
from neg_contrast.artifacts import artifact, folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import evaluations, judged, metrics, summary
from neg_contrast.jobs.common import (
  checks,
  declared_draws,
  declared_hybrid,
  declared_pairs,
  declared_runs,
  negatives_checks,
  reporting,
  settings_of_rooms,
)
from neg_contrast.models import loading
from neg_contrast.retrieval import bm25_search, corpus_vectors
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.training import run_artifacts


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=train`."""
  checks.check_source(config)
  checks.check_init(config)
  checks.check_same_model(config)
  if config.synthetic.pairs == 'generated':
    checks.check_question_writer(config)
  if config.synthetic.pairs:
    checks.check_no_answers(config)
  if config.loss.label_smoothing:
    raise config.error('loss.label_smoothing', 'is for job=train_generator')
  metrics.check_criterion(config.evaluation.criterion)
  config.evaluation.check_depth()
  if config.evaluation.hybrid and config.model.score not in (None, 'dual'):
    raise config.error('evaluation.hybrid', 'is for model.score=dual')
  negatives_checks.check_trained_with(config)


class TrainJob:
  """`job=train`: evaluate, train with early stopping, evaluate again."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir
    self._place = errors.place()
    self.gold = dataset_lib.data_of(config.data)

  def targets(self) -> list[artifact.Artifact]:
    """Evaluations before and after, and the training.

    Raises:
      UserError: a metric is not known.
    """
    config, split = self._config, self._config.data.test_split
    metrics.check_names(config.evaluation.metrics)
    bm25 = judged.Bm25Ranking(
        self.judged(split), 'bm25',
        bm25_search.bm25_of(config.evaluation, self.gold),
    )
    return [
        self.gold,
        *[evaluations.Evaluation(bm25, self._workdir)] * config.evaluation.bm25,
        *[self.evaluation(name, start, split)
          for name, start in declared_runs.starts(
              self.run, self.stage1.run if self.stage1 is not None
              and config.evaluation.untouched else None
          ).items()],
        self.run,
        self.evaluation('trained', self.run, split),
        *([declared_hybrid.hybrid(
            config, self.judged(split), self.vectors(self.run), self._workdir
        )] if config.evaluation.hybrid else []),
    ]

  @functools.cached_property
  def run(self) -> run_artifacts.EncoderRun:
    """The training."""
    with errors.at(self._place):
      return declared_runs.encoder_run(
          self._config, self._workdir, self._data, self.gold, self._pool,
          None if self.stage1 is None else self.stage1.run,
          drawn_from=declared_draws.drawn_from(
              self._config, self._data, self.gold
          ),
      )

  def judged(self, split: str) -> judged.Judged:
    """The queries of a split, which tuning must not have seen."""
    return judged.Judged(self.gold, split, self._config.evaluation,
                         split == self._config.data.test_split)

  def vectors(self, model: artifact.Artifact) -> corpus_vectors.Embeddings:
    """The vectors of the corpus by a model of this job."""
    return corpus_vectors.Embeddings(
        self.gold, settings_of_rooms.encoding(self._config),
        self._workdir / retriever_lib.FOLDER, model,
    )

  def evaluation(
      self, system: str, model: artifact.Artifact, split: str,
      is_shown_with_split: bool = False,
  ) -> evaluations.Evaluation:
    """The evaluation of a model of this job on a split."""
    return evaluations.Evaluation(judged.DenseRanking(
        self.judged(split), system, self.vectors(model),
        settings_of_rooms.search(self._config),
        self._workdir / retriever_lib.FOLDER,
    ), self._workdir, is_shown_with_split)

  def finish(self) -> None:
    """Writes and prints the numbers."""
    dataset, model = self.gold.load(), self.run.start.load()
    values = summary.gather(self._workdir, dataset)
    folders.write_sealed(self._workdir / folders.MANIFEST, {
        'config': config_lib.to_dict(self._config),
        'identity': self.run.identity,
        'environment': folders.environment(),
        'metrics': values,
    })
    assert isinstance(model, loading.Model)
    reporting.write_report(
        self._workdir, self._config, dataset, model, self._pool
    )

  @functools.cached_property
  def stage1(self) -> 'TrainJob | None':
    """The training that this one goes on from, if there is one."""
    first = self._config.stage1
    if first is None:
      return None
    with errors.within('stage1'):
      return TrainJob(first, pathlib.Path(first.workdir))

  @functools.cached_property
  def _data(self) -> artifact.Artifact:
    """What is trained on."""
    return declared_pairs.training_data(self._config, self.gold)

  @functools.cached_property
  def _pool(self):
    return declared_draws.pool_of_training(
        self._config, self._workdir, self._data, self.gold
    )
