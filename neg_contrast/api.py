"""Training and retrieval from Python, for notebooks and services.

    from neg_contrast import api

    api.show_progress()
    api.run('quickstart', 'workdirs/quickstart', optim__steps=100)

    encoder = api.load_encoder('workdirs/quickstart')
    query_vecs = encoder.encode_queries(['join two paths'])
    passage_vecs = encoder.encode_passages([('os.path', 'Join two paths.')])
    scores = query_vecs @ passage_vecs.T

    retriever = api.load_retriever('workdirs/quickstart', 'python_docs')
    for found in retriever.find('join two paths', depth=5):
      start, end = found.match
      print(found.score, found.passage.title, found.passage.text[start:end])

The jobs use the same functions.
"""

import logging as standard_logging
import os
import pathlib
import runpy
import sys
from typing import Any

import ml_collections
from absl import logging

from neg_contrast import jobs
from neg_contrast.artifacts import leases, places, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import prepared
from neg_contrast.jobs.common import settings_of_rooms, sweeps
from neg_contrast.models import by_name as model_lib
from neg_contrast.retrieval import fused_vectors, text_encoder
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import config_files

__all__ = ['load_corpus', 'load_encoder', 'load_retriever', 'run',
           'show_progress']


def run(
    config_file: str | os.PathLike[str],
    workdir: str | os.PathLike[str] | None = None,
    sweep: str | None = None,
    **settings: Any,
) -> pathlib.Path:
  """Does what `python -m neg_contrast.main` does: makes what is not made yet.

  Args:
    config_file: as `--config`: a path, or the name of a config that comes with
      the package; an argument after a colon included.
    workdir: as `--workdir`; None: what the config says, or
      `workdirs/<config name>`.
    sweep: as `--sweep`; None: the config runs once.
    **settings: config keys with `__` for `.`, as in `optim__steps=100` or
      `stage1__optim__steps=50`.

  Returns:
    The workdir.

  Raises:
    UserError: there is no such file, a key or its value is wrong, or something
      is missing that the user has to provide.
  """
  name, _, arg = os.fspath(config_file).partition(':')
  path = config_files.find(name)
  keys = _keys(settings)
  config = _set(runpy.run_path(str(path))['get_config'](arg or None), keys)
  folder = places.path(workdir or config.workdir or f'workdirs/{path.stem}')
  job = jobs.make_job(config, folder) if sweep is None else sweeps.make_job(
      sweep, sweeps.Source(str(path), arg, keys), config, folder
  )
  targets = job.targets()
  print(plan.describe(targets), flush=True)
  with leases.program(folder):
    plan.run(targets, is_described=True)
    job.finish()
  return folder


def show_progress() -> None:
  """Prints what jobs log, as the command does: time and message."""
  handler = standard_logging.StreamHandler(sys.stdout)
  handler.setFormatter(standard_logging.Formatter('%(asctime)s  %(message)s',
                                                  '%H:%M:%S'))
  ours = str(pathlib.Path(__file__).parent)
  handler.addFilter(  # Libraries speak up when something is wrong.
      lambda record: record.levelno >= standard_logging.WARNING
      or record.pathname.startswith(ours)
  )
  logger = logging.get_absl_logger()
  logger.handlers, logger.propagate = [handler], False
  logging.set_verbosity(logging.INFO)


def load_encoder(
    checkpoint: str, **settings: Any
) -> text_encoder.TextEncoder:
  """The encoder of a checkpoint, on all devices.

  Args:
    checkpoint: a trained workdir, a BERT-family or sentence-transformers folder
      or hub name, or `minilm`.
    **settings: config keys with `__` for `.`, as in
      `model__dtype='bfloat16'`.

  Raises:
    UserError: there is no such model, or a key or its value is wrong.
  """
  config = _config(settings, job='export', checkpoint=str(checkpoint))
  model = model_lib.load_checkpoint(
      config.checkpoint, config.model, config.seed
  )
  return text_encoder.TextEncoder(model, settings_of_rooms.encoding(config))


def load_corpus(source: str, **settings: Any) -> prepared.Prepared:
  """The passages, queries and judgements of a source; prepared once.

  Args:
    source: `scheme:place`, as `config.data.source`.
    **settings: as for `load_encoder`, such as `data__prepared_dir`.

  Raises:
    UserError: the source is missing or broken, or a setting is wrong.
  """
  config = _config(settings, job='split', data__source=str(source))
  return dataset_lib.Dataset(config.data).prepared


def load_retriever(
    checkpoint: str,
    source: str,
    folder: str | None = None,
    **settings: Any,
) -> retriever_lib.Retriever:
  """A checkpoint that searches the passages of a source.

  The first search encodes the corpus.

  Args:
    checkpoint: as for `load_encoder`, or the workdir of an ensemble.
    source: `scheme:place`, as `config.data.source`.
    folder: keeps embeddings and index for the next time, and shares them with
      jobs of that `--workdir`; default: memory keeps them.
    **settings: as for `load_encoder`, such as `index__kind='scann'`.

  Raises:
    UserError: model or source are missing or broken, or a setting is wrong.
  """
  config = _config(settings, job='search', checkpoint=str(checkpoint),
                   data__source=str(source))
  dataset = dataset_lib.Dataset(config.data)
  place = places.path(folder) / retriever_lib.FOLDER if folder else None
  vectors = fused_vectors.load_vectors(
      settings_of_rooms.encoding(config), dataset, str(checkpoint), place,
      config.seed,
  )
  return retriever_lib.Retriever(
      settings_of_rooms.search(config), dataset, vectors, place
  )


def _config(settings: dict[str, Any], **values: Any) -> config_lib.Config:
  config = _set(config_lib.base_config(), _keys({**values, **settings}))
  jobs.check(config)
  return config


def _keys(settings: dict[str, Any]) -> dict[str, Any]:
  """Settings by their keys, paths as text."""
  return {key.replace('__', '.'):
              os.fspath(value) if isinstance(value, os.PathLike) else value
          for key, value in settings.items()}


def _set(
    config: ml_collections.ConfigDict, keys: dict[str, Any]
) -> config_lib.Config:
  for key, value in keys.items():
    config_lib.set_key(config, key, value)
  return config_lib.parse(config)
