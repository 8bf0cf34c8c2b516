"""Models of the Hugging Face hub: kept here, reachable, downloaded.

The library is imported where a name of the hub is met.
"""

import pathlib

from neg_contrast.data import hub_snapshots

_FILES = ('*.json', '*.safetensors', '*.txt', '*.model')


def cached(name: str) -> pathlib.Path | None:
  """Where an earlier download of a model lies; None: there is none, or a part.

  Args:
    name: of the hub.
  """
  folder = hub_snapshots.cached(name, 'model', _FILES)
  if folder is None:
    return None
  is_whole = next(folder.rglob('config.json'), None) is not None and (
      next(folder.rglob('*.safetensors'), None) is not None)
  return folder if is_whole else None


def download(name: str) -> pathlib.Path:
  """Downloads a model, unless it is here.

  Args:
    name: of the hub.

  Raises:
    UserError: it can't be downloaded.
  """
  return hub_snapshots.download(name, 'model', _FILES)


def problem(name: str) -> str | None:
  """Why a model can't be downloaded now; None: the hub has it.

  Waits some seconds for the hub, and downloads nothing.

  Args:
    name: of the hub.
  """
  return hub_snapshots.problem(name, 'model')
