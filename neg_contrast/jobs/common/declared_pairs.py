"""Declares the pairs of stage 1 that a config asks for, and who asks."""

import dataclasses
import pathlib

from neg_contrast import errors
from neg_contrast.artifacts import artifact, places
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs.common import declared_judged, settings_of_rooms
from neg_contrast.models import given
from neg_contrast.retrieval import bm25_search, corpus_index, corpus_vectors
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import (
  pair_folder,
  pretext_pairs,
  pretexts,
  question_pairs,
  question_shards,
  round_trip,
  teachers,
)
from neg_contrast.stage1 import questions as questions_lib
from neg_contrast.training import generator_runs


def generator_run(
    config: config_lib.Config, workdir: pathlib.Path
) -> generator_runs.GeneratorRun:
  """The training of a question generator, by a config of its own.

  Args:
    config: of the training.
    workdir: of its checkpoints.
  """
  return generator_runs.GeneratorRun(
      settings_of_rooms.training(config), workdir,
      dataset_lib.data_of(config.data),
      given.GeneratorStart(
          config.model.init, config.seed, config.model,
          with_answer=config.synthetic.with_answer,
      ),
  )


def generator(config: config_lib.Config) -> artifact.Artifact:
  """The generator of a job: trained first, or named by `checkpoint`."""
  own = config.generator
  if own is not None:
    with errors.within('generator'):
      return generator_run(own, places.path(own.workdir))
  is_encoder = config.job == 'train'  # Then its model's keys are of that.
  return given.GeneratorStart(
      config.checkpoint, config.seed,
      config_lib.ModelConfig() if is_encoder else config.model,
      is_trained=True,
  )


def questions(
    config: config_lib.Config,
    data: dataset_lib.Data,
    generator: artifact.Artifact,
) -> question_shards.ShardedQuestions:
  """The generated questions of a corpus, filtered if the config says so.

  Args:
    config: of the job.
    data: the corpus.
    generator: loads as a `Generator`.
  """
  settings = config.synthetic
  written = questions_lib.Questions(
      data, generator, settings, _computed(config.model), config.seed
  )
  rank, checkpoint = settings.round_trip_rank, settings.round_trip_checkpoint
  if not rank:
    return written
  if not checkpoint:
    return round_trip.RoundTrip(
        written, rank, bm25_search.bm25_of(config.evaluation, data)
    )
  return round_trip.RoundTrip(written, rank, _index(config, data), checkpoint)


def _index(
    config: config_lib.Config, data: dataset_lib.Data
) -> corpus_index.CorpusIndex:
  """What a model searches with; all jobs share it that mine or filter."""
  folder = places.path(config.negatives.mined_dir) / retriever_lib.FOLDER
  settings = config.synthetic
  return corpus_index.CorpusIndex(
      corpus_vectors.Embeddings(
          data, settings_of_rooms.encoding(config), folder,
          given.Checkpoint(settings.round_trip_checkpoint, config.seed),
      ),
      dataclasses.replace(
          settings_of_rooms.search(config), depth=settings.round_trip_rank
      ), folder,
  )


def training_data(
    config: config_lib.Config, gold: dataset_lib.Data
) -> artifact.Artifact:
  """What is trained on: gold data, or pairs of stage 1."""
  if not config.synthetic.pairs:
    return gold
  if config.synthetic.pairs == 'generated':
    return pair_folder.GeneratedPairs(
        gold, config.synthetic, questions(config, gold, generator(config))
    )
  index = bm25_search.bm25_of(config.evaluation, gold)
  if config.synthetic.pairs == 'judged':
    asked = None if config.synthetic.queries else questions(
        config, gold, generator(config)
    )
    return declared_judged.pairs(config, gold, index, asked)
  if config.synthetic.pairs == 'spar' and config.synthetic.spar_given:
    return question_pairs.QuestionPairs(
        gold, config.synthetic, config.seed, index
    )
  return pretext_pairs.PretextPairs(
      gold, config.synthetic, config.seed, given.Tokenizer(config.model.init),
      _teacher(config, gold, index),
  )


def _teacher(
    config: config_lib.Config, gold: dataset_lib.Data, index: bm25_search.Bm25
) -> artifact.Artifact | None:
  """What chooses among candidates of a pretext; None: nothing does."""
  settings = config.synthetic
  if pretexts.PRETEXTS[settings.pairs].settle is None:
    return None
  if settings.pairs == 'spar' or settings.salience == 'bm25':
    return teachers.Bm25Teacher(index, settings.teacher_depth)
  if settings.salience == 'title':
    return teachers.TitleTeacher()
  return teachers.ModelTeacher(
      given.Checkpoint(settings.salience_checkpoint, config.seed),
      settings_of_rooms.encoding(config), gold,
  )


def _computed(config: config_lib.ModelConfig) -> config_lib.ModelConfig:
  """What of the keys of a model tells how a generator is computed."""
  return config_lib.ModelConfig(
      dtype=config.dtype, remat=config.remat, scan_unroll=config.scan_unroll
  )
