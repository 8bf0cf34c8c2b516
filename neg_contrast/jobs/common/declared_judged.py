"""Declares the pseudo-labels that a config asks for; see `judged_pairs.py`."""

from neg_contrast.artifacts import artifact, places
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs.common import checks, declared_judges
from neg_contrast.retrieval import bm25_search
from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import (
  judged_pairs,
  question_shards,
  searched_queries,
)


def check(config: config_lib.Config) -> None:
  """Refuses synthetic pairs without who writes, or judges, them."""
  settings = config.synthetic
  if settings.pairs == 'judged' and not settings.judge:
    raise config.error('synthetic.judge', 'is needed for synthetic.pairs=judged'
                       ': a workdir of configs/judge_reranker.py, or any '
                       'cross-encoder of one label')
  if settings.has_generator:
    checks.check_question_writer(config)
  if settings.pairs:
    checks.check_no_answers(config)


def pairs(
    config: config_lib.Config, gold: dataset_lib.Data,
    index: bm25_search.Bm25,
    questions: question_shards.ShardedQuestions | None,
) -> judged_pairs.JudgedPairs:
  """Pseudo-labels of queries of a file, or of generated ones.

  Args:
    config: of the training.
    gold: the passages, and the tune split that the judge is calibrated on.
    index: searches them.
    questions: the generated ones; None: those of `synthetic.queries`.
  """
  settings = config.synthetic
  judge = declared_judges.judge_of(config, gold, settings.judge)
  assert judge is not None  # The checks saw to that.
  searched = searched_queries.SearchedQueries(
      gold, settings,
      questions or searched_queries.QueryFile(places.path(settings.queries)),
      index,
  )
  return judged_pairs.JudgedPairs(
      gold, settings,
      judged_pairs.PairVerdicts(searched, judge.model, judge.encoding),
      judge.calibration,
  )


def facts(*data: artifact.Artifact) -> dict[str, str]:
  """Counts of what was judged, for a report.

  Args:
    *data: what is trained on, and before that in stage 1.
  """
  for one in data:
    if isinstance(one, judged_pairs.JudgedPairs) and one.is_made():
      return {'pseudo-labels': one.summary()}
  return {}
