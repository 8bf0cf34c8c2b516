"""Declares what a reranker gets, and the evaluations of what it makes of that.
"""

import pathlib

from neg_contrast.artifacts import artifact
from neg_contrast.evaluation import first_stage, judged, reranking
from neg_contrast.jobs.common import settings_of_rooms
from neg_contrast.settings import config as config_lib


def candidates(
    config: config_lib.Config, queries: judged.Judged, folder: pathlib.Path
) -> judged.Ranking:
  """What a reranker gets: `candidates`, or what its negatives are mined from.

  Args:
    config: of the job.
    queries: of a split.
    folder: keeps the vectors of a retriever.
  """
  negatives = config.negatives
  names: tuple[str, ...] = (config.candidates,)
  if not config.candidates:
    names = {
        'bm25': ('bm25',),
        'model': (negatives.checkpoint or config.checkpoint,),
        'run': negatives.runs,
    }[negatives.names[0]]
  return first_stage.candidates(
      queries, names, settings_of_rooms.encoding(config),
      settings_of_rooms.search(config), folder, config.seed,
  )


def reranked(
    config: config_lib.Config,
    ranking: judged.Ranking,
    model: artifact.Artifact,
    workdir: pathlib.Path,
) -> tuple[reranking.Candidates, reranking.RerankedEvaluation]:
  """The evaluations of candidates, and of what a model makes of them.

  Args:
    config: of the job.
    ranking: the candidates.
    model: a cross-encoder, or a dual encoder.
    workdir: of the job.
  """
  return reranking.evaluate(
      ranking, model, settings_of_rooms.encoding(config),
      settings_of_rooms.search(config), workdir,
  )
