"""The parts of a config that rooms get: no room sees the whole."""

import pathlib

from neg_contrast.artifacts import artifact
from neg_contrast.retrieval import (
  corpus_index,
  corpus_vectors,
  search_settings,
)
from neg_contrast.retrieval import encoding as encoding_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import keys
from neg_contrast.training import run_settings


def encoding(config: config_lib.Config) -> encoding_lib.EncodingSettings:
  """How models encode."""
  return encoding_lib.EncodingSettings(
      config.model, config.index, config.mesh, config.data.row_length
  )


def search(config: config_lib.Config) -> search_settings.SearchSettings:
  """How passages are searched, as deep as an evaluation looks."""
  return search_settings.SearchSettings(
      config.index, config.mesh, config.evaluation.depth
  )


def training(config: config_lib.Config) -> run_settings.RunSettings:
  """How a model is trained, and which settings its parameters depend on."""
  return run_settings.select(
      config, keys.counting(config), config_lib.to_dict(config)
  )


def vectors(
    config: config_lib.Config, data: artifact.Artifact, folder: pathlib.Path
) -> corpus_vectors.CorpusVectors:
  """The vectors of a corpus by `config.checkpoint`: a model, or an ensemble.

  Args:
    config: of the job.
    data: corpus and queries.
    folder: keeps the embeddings.
  """
  return corpus_vectors.by_checkpoint(
      data, encoding(config), folder, config.checkpoint, config.seed,
      config.model,
  )


def index(
    config: config_lib.Config, data: artifact.Artifact, workdir: pathlib.Path
) -> corpus_index.CorpusIndex:
  """What `config.checkpoint` searches a corpus with, kept in a workdir."""
  folder = workdir / retriever_lib.FOLDER
  return corpus_index.CorpusIndex(
      vectors(config, data, folder), search(config), folder
  )
