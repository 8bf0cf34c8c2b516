"""Builds, out of a whole config, what several jobs need of the rooms.

Rooms get sections and plain values; what takes the whole config apart is here.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable

from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import synthetic_pairs
from neg_contrast.jobs import settings_of_rooms
from neg_contrast.mining import given_pool, mined_pool, pool_folder
from neg_contrast.mining import mining_task as task_lib
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import generator as generator_lib
from neg_contrast.models import question_writer
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.retrieval import model_search
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import pair_folder, round_trip
from neg_contrast.stage1 import questions as questions_lib
from neg_contrast.training import encoder_run

MakeDataset = Callable[[], dataset_lib.Dataset]


def negatives(
    config: config_lib.Config,
    workdir: pathlib.Path,
    dataset: MakeDataset,
    max_queries: int = 0,
) -> pool_folder.PoolFolder:
  """The pool of a job: mined as `config.negatives` says, or given.

  Args:
    config: of the job.
    workdir: the pool goes to its folder `pool`.
    dataset: makes the data; not called before a step runs or is looked at.
    max_queries: where there are more, so many of them, drawn at random; 0: all.
  """
  settings = config.negatives
  task = task_lib.Task(
      settings, config.data, config.evaluation, config.model.init,
      config.checkpoint,
      synthetic_pairs.SPLIT if config.synthetic.pairs
      else config.data.train_split,
      dataset, _model_search(config, dataset, settings.depth),
      functools.partial(_miner, config, dataset), max_queries,
  )
  if settings.pool:
    return given_pool.GivenPool(task, pathlib.Path(settings.pool))
  return mined_pool.MinedPool(task, workdir / pool_lib.FOLDER)


def _miner(
    config: config_lib.Config,
    dataset: MakeDataset,
    features: int,
    workdir: pathlib.Path,
) -> encoder_run.DualEncoderTraining:
  """The training of a miner: gold pairs, in-batch negatives, no stage 1."""
  settings = config.negatives
  miner = dataclasses.replace(
      config,
      job='train',
      stage1=None,
      synthetic=config_lib.SyntheticConfig(),
      negatives=config_lib.NegativesConfig(),
      nce=config_lib.NceConfig(),
      model=dataclasses.replace(
          config.model, init=settings.miner_init or config.model.init,
          projection_dim=features,
      ),
      optim=dataclasses.replace(
          config.optim, steps=settings.miner_steps or config.optim.steps,
          epochs=settings.miner_epochs or config.optim.epochs,
      ),
  )
  return encoder_run.DualEncoderTraining(
      settings_of_rooms.training(miner), workdir, lambda: dataset().gold
  )


def questions(
    config: config_lib.Config,
    dataset: MakeDataset,
    generator: Callable[[], generator_lib.Generator],
) -> questions_lib.Questions:
  """The generated questions of a corpus, filtered if the config says so."""
  settings = config.synthetic
  return questions_lib.Questions(
      settings, config.model, config.seed, dataset, generator,
      lambda model: question_writer.QuestionWriter(
          model, config.model, question_writer.settings_of(
              settings, model.text.question_length
          ), settings.batch_passages, config.seed,
      ),
      # One of its own is trained first.
      lambda: None if config.generator is not None
      else model_lib.missing_generator(config.checkpoint),
      round_trip.RoundTrip(
          settings, config.evaluation, dataset,
          _model_search(config, dataset, settings.round_trip_rank),
      ) if settings.round_trip_rank else None,
  )


def pairs(
    config: config_lib.Config,
    dataset: MakeDataset,
    asked: questions_lib.Questions | None = None,
) -> pair_folder.Synthetic:
  """The pairs of stage 1: of generated questions, or of passages alone."""
  return pair_folder.Synthetic(
      config.synthetic, config.data, config.model.init, config.seed, dataset,
      asked,
  )


def _model_search(
    config: config_lib.Config, dataset: MakeDataset, depth: int
) -> model_search.ModelSearch:
  """Searches with models, whose vectors all jobs share that mine or filter."""
  return model_search.ModelSearch(
      dataset, settings_of_rooms.encoding(config),
      dataclasses.replace(settings_of_rooms.search(config), depth=depth),
      config.seed,
      pathlib.Path(config.negatives.mined_dir) / retriever_lib.FOLDER,
  )
