"""The facts of a model card, read from a workdir."""

import pathlib

from neg_contrast.artifacts import checkpoints as checkpoints_lib
from neg_contrast.artifacts import folders, places
from neg_contrast.models import (
  descriptions,
  kinds,
  loading,
  model_card,
  model_names,
)


def make_card(model: loading.Model, checkpoint: str) -> str:
  """The card of a model, with what is known of its checkpoint: see `read`."""
  return model_card.model_card(model, read(checkpoint))


def read(checkpoint: str) -> model_card.Facts:
  """What is known of a model: what lies in its workdir, or its name.

  Args:
    checkpoint: a workdir, or a folder or name of others.

  Raises:
    UserError: a file of the workdir is missing or damaged.
  """
  workdir = places.path(checkpoint)
  if kinds.kind_of(checkpoint) is not kinds.ENCODER:
    return model_card.Facts(
        name=workdir.resolve().name, source=checkpoint,
        base_model=model_names.hub_name(checkpoint),
    )
  description = descriptions.read(workdir / loading.FILE)
  folder = workdir / 'evaluation'
  manifests = [manifest for path in sorted(folder.glob('*'))
               if (manifest := folders.read_manifest(path))
               and 'key' in manifest]
  return model_card.Facts(
      name=workdir.resolve().name,
      base_model=description.get('base_model'),
      init=description['init'],
      selected=_selected(workdir),
      run=folders.read_json(workdir / 'run.json'),
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
          f'split ({progress.criterion} {progress.best_value:.4f}){ending}.')
