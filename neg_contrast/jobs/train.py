"""Trains a dual encoder and shows what that changed."""

import dataclasses
import functools
import pathlib
from typing import Any

import numpy as np

from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import evaluations, metrics, rankings, summary
from neg_contrast.jobs import (
  assembly,
  checks,
  prerequisites,
  reporting,
  settings_of_rooms,
)
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import loading
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import searched as searched_lib
from neg_contrast.retrieval import text_encoder
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
  _check_negatives(config)


def _check_negatives(config: config_lib.Config) -> None:
  """Raises UserError where strategy, number, loss and model disagree."""
  negatives = config.negatives
  if negatives.pool and negatives.strategy in ('random', 'corpus', 'sampled'):
    raise config.error('negatives.strategy', 'draws nothing from '
                       f'negatives.pool={negatives.pool}; name the strategy '
                       'that the pool was made by, or "mixed"')
  checks.check_drawn(config)
  if config.loss.candidates == 'own' and negatives.per_query == 0:
    raise config.error('loss.candidates', 'leaves a query without any '
                       'negative; choose a negatives.strategy and per_query')
  if config.loss.adjusted and (
      negatives.strategy != 'sampled' or negatives.hard_percent < 100
      or negatives.greedy
  ):
    raise config.error('loss.adjusted', 'needs negatives that are drawn '
                       'independently: negatives.strategy=sampled with '
                       'hard_percent=100 and greedy=False')
  checks.check_mined(config)


class TrainJob:
  """`job=train`: evaluate, train with early stopping, evaluate again."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir
    self._prepare: list[plan.Step] = []
    self._synthetic = None
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

  def steps(self) -> list[plan.Step]:
    """The plan: what is trained on first, so that it never waits for a model.
    """
    config, workdir, split = (
        self._config, self._workdir, self._config.data.test_split
    )
    metrics.check_names(config.evaluation.metrics)
    bm25 = [] if not config.evaluation.bm25 else [evaluations.bm25_step(
        config.data, config.evaluation, workdir, lambda: self._gold,
        lambda: self._test, split,
    )]
    initial = evaluations.evaluation_step(
        'initial', config.data, workdir, lambda: self._test, split,
        identity=lambda: self._identity_of(self._training.model, split),
        search=lambda rows: self._search(self._training.model, rows),
        share=lambda: self._vectors_of(self._training.model).passage_vecs,
    )
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
    """Evaluates what came out on a split."""
    return evaluations.evaluation_step(
        'trained', self._config.data, self._workdir,
        lambda: self._evaluation(split), split,
        identity=lambda: self._identity_of(self._training.trained, split),
        search=lambda rows: self._search(self._training.trained, rows),
        share=lambda: self._vectors_of(self._training.trained).passage_vecs,
    )

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
    steps = [dataset_lib.preparation_step(config.data, lambda: self._gold)]
    steps += self._prepare
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

  @property
  def _test(self) -> rankings.Evaluation:
    return self._evaluation(self._config.data.test_split)

  @functools.cache  # noqa: B019 - a job lives as long as the program.
  def _evaluation(self, split: str) -> rankings.Evaluation:
    judgements = (
        self._gold.splits.test if split == self._config.data.test_split
        else self._gold.prepared.judgements(split)
    )
    return rankings.Evaluation(
        self._config.evaluation, self._gold, judgements
    )

  def _identity_of(self, model: loading.Model, split: str) -> dict[str, Any]:
    settings = settings_of_rooms.encoding(self._config)
    return evaluations.dense_identity(
        self._gold, self._config.evaluation, split,
        embedder_lib.identity(settings, self._gold, model),
        settings_of_rooms.search(self._config),
    )

  def _search(
      self, model: loading.Model, query_rows: np.ndarray
  ) -> searched_lib.Searched:
    return searched_lib.search_dense(
        settings_of_rooms.search(self._config), self._gold,
        self._vectors_of(model), self._workdir / retriever_lib.FOLDER,
        query_rows,
    )

  def _vectors_of(self, model: loading.Model) -> embedder_lib.Embedder:
    return embedder_lib.Embedder(
        self._gold, text_encoder.TextEncoder(
            model, settings_of_rooms.encoding(self._config)
        ),
        self._workdir / retriever_lib.FOLDER,
    )
