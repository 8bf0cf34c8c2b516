"""Models and corpora, opened for Python: encoders, texts, retrievers."""

import os
from collections.abc import Mapping
from typing import Any

from neg_contrast import errors
from neg_contrast.api import job_folders, objects, setting_keys
from neg_contrast.artifacts import places
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import prepared
from neg_contrast.jobs.common import settings_of_rooms
from neg_contrast.models import by_name as model_lib
from neg_contrast.retrieval import fused_vectors, text_encoder
from neg_contrast.retrieval import retriever as retriever_lib

Checkpoint = str | os.PathLike[str]


def load_encoder(
    checkpoint: Checkpoint, **settings: Any
) -> text_encoder.TextEncoder:
  """The encoder of a checkpoint, on all devices.

  Args:
    checkpoint: a trained workdir, a BERT-family or sentence-transformers folder
      or hub name, or `minilm`.
    **settings: config keys with `__` for `.`, as in
      `model__dtype='bfloat16'`; `data__query_prefix` and `data__passage_prefix`
      are the prompts that a data set has in the place of the model's.

  Raises:
    UserError: there is no such model, or a key or its value is wrong.
  """
  config = setting_keys.checked(
      settings, job='export', checkpoint=os.fspath(checkpoint)
  )
  model = model_lib.load_checkpoint(
      config.checkpoint, config.model, config.seed
  )
  prefixes = {key: value for key in ('query_prefix', 'passage_prefix')
              if (value := getattr(config.data, key)) is not None}
  return text_encoder.TextEncoder(
      model, settings_of_rooms.encoding(config)).with_prefixes(prefixes)


def load_corpus(source: str, **settings: Any) -> prepared.Prepared:
  """The passages, queries and judgements of a source; prepared once.

  Args:
    source: `scheme:place`, as `config.data.source`.
    **settings: as for `load_encoder`, such as `data__prepared_dir`.

  Raises:
    UserError: the source is missing or broken, or a setting is wrong.
  """
  config = setting_keys.checked(
      settings, job='split', data__source=str(source)
  )
  return dataset_lib.Dataset(config.data).prepared


def load_retriever(
    checkpoint: Checkpoint,
    source: Any,
    folder: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> retriever_lib.Retriever:
  """A checkpoint that searches the passages of a source.

  The first search encodes the corpus and compiles; the next ones are quick.

  Args:
    checkpoint: as for `load_encoder`, or the workdir of an ensemble.
    source: `scheme:place`, as `config.data.source`; or passages themselves, as
      `train` takes them.
    folder: keeps embeddings and index for the next time, and shares them with
      jobs of that `--workdir`; default: memory keeps them.
    **settings: as for `load_encoder`, such as `index__kind='scann'`. How many
      passages come is said to `find`; `evaluation__depth` is how deep an index
      is tuned.

  Raises:
    UserError: model or source are missing or broken, or a setting is wrong.
  """
  _refuse_other_searches(settings)
  place = None if folder is None else places.path(folder).absolute()
  if not isinstance(source, str):
    root = job_folders.folder_or_temporary(place)
    source = objects.write(root / objects.FOLDER, source)
    settings = {**job_folders.settings_of(root), **settings}
  checkpoint = os.fspath(checkpoint)
  config = setting_keys.checked(
      settings, job='search', checkpoint=checkpoint, data__source=source
  )
  dataset = dataset_lib.Dataset(config.data)
  kept = None if place is None else place / retriever_lib.FOLDER
  vectors = fused_vectors.load_vectors(
      settings_of_rooms.encoding(config), dataset, checkpoint, kept,
      config.seed,
  )
  return retriever_lib.Retriever(
      settings_of_rooms.search(config), dataset, vectors, kept
  )


def _refuse_other_searches(settings: Mapping[str, Any]) -> None:
  """Refuses what only jobs do: a retriever ranks passages by its model."""
  for key, done in (
      ('hybrid', 'job=search and job=serve rank by BM25 and the model '
       'together'),
      ('by_document', 'job=search shows each document once'),
  ):
    if value := settings.get(f'evaluation__{key}'):
      raise errors.SettingError(
          f'evaluation.{key}', value, 'a retriever ranks passages by the model '
          f'alone; leave it out here. {done}'
      )
