"""Ranks candidates anew: a run's, BM25's or a retriever's."""

import functools
import pathlib

from neg_contrast.artifacts import plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import reranking, summary
from neg_contrast.jobs import checks, reporting, settings_of_rooms
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import loading, reranker
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

  def steps(self) -> list[plan.Step]:
    """The plan."""
    config, workdir = self._config, self._workdir
    dataset, split = lambda: self._dataset, config.data.split
    folder = workdir / retriever_lib.FOLDER
    given, again = reranking.Reranking(
        config.data, config.evaluation, settings_of_rooms.encoding(config),
        settings_of_rooms.search(config), workdir, dataset,
        lambda: self._dataset.prepared.judgements(split), split,
        settings_of_rooms.first_stage(config, dataset, folder), self._load,
    ).steps()
    return [
        dataset_lib.preparation_step(config.data, dataset), given,
        plan.Step(again.name, again.makes, again.is_done, again.run,
                  self._missing, share=again.share),
    ]

  def finish(self) -> None:
    """Writes and prints the numbers, and the report."""
    summary.gather(self._workdir, self._dataset)
    reporting.write_report(self._workdir, self._config, self._dataset)

  def _missing(self) -> str | None:
    checkpoint = self._config.checkpoint
    if (pathlib.Path(checkpoint) / reranker.FILE).exists():
      return None
    return model_lib.missing(checkpoint)

  def _load(self) -> reranker.Reranker | loading.Model:
    config = self._config
    load = (model_lib.load_reranker if model_lib.is_reranker(config.checkpoint)
            else model_lib.load_checkpoint)
    return load(config.checkpoint, config.model, config.seed)

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)
