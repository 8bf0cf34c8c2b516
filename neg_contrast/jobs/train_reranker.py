"""Trains a reranker and shows what it makes of a retriever's candidates."""

import functools
import pathlib

from neg_contrast.artifacts import artifact, places
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import calibrated, judged, metrics, summary
from neg_contrast.jobs.common import (
  checks,
  declared_candidates,
  declared_draws,
  negatives_checks,
  reporting,
  settings_of_rooms,
)
from neg_contrast.losses import loss_table
from neg_contrast.mining import pool_folder
from neg_contrast.models import given
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.training import reranker_runs


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=train_reranker`."""
  checks.check_source(config)
  checks.check_init(config)
  for name in ('pooling', 'projection_dim', 'normalize', 'score'):
    if getattr(config.model, name) is not None:
      raise config.error(f'model.{name}', 'is for dual encoders; leave it out')
  negatives = config.negatives
  if negatives.listed != negatives.entries:
    raise config.error('negatives.sources', 'have what a reranker can\'t be '
                       'trained on; choose of '
                       f'{", ".join(config_lib.MINED.names)}')
  if not negatives.listed:
    raise config.error('negatives.sources', 'have no hard negatives, which a '
                       'reranker is trained on; choose of '
                       f'{", ".join(config_lib.MINED.names)}')
  if not config.candidates and (
      negatives.pool or len(negatives.names) > 1
      or negatives.names[0] not in ('bm25', 'model', 'run')
  ):
    raise config.error('candidates', 'is needed: what is to be ranked anew is '
                       'known of sources bm25, model and run only; name '
                       '"bm25", a TREC run file, or the checkpoint of a '
                       'retriever')
  loss_table.make_of_pairs(config.loss)
  if config.loss.distil and not (negatives.judge or negatives.pool):
    raise config.error('loss.distil', 'needs the scores of a judge; set '
                       'negatives.judge, or negatives.pool to a pool that '
                       'job=judge made')
  metrics.check_criterion(config.evaluation.criterion, has_candidates=True)
  config.evaluation.check_depth()
  negatives_checks.check_unfiltered(config)
  negatives_checks.check_judged(config)
  negatives_checks.check_mined(config)
  negatives_checks.check_refreshed(config)


class TrainRerankerJob:
  """`job=train_reranker`: negatives of a retriever in, a cross-encoder out."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir
    self._data = dataset_lib.data_of(config.data)

  def targets(self) -> list[artifact.Artifact]:
    """The training, and evaluations of candidates and of the new ranking.

    Raises:
      UserError: a metric is not known.
    """
    config = self._config
    metrics.check_names(config.evaluation.metrics)
    test = judged.Judged(self._data, config.data.test_split, config.evaluation,
                         is_apart=True)
    before, after = declared_candidates.reranked(
        config, self._candidates(test), self.run, self._workdir
    )
    fitted = [] if self._calibration is None else [self._calibration]
    return [self._data, before, self.run, after, *fitted]

  @functools.cached_property
  def run(self) -> reranker_runs.RerankerRun:
    """The training."""
    config = self._config
    return reranker_runs.RerankerRun(
        settings_of_rooms.training(config), self._workdir, self._data,
        given.RerankerStart(config.model.init, config.seed, config.model),
        pool=self._pool,
        drawn_from=declared_draws.drawn_from(config, self._data, self._data),
        candidates=self._candidates(
            judged.TuneJudged(self._data, config.evaluation)
        ),
    )

  def finish(self) -> None:
    """Writes and prints the numbers, and the report."""
    dataset = self._data.load()
    fitted = None if self._calibration is None else self._calibration.load()
    values = summary.gather(
        self._workdir, dataset,
        others=calibrated.metrics(dataset.name, fitted) if fitted else {},
    )
    reporting.write_manifest(self._workdir, self._config, self.run, values)
    if fitted is not None:
      print(f'\n{calibrated.describe(fitted)}')
    reporting.write_report(
        self._workdir, self._config, dataset, negatives=self._pool,
        calibration=fitted,
    )

  @functools.cached_property
  def _calibration(self) -> calibrated.FittedCalibration | None:
    """Of a training by `bce`, whose scores are to be probabilities."""
    if self._config.loss.kind != 'bce':
      return None
    return calibrated.FittedCalibration(
        self.run, self.run.candidates,
        settings_of_rooms.encoding(self._config), self._workdir,
    )

  def _candidates(self, queries: judged.Judged) -> judged.Ranking:
    """What is ranked anew."""
    # Where mining leaves the vectors of its retriever.
    mined = places.path(self._config.negatives.mined_dir)
    return declared_candidates.candidates(
        self._config, queries, mined / retriever_lib.FOLDER
    )

  @functools.cached_property
  def _pool(self) -> pool_folder.PoolFolder | None:
    return declared_draws.pool_of_training(
        self._config, self._workdir, self._data, self._data
    )
