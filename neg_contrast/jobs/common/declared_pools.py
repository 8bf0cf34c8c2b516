"""Declares the pools of hard negatives that a config asks for."""

import dataclasses
import pathlib

from neg_contrast.artifacts import artifact, places
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import synthetic_pairs
from neg_contrast.jobs.common import (
  declared_judges,
  declared_miners,
  settings_of_rooms,
)
from neg_contrast.mining import (
  audited_pool,
  given_pool,
  judged_pool,
  mined_pool,
  pool_folder,
)
from neg_contrast.mining import mining_task as task_lib
from neg_contrast.models import given
from neg_contrast.settings import config as config_lib

_AUDITED = ('model', 'bm25', 'context', 'given')  # All that trains nothing.


def negatives(
    config: config_lib.Config,
    workdir: pathlib.Path,
    data: artifact.Artifact,
    gold: dataset_lib.Data,
    max_queries: int = 0,
) -> pool_folder.PoolFolder:
  """The pool of a job: mined as `config.negatives` says, or given.

  Args:
    config: of the job.
    workdir: the pool goes to its folder `pool`.
    data: whose queries the negatives are for.
    gold: the data with judgements that people made, which miners train on.
    max_queries: where there are more, so many of them, drawn at random; 0: all.
  """
  task = task_of(config, data, gold, max_queries)
  judge = declared_judges.judge_of(config, gold)
  if not config.negatives.pool:
    return mined_pool.MinedPool(task, config.negatives, workdir, judge)
  given = given_pool.GivenPool(task, config.negatives)
  return given if judge is None else judged_pool.JudgedPool(
      task, config.negatives, workdir, given, judge
  )


def audited(
    config: config_lib.Config,
    workdir: pathlib.Path,
    gold: dataset_lib.Data,
    max_queries: int,
) -> audited_pool.AuditedPool:
  """Candidates of all that needs no training, without filters.

  Args:
    config: of the job.
    workdir: the pool goes to its folder `pool`.
    gold: whose queries they are for.
    max_queries: as in `negatives`.
  """
  settings = config.negatives
  config = dataclasses.replace(
      config,
      model=dataclasses.replace(
          config.model, init=config.model.init or config.checkpoint
      ),
      negatives=config_lib.NegativesConfig(
          sources=(f'{"+".join(_AUDITED)}:2',), depth=settings.depth,
          pool_size=settings.depth, drop_answers=(), drop_duplicates=False,
          mined_dir=settings.mined_dir, judge=settings.judge,
          judge_below=1.0, judge_above=1.0,
      ),
  )
  return audited_pool.AuditedPool(
      task_of(config, gold, gold, max_queries), config.negatives, workdir,
      declared_judges.judge_of(config, gold),
  )


def task_of(
    config: config_lib.Config,
    data: artifact.Artifact,
    gold: dataset_lib.Data,
    max_queries: int,
) -> task_lib.Task:
  """All that any strategy reads; arguments are those of `negatives`."""
  settings, evaluation = config.negatives, config.evaluation
  return task_lib.Task(
      data=data,
      split=(synthetic_pairs.SPLIT if config.synthetic.pairs
             else config.data.train_split),
      depth=settings.depth,
      mined_dir=places.path(settings.mined_dir),
      max_queries=max_queries,
      k1=evaluation.bm25_k1,
      b=evaluation.bm25_b,
      answer_rule=evaluation.answer_rule,
      document=config.data.document,
      tokenizer=given.Tokenizer(config.model.init),
      checkpoint=settings.checkpoint or config.checkpoint,
      seed=config.seed,
      runs=settings.runs,
      coarse_dim=settings.coarse_dim,
      fine_dim=settings.fine_dim,
      miners=declared_miners.of(config, gold),
      encoding=settings_of_rooms.encoding(config),
      search=dataclasses.replace(
          settings_of_rooms.search(config), depth=settings.depth
      ),
  )
