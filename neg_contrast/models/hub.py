"""Models of the Hugging Face hub: kept here, reachable, downloaded.

The library is imported where a name of the hub is met.
"""

import pathlib

from neg_contrast import errors

_FILES = ('*.json', '*.safetensors', '*.txt', '*.model')
_SECONDS = 5.0  # A plan waits no longer.


def cached(name: str) -> pathlib.Path | None:
  """Where an earlier download of a model lies; None: there is none, or a part.

  Args:
    name: of the hub.
  """
  import huggingface_hub

  try:
    folder = pathlib.Path(huggingface_hub.snapshot_download(
        name, allow_patterns=list(_FILES), local_files_only=True
    ))
  except (OSError, ValueError):  # LocalEntryNotFoundError is both.
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
  import huggingface_hub

  try:
    return pathlib.Path(huggingface_hub.snapshot_download(
        name, allow_patterns=list(_FILES)
    ))
  except (OSError, ValueError, huggingface_hub.errors.HfHubHTTPError) as e:
    raise errors.UserError(
        f'{name}: neither a folder here nor a model that could be downloaded '
        f'({type(e).__name__}). Check the name and the connection, or download '
        'it elsewhere and give its folder'
    ) from None


def problem(name: str) -> str | None:
  """Why a model can't be downloaded now; None: the hub has it.

  Waits some seconds for the hub, and downloads nothing.

  Args:
    name: of the hub.
  """
  import huggingface_hub
  from huggingface_hub import errors as hub_errors

  try:
    huggingface_hub.HfApi().model_info(name, timeout=_SECONDS)
  except hub_errors.RepositoryNotFoundError:
    return (f'{name}: neither a folder here nor a model of the hub; check the '
            'name, or log in if it is a private one (hf auth login)')
  except (hub_errors.HFValidationError, ValueError) as e:
    return f'{name}: no name of a model: {str(e).splitlines()[0]:.200}'
  except Exception as e:  # Whatever the libraries of the network raise.
    return (f'{name}: no folder here, and the hub can\'t be reached '
            f'({type(e).__name__}); check the connection, or download it '
            'elsewhere and give its folder')
  return None
