"""Writes a trained model for other programs to use."""

import functools
import pathlib

from neg_contrast.artifacts import artifact, places
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs.common import checks, settings_of_rooms
from neg_contrast.models import adapted, exported, exported_model, given
from neg_contrast.models import by_name as model_lib
from neg_contrast.retrieval import (
  corpus_vectors,
  exported_vectors,
  fused_vectors,
  stores,
  vector_files,
)
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=export`."""
  checks.check_checkpoint(config)
  if config.export.vectors != 'npy' and not config.data.source:
    raise config.error('export.vectors', 'needs a data.source, whose vectors '
                       'they are')
  if config.export.vectors == 'parquet':
    vector_files.import_parquet()


class ExportJob:
  """`job=export`: any checkpoint as a sentence-transformers folder.

  An ensemble becomes a folder for each member, and its embeddings one table.
  """

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir

  def targets(self) -> list[artifact.Artifact]:
    """Folders of the models, and of vectors.

    Raises:
      UserError: the workdir lies in the checkpoint.
    """
    return [*self._models, *self._vectors]

  def finish(self) -> None:
    """Says how to load it."""
    made = self._ensemble
    weights = {} if made is None else dict(
        zip(map(_name, made.members), made.weights, strict=True))
    for model in self._models:
      print(model.usage())
      if model.member in weights and model.folder.name == exported_model.FOLDER:
        print(f'weight of its scores: {weights[model.member]:g}')
    for vectors in self._vectors:
      print(vectors.usage())
      if self._config.export.store:
        self._load(vectors)

  def _load(self, vectors: exported_vectors.ExportedVectors) -> None:
    """Fills the collection of a vector database."""
    export = self._config.export
    store = stores.STORES[export.store](export.store_place)
    is_new = store.load(vectors.shards(), export.store_name)
    print(f'{export.store_place}: {export.store_name} '
          f'{"is loaded" if is_new else "was loaded before, kept"}')

  @functools.cached_property
  def _ensemble(self) -> fused_vectors.Ensemble | None:
    """What is exported, if it is one."""
    checkpoint = self._config.checkpoint
    if not model_lib.is_ensemble(checkpoint):
      return None
    return fused_vectors.read(places.path(checkpoint))

  @functools.cached_property
  def _models(self) -> list[exported_model.ExportedModel]:
    """The model; of an ensemble its members, each in a folder of its own."""
    if self._ensemble is None:
      return _export(self._model, self._workdir)
    return [
        one for member in self._ensemble.members
        for one in _export(given.Checkpoint(member, self._config.seed),
                           self._workdir / _name(member), _name(member))
    ]

  @functools.cached_property
  def _vectors(self) -> list[exported_vectors.ExportedVectors]:
    """Of the corpus, if there is one."""
    config = self._config
    if not config.data.source:
      return []
    data = dataset_lib.data_of(config.data)
    encoding = settings_of_rooms.encoding(config)
    if self._ensemble is None:
      return [exported_vectors.ModelVectors(
          data, self._workdir, config.export, self._model, encoding
      )]
    return [exported_vectors.EnsembleVectors(
        data, self._workdir, config.export, corpus_vectors.EnsembleEmbeddings(
            data, encoding, self._workdir / retriever_lib.FOLDER,
            config.checkpoint, config.seed,
        ),
    )]

  @property
  def _model(self) -> given.Checkpoint:
    config = self._config
    return given.Checkpoint(config.checkpoint, config.seed, config.model)


def _name(member: str) -> str:
  return places.path(member).resolve().name


def _export(
    model: given.Checkpoint, workdir: pathlib.Path, member: str = ''
) -> list[exported_model.ExportedModel]:
  """A model, and its LoRA apart, into a workdir that must not lie in it."""
  if not model_lib.is_workdir(model.checkpoint):  # Ours may hold its export.
    exported.check_apart(model.checkpoint, workdir)
  kinds = [exported_model.ExportedModel]
  if adapted.is_adapted(model.checkpoint):
    kinds.append(exported_model.ExportedAdapter)
  return [kind(model, workdir, member) for kind in kinds]
