"""Ranks candidates anew: a run's, BM25's or a retriever's."""

import pathlib

from neg_contrast.artifacts import artifact
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import judged, metrics, reranking, summary
from neg_contrast.jobs.common import checks, declared_candidates, reporting
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=rerank`."""
  checks.check_source(config)
  if not config.candidates:
    raise config.error('candidates', 'is needed: "bm25", a TREC run file, or '
                       'the checkpoint of a retriever')
  checks.check_checkpoint(config)
  config.evaluation.check_depth()


class RerankJob:
  """`job=rerank`: any checkpoint ranks `config.candidates` anew."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir
    self._data = dataset_lib.data_of(config.data)

  def targets(self) -> list[artifact.Artifact]:
    """Evaluations of the candidates and of the new ranking.

    Raises:
      UserError: a metric is not known.
    """
    config = self._config
    metrics.check_names(config.evaluation.metrics)
    queries = judged.Judged(self._data, config.data.split, config.evaluation)
    ranking = declared_candidates.candidates(
        config, queries, self._workdir / retriever_lib.FOLDER
    )
    model = reranking.PairModel(config.checkpoint, config.seed, config.model)
    return [self._data, *declared_candidates.reranked(
        config, ranking, model, self._workdir
    )]

  def finish(self) -> None:
    """Writes and prints the numbers, and the report."""
    dataset = self._data.load()
    summary.gather(self._workdir, dataset)
    reporting.write_report(self._workdir, self._config, dataset)
