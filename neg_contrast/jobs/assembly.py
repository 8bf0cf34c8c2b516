"""Builds, out of a whole config, what several jobs need of the rooms.

Rooms get sections and plain values; what takes the whole config apart is here.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import synthetic_pairs
from neg_contrast.jobs import settings_of_rooms
from neg_contrast.mining import given_pool, mined_pool, pool_folder
from neg_contrast.mining import task as task_lib
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import generator as generator_lib
from neg_contrast.models import loading, question_writer
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import text_encoder
from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import pairs as pairs_lib
from neg_contrast.stage1 import questions as questions_lib
from neg_contrast.stage1 import round_trip
from neg_contrast.training import encoder_run

MakeDataset = Callable[[], dataset_lib.Dataset]


class ModelSearch:
  """Searches by models as a config says; see `retrieval/model_search.py`."""

  def __init__(
      self, config: config_lib.Config, dataset: MakeDataset, depth: int
  ):
    """Reads nothing yet.

    Args:
      config: of the job.
      dataset: makes the data.
      depth: of the searches, which an index is tuned for.
    """
    self._seed, self._dataset = config.seed, dataset
    self._encoding = settings_of_rooms.encoding(config)
    self._search = dataclasses.replace(
        settings_of_rooms.search(config), depth=depth
    )
    # Shared by all jobs that mine or filter with the same model.
    self._folder = (pathlib.Path(config.negatives.mined_dir)
                    / retriever_lib.FOLDER)

  def load(self, checkpoint: str) -> loading.Model:
    """The model of a checkpoint, with all its own settings."""
    return model_lib.load_as_it_comes(checkpoint, self._seed)

  def embeddings_identity(self, model: loading.Model) -> dict[str, Any]:
    """What the embeddings of the corpus depend on."""
    return embedder_lib.identity(self._encoding, self._dataset(), model)

  def index_identity(self) -> dict[str, Any] | str:
    """Settings of the ScaNN index, or `exact`."""
    return self._search.index_identity(self._dataset().prepared)

  def retriever(
      self, model: loading.Model, among: np.ndarray | None = None
  ) -> retriever_lib.Retriever:
    """A search by a model, among some passages or all."""
    encoder = text_encoder.TextEncoder(model, self._encoding)
    return retriever_lib.Retriever(
        self._search, self._dataset(),
        embedder_lib.Embedder(self._dataset(), encoder, self._folder),
        self._folder, among=among,
    )


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
      dataset, ModelSearch(config, dataset, settings.depth),
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
          ModelSearch(config, dataset, settings.round_trip_rank),
      ) if settings.round_trip_rank else None,
  )


def pairs(
    config: config_lib.Config,
    dataset: MakeDataset,
    asked: questions_lib.Questions | None = None,
) -> pairs_lib.Synthetic:
  """The pairs of stage 1: of generated questions, or of passages alone."""
  return pairs_lib.Synthetic(
      config.synthetic, config.data, config.model.init, config.seed, dataset,
      asked,
  )
