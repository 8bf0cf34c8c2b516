"""The parts of a config that rooms get: no room sees the whole."""

import pathlib
from collections.abc import Callable

from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import first_stage as first_stage_lib
from neg_contrast.retrieval import encoding as encoding_lib
from neg_contrast.retrieval import fused_vectors, search_settings
from neg_contrast.retrieval import vectors as vectors_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import keys
from neg_contrast.training import run_settings


def encoding(config: config_lib.Config) -> encoding_lib.EncodingSettings:
  """How models encode."""
  return encoding_lib.EncodingSettings(
      config.model, config.index, config.mesh, config.data.row_length
  )


def first_stage(
    config: config_lib.Config,
    dataset: Callable[[], dataset_lib.Dataset],
    folder: pathlib.Path,
) -> first_stage_lib.Candidates:
  """What a reranker gets: `candidates`, or what its negatives are mined from.

  Args:
    config: of the job.
    dataset: corpus and queries.
    folder: keeps the vectors of a retriever.
  """
  negatives = config.negatives
  names: tuple[str, ...] = (config.candidates,)
  if not config.candidates:
    names = {
        'bm25': ('bm25',),
        'model': (negatives.checkpoint or config.checkpoint,),
        'run': negatives.runs,
    }[negatives.strategy]
  return first_stage_lib.Candidates(
      names, config.evaluation, encoding(config), search(config), config.seed,
      dataset, folder,
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
    config: config_lib.Config,
    dataset: dataset_lib.Dataset,
    folder: pathlib.Path,
    checkpoint: str = '',
) -> vectors_lib.Vectors:
  """The vectors of a dataset by a checkpoint: a model, or an ensemble.

  Args:
    config: of the job.
    dataset: corpus and queries.
    folder: keeps the embeddings.
    checkpoint: its name; default: `config.checkpoint`.
  """
  return fused_vectors.load_vectors(
      encoding(config), dataset, checkpoint or config.checkpoint, folder,
      config.seed,
  )
