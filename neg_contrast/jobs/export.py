"""Writes a trained model for other programs to use."""

import dataclasses
import functools
import pathlib
from typing import Any

from neg_contrast.artifacts import plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs import checks, settings_of_rooms
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import card_facts, exported, exporting, loading
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import exported_vectors, fused_vectors, text_encoder
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib

MODEL_FOLDER = 'model'
EMBEDDINGS_FOLDER = 'embeddings'


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=export`."""
  checks.check_checkpoint(config)


class ExportJob:
  """`job=export`: any checkpoint as a sentence-transformers folder.

  An ensemble becomes a folder for each member, and its embeddings one table.
  """

  def __init__(
      self,
      config: config_lib.Config,
      workdir: pathlib.Path,
      as_it_comes: bool = False,
  ):
    """Reads nothing yet.

    Args:
      config: of the job.
      workdir: what is written to.
      as_it_comes: the model brings all its settings, the config none.
    """
    self._config, self._workdir = config, workdir
    self._is_ensemble = model_lib.is_ensemble(config.checkpoint)
    self._as_it_comes = as_it_comes
    self._folder = workdir / MODEL_FOLDER
    self._embeddings = workdir / EMBEDDINGS_FOLDER

  def steps(self) -> list[plan.Step]:
    """The plan.

    Raises:
      UserError: the workdir lies in the checkpoint.
    """
    checkpoint = self._config.checkpoint
    if self._is_ensemble:
      steps = [
          dataclasses.replace(step, name=f'{name}: {step.name}')
          for name, member in self._members().items()
          for step in member.steps()
      ]
    else:
      if not model_lib.is_workdir(checkpoint):  # Ours may hold its export.
        exported.check_apart(checkpoint, self._workdir)
      steps = [plan.Step(
          'model', f'sentence-transformers folder {self._folder}',
          lambda: exporting.is_exported(self._model, self._folder),
          self._write, lambda: model_lib.missing(checkpoint),
      )]
    if (data := self._config.data).source:
      steps += [
          dataset_lib.preparation_step(data, lambda: self._dataset),
          plan.Step('embeddings', f'.npy and ids in {self._embeddings}',
                    self._is_encoded, self._write_embeddings),
      ]
    return steps

  def finish(self) -> None:
    """Says how to load it."""
    if self._is_ensemble:
      made = fused_vectors.read(pathlib.Path(self._config.checkpoint))
      members = self._members().values()
      for weight, member in zip(made.weights, members, strict=True):
        member.finish()
        print(f'weight of its scores: {weight:g}')
    else:
      print(exporting.usage(self._model, self._folder))
    if self._config.data.source:
      print(exported_vectors.describe(self._embeddings))

  def _members(self) -> dict[str, 'ExportJob']:
    """Of an ensemble, each in a folder of its own."""
    made = fused_vectors.read(pathlib.Path(self._config.checkpoint))
    config = dataclasses.replace(self._config, data=config_lib.DataConfig())
    return {name: ExportJob(dataclasses.replace(config, checkpoint=member),
                            self._workdir / name, as_it_comes=True)
            for member in made.members
            for name in [pathlib.Path(member).resolve().name]}

  @functools.cached_property
  def _vectors(self) -> fused_vectors.FusedVectors:
    """Of an ensemble."""
    folder = self._workdir / retriever_lib.FOLDER
    made = settings_of_rooms.vectors(self._config, self._dataset, folder)
    assert isinstance(made, fused_vectors.FusedVectors)
    return made

  @functools.cached_property
  def _model(self) -> loading.Model:
    name, seed = self._config.checkpoint, self._config.seed
    model = (model_lib.load_as_it_comes(name, seed) if self._as_it_comes else
             model_lib.load_checkpoint(name, self._config.model, seed))
    why = 'the formats that are written have'
    return model_lib.check_one_vector(model, why)

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  @property
  def _vectors_identity(self) -> dict[str, Any]:
    encoding = settings_of_rooms.encoding(self._config)
    vectors = (
        self._vectors.search_identity if self._is_ensemble else
        embedder_lib.vectors_identity(encoding, self._dataset, self._model)
    )
    queries = self._dataset.prepared.manifest['queries_fingerprint']
    return {**vectors, 'queries': queries}

  def _is_encoded(self) -> bool:
    return exported_vectors.is_made(self._embeddings, self._vectors_identity)

  def _write(self) -> None:
    card = card_facts.make_card(self._model, self._config.checkpoint)
    exporting.export(self._model, self._folder, card)

  def _write_embeddings(self) -> None:
    if self._is_ensemble:
      name = self._config.checkpoint
      source = exported_vectors.of_ensemble(self._vectors, name)
    else:
      encoding = settings_of_rooms.encoding(self._config)
      source = exported_vectors.of_encoder(
          text_encoder.TextEncoder(self._model, encoding), self._dataset
      )
    exported_vectors.write(self._embeddings, self._vectors_identity,
                           self._dataset.prepared, source)
