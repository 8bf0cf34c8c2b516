"""Trains a reranker and shows what it makes of a retriever's candidates."""

import functools
import pathlib

from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import reranking, summary
from neg_contrast.mining import mined_negatives as negatives_lib
from neg_contrast.models import by_name as model_lib
from neg_contrast.report import workdir_report
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.training import reranker_run, run


class TrainRerankerJob:
  """`job=train_reranker`: negatives of a retriever in, a cross-encoder out."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir
    dataset = lambda: self._dataset
    self._negatives = negatives_lib.Negatives(config, workdir, dataset)
    # Where mining leaves the vectors of its retriever.
    folder = pathlib.Path(config.negatives.mined_dir) / retriever_lib.FOLDER
    candidates = reranking.Candidates(config, dataset, folder)
    self._training = reranker_run.RerankerTraining(
        run.settings_for(config), workdir, dataset, self._negatives, candidates
    )
    self._reranking = reranking.Reranking(
        config, workdir, dataset, lambda: self._dataset.splits.test,
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
    folders.write_json(self._workdir / folders.MANIFEST, {
        'config': config_lib.to_dict(self._config),
        'identity': self._training.identity,
        'environment': folders.environment(),
        'metrics': values,
    })
    workdir_report.write_report(
        self._workdir, self._config, self._dataset, negatives=self._negatives
    )

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)
