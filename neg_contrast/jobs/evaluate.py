"""Evaluates a checkpoint beside BM25 and given runs."""

import collections
import functools
import pathlib

from neg_contrast import errors
from neg_contrast.artifacts import artifact, places
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import (
  evaluations,
  judged,
  metrics,
  runs,
  summary,
)
from neg_contrast.jobs.common import (
  checks,
  declared_systems,
  reporting,
  settings_of_rooms,
)
from neg_contrast.models import by_name as model_lib
from neg_contrast.retrieval import bm25_search, corpus_vectors
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=evaluate`."""
  checks.check_source(config)
  checks.check_checkpoint(config)
  config.evaluation.check_depth()
  if config.evaluation.hybrid:
    raise config.error(
        'evaluation.hybrid', 'is tuned by a training, or by job=ensemble; set '
        'it to False here, and evaluate BM25 and one model together by '
        f'configs/ensemble.py with --{errors.key("ensemble.members")}="'
        f'({config.checkpoint!r},)"'
    )
  if config.evaluation.untouched:
    raise config.error(
        'evaluation.untouched', 'is the model before stage 1 of a training; '
        'set it to False here, and evaluate that model by '
        f'--{errors.key("checkpoint")}=NAME in a workdir of its own'
    )


class EvaluateJob:
  """`job=evaluate`: any checkpoint, any source, beside BM25 and given runs."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir
    self._data = dataset_lib.data_of(config.data)

  def targets(self) -> list[artifact.Artifact]:
    """Evaluations of all systems.

    Raises:
      UserError: two systems have the same name, or a metric is not known.
    """
    config = self._config
    metrics.check_names(config.evaluation.metrics)
    queries = judged.Judged(self._data, config.data.split, config.evaluation)
    system = (
        'fusion_embedding' if model_lib.is_ensemble(config.checkpoint) else
        'trained' if model_lib.is_workdir(config.checkpoint) else 'initial'
    )
    bm25 = bm25_search.bm25_of(config.evaluation, self._data)
    paths = list(map(places.path, config.evaluation.runs))
    rankings = [
        *[judged.Bm25Ranking(queries, 'bm25', bm25)] * config.evaluation.bm25,
        *(judged.RunRanking(queries, runs.run_name(path), (path,))
          for path in paths),
        judged.DenseRanking(
            queries, system, self._vectors, settings_of_rooms.search(config),
            self._workdir / retriever_lib.FOLDER,
        ),
        *self._narrow(queries, system),
    ]
    names = collections.Counter(ranking.system for ranking in rankings)
    name, count = names.most_common(1)[0]
    if count > 1:
      raise errors.SettingError(
          'evaluation.runs', config.evaluation.runs, 'there would be two '
          f'systems called {name}, after the name of the file; rename one'
      )
    return [self._data, *(evaluations.Evaluation(ranking, self._workdir)
                          for ranking in rankings)]

  def finish(self) -> None:
    """Writes and prints the numbers, and the report."""
    dataset, vectors = self._data.load(), self._vectors.load()
    summary.gather(self._workdir, dataset)
    reporting.write_report(
        self._workdir, self._config, dataset,
        vectors.encoder.model if isinstance(vectors, embedder_lib.Embedder)
        else None,
    )

  def _narrow(self, queries, system) -> list[judged.DenseRanking]:
    """By the first features of the vectors."""
    config, vectors = self._config, self._vectors
    if not config.evaluation.dims:
      return []
    if not isinstance(vectors, corpus_vectors.Embeddings):
      raise config.error('evaluation.dims', 'is of one model, and '
                         f'{config.checkpoint} is an ensemble; leave it out')
    return declared_systems.narrow(
        config, queries, system, vectors, self._workdir
    )

  @functools.cached_property
  def _vectors(self) -> corpus_vectors.CorpusVectors:
    return settings_of_rooms.vectors(
        self._config, self._data, self._workdir / retriever_lib.FOLDER
    )
