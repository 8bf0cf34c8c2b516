"""Declares what the training of a config draws hard negatives from."""

import dataclasses
import pathlib

from neg_contrast.artifacts import artifact, places
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs.common import declared_pools, settings_of_rooms
from neg_contrast.mining import pool_folder
from neg_contrast.negatives import sources, together
from neg_contrast.retrieval import bm25_search
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import source_list


def pool_of_training(
    config: config_lib.Config,
    workdir: pathlib.Path,
    data: artifact.Artifact,
    gold: dataset_lib.Data,
) -> pool_folder.PoolFolder | None:
  """The pool that a training draws from; None: it needs none.

  What is drawn for each example is not in it.

  Args:
    config: of the training.
    workdir: the pool goes to its folder `pool`.
    data: whose queries the negatives are for.
    gold: the data with judgements that people made.
  """
  settings = config.negatives
  if not (settings.pool or settings.pooled):
    return None
  if settings.drawn:
    settings = dataclasses.replace(settings, sources=source_list.without(
        settings.entries, settings.drawn
    ))
  return declared_pools.negatives(
      dataclasses.replace(config, negatives=settings), workdir, data, gold
  )


def drawn_from(
    config: config_lib.Config, data: artifact.Artifact, gold: dataset_lib.Data
) -> tuple[tuple[str, artifact.Artifact], ...]:
  """(role, artifact) of what a training draws from beside data and pool.

  Args:
    config: of the training.
    data: whose queries the negatives are for.
    gold: the data with judgements that people made.
  """
  task = declared_pools.task_of(config, data, gold, 0)
  assert task.tokenizer is not None
  return tuple(sources.needs_of(config.negatives, sources.Asked(
      data, task.split, task.mined_dir, task.document, task.answer_rule,
      task.tokenizer, bm25_search.Bm25(task.data, task.k1, task.b),
      'negatives.sources',
  )).items())


def together_from(
    config: config_lib.Config, data: artifact.Artifact, start: artifact.Artifact
) -> tuple[tuple[str, artifact.Artifact], ...]:
  """(role, artifact) of what `data.together` is made from beside the data.

  Args:
    config: of the training.
    data: that is trained on.
    start: what training starts from.
  """
  return tuple(together.needs_of(together.Asked(
      data, start, settings_of_rooms.encoding(config),
      places.path(config.negatives.mined_dir), config.data,
  )).items())
