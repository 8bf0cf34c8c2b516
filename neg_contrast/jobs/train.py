"""Trains a dual encoder and shows what that changed."""

import dataclasses
import functools
import pathlib

from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import metrics, model_evaluations, summary
from neg_contrast.jobs import (
  assembly,
  checks,
  negatives_checks,
  prerequisites,
  reporting,
  settings_of_rooms,
)
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import loading
from neg_contrast.settings import config as config_lib
from neg_contrast.training import encoder_run


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
  config.evaluation.check_depth()
  negatives_checks.check_trained_with(config)


class TrainJob:
  """`job=train`: evaluate, train with early stopping, evaluate again."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir
    self._prepare, self._synthetic = list[plan.Step](), None
    if config.synthetic.pairs == 'generated':
      self._prepare, make = prerequisites.generator(config)
      self._synthetic = assembly.pairs(
          config, lambda: self._gold,
          assembly.questions(config, lambda: self._gold, make),
      )
    elif config.synthetic.pairs:
      self._synthetic = assembly.pairs(config, lambda: self._gold)
    dataset = lambda: self._dataset
    self._negatives = assembly.negatives(config, workdir, dataset)
    self._has_pool = bool(config.negatives.pool or config.negatives.sources)
    self._stage1 = None if config.stage1 is None else TrainJob(
        config.stage1, pathlib.Path(config.stage1.workdir)
    )
    self._training = encoder_run.DualEncoderTraining(
        settings_of_rooms.training(config if config.stage1 is None else (
            dataclasses.replace(config, model=dataclasses.replace(
                config.model, init=config.stage1.workdir, layers=None
            ))
        )),
        workdir, dataset, self._negatives if self._has_pool else None,
    )
    self._evaluations = model_evaluations.ModelEvaluations(
        config.data, config.evaluation, settings_of_rooms.encoding(config),
        settings_of_rooms.search(config), workdir, lambda: self._gold,
    )

  def steps(self) -> list[plan.Step]:
    """The plan; data first, so that it never waits for a model."""
    config, split = self._config, self._config.data.test_split
    metrics.check_names(config.evaluation.metrics)
    bm25 = [self._evaluations.bm25_step(split)] * config.evaluation.bm25
    initial = self._evaluations.step('initial', self._first_model, split)
    before = self.before_training()
    at = len(before) if config.stage1 is not None else 1
    return [
        before[0], *bm25, *before[1:at], initial, *before[at:],
        self.training_step(), self.trained_step(split),
    ]

  def training_step(self, opens_rest: bool = False) -> plan.Step:
    """Of stage 1 the one that all later ones need."""
    return self._training.step(
        'training', lambda: None if self._stage1 is not None
        else model_lib.missing(self._config.model.init), opens_rest,
    )

  def trained_step(self, split: str) -> plan.Step:
    """Evaluates the trained model on a split."""
    return self._evaluations.step('trained', self._trained_model, split)

  def is_trained(self) -> bool:
    """Whether training ran to its end."""
    return self._training.is_trained()

  def release(self) -> None:
    """Lets go of all weights; they are read again when asked for."""
    self._training.release()
    self._negatives.release()
    if self._stage1 is not None:
      self._stage1.release()

  def before_training(self) -> list[plan.Step]:
    """All that training needs, its data first."""
    config = self._config
    steps = [dataset_lib.preparation_step(config.data, lambda: self._gold),
             *self._prepare]
    if self._synthetic is not None:
      steps += self._synthetic.steps()
    steps += self._negatives.steps()
    if self._stage1 is not None:
      steps += prerequisites.within(config, 'stage1', [
          *self._stage1.before_training(),
          self._stage1.training_step(opens_rest=True),
      ])
    return steps

  def finish(self) -> None:
    """Writes and prints the numbers."""
    values = summary.gather(self._workdir, self._gold)
    folders.write_sealed(self._workdir / folders.MANIFEST, {
        'config': config_lib.to_dict(self._config),
        'identity': self._training.identity,
        'environment': folders.environment(),
        'metrics': values,
    })
    reporting.write_report(
        self._workdir, self._config, self._gold, self._training.model,
        self._negatives if self._has_pool else None,
    )

  @functools.cached_property
  def _gold(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  @property
  def _dataset(self) -> dataset_lib.Dataset:
    """What is trained on."""
    return self._gold if self._synthetic is None else self._synthetic.dataset

  def _first_model(self) -> loading.Model:
    return self._training.model

  def _trained_model(self) -> loading.Model:
    return self._training.trained
