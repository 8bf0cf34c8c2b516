"""Writes a trained model for other programs to use."""

import dataclasses
import functools
import pathlib
from typing import Any

from neg_contrast.artifacts import arrays, folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.jobs import checks, settings_of_rooms
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import (
  card_facts,
  exported,
  exporting,
  loading,
  model_card,
)
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import (
  embeddings,
  exported_vectors,
  fused_vectors,
  text_encoder,
)
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib

MODEL_FOLDER = 'model'
EMBEDDINGS_FOLDER = 'embeddings'
_FORMAT = 1  # Of the folder.


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
          lambda: exported.is_written(
              self._folder, self._identity, self._model.name
          ), self._write, lambda: model_lib.missing(checkpoint),
      )]
    if self._config.data.source:
      steps += [
          dataset_lib.preparation_step(
              self._config.data, lambda: self._dataset
          ),
          plan.Step(
              'embeddings', f'.npy and ids in {self._embeddings}',
              lambda: embeddings.is_made(
                  self._embeddings, self._vectors_identity
              ),
              self._write_embeddings,
          ),
      ]
    return steps

  def finish(self) -> None:
    """Says how to load it."""
    if self._is_ensemble:
      weights = fused_vectors.read(
          pathlib.Path(self._config.checkpoint)
      ).weights
      for weight, member in zip(
          weights, self._members().values(), strict=True
      ):
        member.finish()
        print(f'weight of its scores: {weight:g}')
    else:
      towers = exporting.tower_folders(self._model, self._folder).values()
      print('\n' + '\n'.join(
          f"SentenceTransformer('{folder}')" for folder in towers
      ) + f'\n{self._folder / "README.md"} tells the rest')
    if self._config.data.source:
      vecs = arrays.map_array(
          self._embeddings / 'passages.npy', (None, None)
      ).values
      print(f'{self._embeddings}: {len(vecs)} passages of {vecs.shape[1]} '
            'features; their ids are in passages.ids.txt, a line each')

  def _members(self) -> dict[str, 'ExportJob']:
    """Of an ensemble, each in a folder of its own."""
    made = fused_vectors.read(pathlib.Path(self._config.checkpoint))
    return {
        pathlib.Path(member).resolve().name: ExportJob(
            dataclasses.replace(
                self._config, checkpoint=member, data=config_lib.DataConfig()
            ), self._workdir / pathlib.Path(member).resolve().name, True,
        ) for member in made.members
    }

  @functools.cached_property
  def _vectors(self) -> fused_vectors.FusedVectors:
    """Of an ensemble."""
    made = fused_vectors.load_vectors(
        settings_of_rooms.encoding(self._config), self._dataset,
        self._config.checkpoint, self._workdir / retriever_lib.FOLDER,
        self._config.seed,
    )
    assert isinstance(made, fused_vectors.FusedVectors)
    return made

  @functools.cached_property
  def _model(self) -> loading.Model:
    config = self._config
    model = (
        model_lib.load_as_it_comes(config.checkpoint, config.seed)
        if self._as_it_comes else model_lib.load_checkpoint(
            config.checkpoint, config.model, config.seed
        )
    )
    return model_lib.check_one_vector(
        model, 'the formats that are written have'
    )

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  @property
  def _identity(self) -> dict[str, Any]:
    return {'format': _FORMAT, 'model': self._model.fingerprint}

  @property
  def _vectors_identity(self) -> dict[str, Any]:
    vectors = (
        self._vectors.search_identity if self._is_ensemble else
        embedder_lib.vectors_identity(
            settings_of_rooms.encoding(self._config), self._dataset, self._model
        )
    )
    return {
        **vectors,
        'queries': self._dataset.prepared.manifest['queries_fingerprint'],
    }

  def _write(self) -> None:
    card = model_card.model_card(
        self._model, card_facts.read(self._config.checkpoint)
    )
    with exported.writing(self._folder, {
        'identity': self._identity,
        'source': self._model.name,
        'environment': folders.environment(),
    }) as scratch:
      exporting.write_model(self._model, scratch, card)

  def _write_embeddings(self) -> None:
    dataset, of = self._dataset, exported_vectors
    if self._is_ensemble:
      source, dim = self._config.checkpoint, self._vectors.encoder.dim
      encode = of.of_ensemble(self._vectors)
    else:
      encoder = text_encoder.TextEncoder(
          self._model, settings_of_rooms.encoding(self._config)
      )
      source, dim = self._model.name, encoder.dim
      encode = of.of_encoder(encoder, dataset)
    of.write(self._embeddings, {
        'identity': self._vectors_identity,
        'source': source,
        'environment': folders.environment(),
    }, dataset.prepared, dim, encode)
