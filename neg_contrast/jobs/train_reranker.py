"""Trains a reranker and shows what it makes of a retriever's candidates."""

import functools
import pathlib

from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import reranking, summary
from neg_contrast.jobs import (
  assembly,
  checks,
  negatives_checks,
  reporting,
  settings_of_rooms,
)
from neg_contrast.models import by_name as model_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.training import reranker_run


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=train_reranker`."""
  checks.check_source(config)
  checks.check_no_bias_log(config)
  checks.check_init(config)
  for name in ('pooling', 'projection_dim', 'normalize', 'score'):
    if getattr(config.model, name) is not None:
      raise config.error(f'model.{name}', 'is for dual encoders; leave it out')
  negatives = config.negatives
  if negatives.strategy not in ('mixed', *config_lib.MINED):
    raise config.error('negatives.strategy', 'gives no pool, which a reranker '
                       'is trained on; choose '
                       f'{", ".join(config_lib.MINED)} or mixed')
  if negatives.per_query < 1:
    raise config.error('negatives.per_query', 'must be at least 1')
  if not config.candidates and (
      negatives.pool or negatives.strategy not in ('bm25', 'model', 'run')
  ):
    raise config.error('candidates', 'is needed: what is to be ranked anew is '
                       'known of strategies bm25, model and run only; name '
                       '"bm25", a TREC run file, or the checkpoint of a '
                       'retriever')
  config.evaluation.check_depth()
  negatives_checks.check_mined(config)


class TrainRerankerJob:
  """`job=train_reranker`: negatives of a retriever in, a cross-encoder out."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir
    dataset = lambda: self._dataset
    self._negatives = assembly.negatives(config, workdir, dataset)
    # Where mining leaves the vectors of its retriever.
    folder = pathlib.Path(config.negatives.mined_dir) / retriever_lib.FOLDER
    candidates = settings_of_rooms.first_stage(config, dataset, folder)
    self._training = reranker_run.RerankerTraining(
        settings_of_rooms.training(config), workdir, dataset, self._negatives,
        candidates,
    )
    self._reranking = reranking.Reranking(
        config.data, config.evaluation, settings_of_rooms.encoding(config),
        settings_of_rooms.search(config), workdir, dataset,
        lambda: self._dataset.splits.test,
        config.data.test_split, candidates, lambda: self._training.trained,
    )

  def steps(self) -> list[plan.Step]:
    """The plan."""
    given, reranked = self._reranking.steps()
    return [
        dataset_lib.preparation_step(self._config.data, lambda: self._dataset),
        given,
        *self._negatives.steps(),
        self._training.step('training', lambda: model_lib.missing_reranker(
            self._config.model.init)),
        reranked,
    ]

  def finish(self) -> None:
    """Writes and prints the numbers, and the report."""
    values = summary.gather(self._workdir, self._dataset)
    folders.write_sealed(self._workdir / folders.MANIFEST, {
        'config': config_lib.to_dict(self._config),
        'identity': self._training.identity,
        'environment': folders.environment(),
        'metrics': values,
    })
    reporting.write_report(
        self._workdir, self._config, self._dataset, negatives=self._negatives
    )

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)
