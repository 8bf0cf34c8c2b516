"""Writes a trained model for other programs to use."""

import contextlib
import functools
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import safetensors

from neg_contrast import artifacts, errors, plan
from neg_contrast import checkpoints as checkpoints_lib
from neg_contrast import config as config_lib
from neg_contrast.jobs import evaluate
from neg_contrast.models import export, loading, model_card, pretrained

MODEL_FOLDER = 'model'
_FORMAT = 1  # Of the folder.


class ExportJob:
  """`job=export`: any checkpoint as a sentence-transformers folder."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._workdir = config, workdir
    self._folder = workdir / MODEL_FOLDER

  def steps(self) -> list[plan.Step]:
    """The plan.

    Raises:
      UserError: the workdir lies in the checkpoint.
    """
    _check_apart(self._config.checkpoint, self._workdir)
    return [plan.Step(
        'model', f'sentence-transformers folder {self._folder}',
        self._is_written, self._write,
    )]

  def finish(self) -> None:
    """Says how to load it."""
    folders = export.tower_folders(self._model, self._folder).values()
    print('\n' + '\n'.join(
        f"SentenceTransformer('{folder}')" for folder in folders
    ) + f'\n{self._folder / "README.md"} tells the rest')

  @functools.cached_property
  def _model(self) -> loading.Model:
    return evaluate.load_checkpoint(self._config)

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
    manifest = artifacts.read_manifest(folder) if folder.is_dir() else None
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
        'environment': artifacts.environment(),
    }
    with _all_or_nothing(self._folder, manifest) as scratch:
      export.write_model(model, scratch, card)
      manifest['files'] = {
          str(path.relative_to(scratch)): artifacts.sha256_file(path)
          for path in sorted(scratch.rglob('*')) if path.is_file()
      }


@contextlib.contextmanager
def _all_or_nothing(
    folder: pathlib.Path, manifest: dict[str, Any]
) -> Iterator[pathlib.Path]:
  """`artifacts.writing` that leaves nothing behind when it fails.

  Raises:
    UserError: the disk is full, or the like.
  """
  scratch = None
  try:
    with artifacts.writing(folder, manifest) as scratch:
      yield scratch
  except (OSError, safetensors.SafetensorError) as e:
    raise errors.UserError(
        f'{folder}: can\'t be written: {e}. Free some space, or name another '
        '--workdir'
    ) from e
  finally:
    if scratch is not None:
      shutil.rmtree(scratch, ignore_errors=True)


def _check_apart(checkpoint: str, workdir: pathlib.Path) -> None:
  """Refuses to write into a folder whose files are what the model is.

  Raises:
    UserError: the workdir lies in it.
  """
  folder = pathlib.Path(checkpoint)
  if not folder.is_dir() or (folder / loading.ENCODER_FILE).exists():
    return  # A workdir of ours may hold its own export.
  if workdir.resolve().is_relative_to(folder.resolve()):
    raise errors.UserError(
        f'{workdir}: lies in the checkpoint {checkpoint} itself; name another '
        '--workdir'
    )


def _facts(checkpoint: str, model: loading.Model) -> model_card.Facts:
  """What the card may say: what lies in a workdir, or a name."""
  workdir = pathlib.Path(checkpoint)
  if not (workdir / loading.ENCODER_FILE).exists():
    return model_card.Facts(
        name=workdir.resolve().name, source=checkpoint,
        base_model=pretrained.hub_name(checkpoint),
    )
  description = artifacts.read_json(workdir / loading.ENCODER_FILE)
  metrics = workdir / 'metrics.json'
  manifests = map(artifacts.read_manifest,
                  sorted((workdir / 'evaluation').glob('*')))
  return model_card.Facts(
      name=workdir.resolve().name,
      base_model=description.get('base_model'),
      init=description['init'],
      selected=_selected(workdir),
      run=artifacts.read_json(workdir / 'run.json'),
      evaluations=[m for m in manifests if m and 'key' in m],
      metrics=artifacts.read_json(metrics) if metrics.exists() else {},
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
