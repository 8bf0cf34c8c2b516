"""Writes a trained model for other programs to use."""

import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import safetensors

from neg_contrast import checkpoints as checkpoints_lib
from neg_contrast import errors, progress
from neg_contrast.artifacts import folders as folders_lib
from neg_contrast.artifacts import plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import evaluations
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import exporting, loading, model_card, pretrained
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import embeddings, fused_vectors
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib

MODEL_FOLDER = 'model'
EMBEDDINGS_FOLDER = 'embeddings'
_FORMAT = 1  # Of the folder.
_ROWS_AT_ONCE = 65536


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
    self._as_it_comes = as_it_comes
    self._folder = workdir / MODEL_FOLDER
    self._embeddings = workdir / EMBEDDINGS_FOLDER

  def steps(self) -> list[plan.Step]:
    """The plan.

    Raises:
      UserError: the workdir lies in the checkpoint.
    """
    if model_lib.is_ensemble(self._config.checkpoint):
      steps = [
          dataclasses.replace(step, name=f'{name}: {step.name}')
          for name, member in self._members().items()
          for step in member.steps()
      ]
    else:
      _check_apart(self._config.checkpoint, self._workdir)
      steps = [plan.Step(
          'model', f'sentence-transformers folder {self._folder}',
          self._is_written, self._write,
          lambda: model_lib.missing(self._config.checkpoint),
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
    if model_lib.is_ensemble(self._config.checkpoint):
      weights = fused_vectors.read(
          pathlib.Path(self._config.checkpoint)
      ).weights
      for weight, member in zip(
          weights, self._members().values(), strict=True
      ):
        member.finish()
        print(f'weight of its scores: {weight:g}')
    else:
      folders = exporting.tower_folders(self._model, self._folder).values()
      print('\n' + '\n'.join(
          f"SentenceTransformer('{folder}')" for folder in folders
      ) + f'\n{self._folder / "README.md"} tells the rest')
    if self._config.data.source:
      vecs = np.load(self._embeddings / 'passages.npy', mmap_mode='r')
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
        self._config, self._dataset, self._config.checkpoint,
        self._workdir / retriever_lib.FOLDER,
    )
    assert isinstance(made, fused_vectors.FusedVectors)
    return made

  @functools.cached_property
  def _model(self) -> loading.Model:
    if self._as_it_comes:
      model = model_lib.load_as_it_comes(
          self._config, self._config.checkpoint
      )
    else:
      model = model_lib.load_checkpoint(self._config)
    return model_lib.check_one_vector(
        model, 'the formats that are written have'
    )

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  @property
  def _vectors_identity(self) -> dict[str, Any]:
    if model_lib.is_ensemble(self._config.checkpoint):
      vectors = self._vectors.search_identity
    else:
      vectors = embedder_lib.vectors_identity(
          self._config, self._dataset, self._model
      )
    return {
        **vectors,
        'queries': self._dataset.prepared.manifest['queries_fingerprint'],
    }

  def _write_embeddings(self) -> None:
    prepared = self._dataset.prepared
    manifest = {
        'identity': self._vectors_identity,
        'source': self._config.checkpoint if model_lib.is_ensemble(
            self._config.checkpoint
        ) else self._model.name,
        'environment': folders_lib.environment(),
    }
    dim, encode = self._encoding()
    with _all_or_nothing(self._embeddings, manifest) as scratch:
      for role, name, ids in (('passage', 'passages', prepared.passage_ids),
                              ('query', 'queries', prepared.query_ids)):
        if not len(ids):
          continue
        embeddings.write_ids(scratch / f'{name}.ids.txt', ids)
        embeddings.write_vectors(scratch / f'{name}.npy', (len(ids), dim),
                                 functools.partial(encode, role))

  def _encoding(self) -> tuple[int, Callable[..., None]]:
    """Features, and what fills `out` with the vectors of a role."""
    if model_lib.is_ensemble(self._config.checkpoint):
      return self._vectors.dim, self._copy
    encoder = embedder_lib.make_encoder(self._config, self._model)

    def encode(role: str, out: np.ndarray) -> None:
      encoder.encode(
          role, self._dataset.tokenize(self._model, role), out=out,
          on_progress=progress.Ticker(f'encoding {role} texts', len(out)),
      )

    return encoder.dim, encode

  def _copy(self, role: str, out: np.ndarray) -> None:
    """Vectors of an ensemble; weights are on the queries."""
    for begin in range(0, len(out), _ROWS_AT_ONCE):
      at = slice(begin, min(begin + _ROWS_AT_ONCE, len(out)))
      out[at] = (
          self._vectors.passage_vecs[at] if role == 'passage' else
          self._vectors.query_vecs(np.arange(at.start, at.stop))
      )

  @property
  def _identity(self) -> dict[str, Any]:
    return {'format': _FORMAT, 'model': self._model.fingerprint}

  def _is_written(self) -> bool:
    """Whether the folder holds this model, whole.

    Raises:
      UserError: it holds something else, which is not ours to replace.
    """
    folder = self._folder
    remedy = 'Name another --workdir, or move it away'
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
      return False
    manifest = folders_lib.read_manifest(folder) if folder.is_dir() else None
    if not isinstance(manifest, dict) or 'files' not in manifest:
      raise errors.UserError(
          f'{folder}: is there already and is no export of ours. {remedy}'
      )
    if manifest['identity'] != self._identity:
      raise errors.UserError(
          f'{folder}: holds another model, {manifest["source"]}, and not '
          f'{self._model.name}. {remedy}'
      )
    return all((folder / name).is_file() for name in manifest['files'])

  def _write(self) -> None:
    model = self._model
    card = model_card.model_card(model, _facts(self._config.checkpoint, model))
    manifest = {
        'identity': self._identity,
        'source': model.name,
        'environment': folders_lib.environment(),
    }
    with _all_or_nothing(self._folder, manifest) as scratch:
      exporting.write_model(model, scratch, card)
      manifest['files'] = {
          str(path.relative_to(scratch)): folders_lib.sha256_file(path)
          for path in sorted(scratch.rglob('*')) if path.is_file()
      }


@contextlib.contextmanager
def _all_or_nothing(
    folder: pathlib.Path, manifest: dict[str, Any]
) -> Iterator[pathlib.Path]:
  """`artifacts.writing`, where libraries say in their own way what fails.

  Raises:
    UserError: the disk is full, or the like.
  """
  try:
    with folders_lib.writing(folder, manifest) as scratch:
      yield scratch
  except (OSError, safetensors.SafetensorError) as e:
    raise errors.UserError(
        f'{folder}: can\'t be written: {e}. Free some space, or name another '
        '--workdir'
    ) from e


def _check_apart(checkpoint: str, workdir: pathlib.Path) -> None:
  """Refuses to write into a folder whose files are what the model is.

  Raises:
    UserError: the workdir lies in it.
  """
  folder = pathlib.Path(checkpoint)
  if not folder.is_dir() or model_lib.is_workdir(checkpoint):
    return  # A workdir of ours may hold its own export.
  if workdir.resolve().is_relative_to(folder.resolve()):
    raise errors.UserError(
        f'{workdir}: lies in the checkpoint {checkpoint} itself; name another '
        '--workdir'
    )


def _facts(checkpoint: str, model: loading.Model) -> model_card.Facts:
  """What the card may say: what lies in a workdir, or a name."""
  workdir = pathlib.Path(checkpoint)
  if not model_lib.is_workdir(checkpoint):
    return model_card.Facts(
        name=workdir.resolve().name, source=checkpoint,
        base_model=pretrained.hub_name(checkpoint),
    )
  description = folders_lib.read_json(workdir / loading.ENCODER_FILE)
  manifests = [
      manifest for folder in sorted((workdir / 'evaluation').glob('*'))
      if (manifest := evaluations.read_manifest(folder)) and 'key' in manifest
  ]
  return model_card.Facts(
      name=workdir.resolve().name,
      base_model=description.get('base_model'),
      init=description['init'],
      selected=_selected(workdir),
      run=folders_lib.read_json(workdir / 'run.json'),
      evaluations=manifests,
      metrics={f'{manifest["key"]}/{name}': value for manifest in manifests
               for name, value in manifest['metrics'].items()},
  )


def _selected(workdir: pathlib.Path) -> str:
  """A sentence on how the checkpoint was chosen."""
  checkpoints = checkpoints_lib.Checkpoints(workdir)
  step = checkpoints.selected_step()
  latest = checkpoints.latest_step()
  progress = checkpoints.progress(step if latest is None else latest)
  checkpoints.close()
  ending = '' if progress.finished else ', of a run that had not ended'
  if progress.best_step < 0:
    return f'The weights are those after step {step}, the last saved{ending}.'
  return (f'The weights are those after step {step}, the best on the tune '
          f'split (accuracy@1 {progress.best_value:.4f}){ending}.')
