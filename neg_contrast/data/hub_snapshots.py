"""Snapshots of the Hugging Face hub: kept here, or downloaded.

The library is imported where a name of the hub is met.
"""

import pathlib
from collections.abc import Sequence
from typing import Literal

from neg_contrast import errors

Kind = Literal['model', 'dataset']
_IN_WORDS = {'model': 'model', 'dataset': 'data set'}
_SECONDS = 5.0  # A plan waits no longer.


def cached(
    name: str, kind: Kind, patterns: Sequence[str], revision: str | None = None
) -> pathlib.Path | None:
  """The folder of an earlier download; None: there is none, or a part.

  Args:
    name: of the hub.
    kind: of what it names.
    patterns: of the files that are needed.
    revision: None: the newest.
  """
  import huggingface_hub

  try:
    return pathlib.Path(huggingface_hub.snapshot_download(
        name, repo_type=kind, allow_patterns=[*patterns], revision=revision,
        local_files_only=True,
    ))
  except (OSError, ValueError):  # LocalEntryNotFoundError is both.
    return None


def download(
    name: str, kind: Kind, patterns: Sequence[str], revision: str | None = None,
    scheme: str = '',
) -> pathlib.Path:
  """Downloads what is not here yet; other arguments as `cached`.

  Args:
    scheme: stands before the name in a config.

  Raises:
    UserError: it can't be downloaded.
  """
  import huggingface_hub

  try:
    return pathlib.Path(huggingface_hub.snapshot_download(
        name, repo_type=kind, allow_patterns=[*patterns], revision=revision
    ))
  except (OSError, ValueError, huggingface_hub.errors.HfHubHTTPError) as e:
    raise errors.UserError(
        f'{scheme}{name}: neither a folder here nor a {_IN_WORDS[kind]} that '
        f'could be downloaded ({type(e).__name__}). Check the name and the '
        'connection, or download it elsewhere and give its folder'
    ) from None


def problem(name: str, kind: Kind, scheme: str = '') -> str | None:
  """Why it can't be downloaded now; None: the hub has it.

  Waits some seconds for the hub, and downloads nothing.

  Args:
    name: of the hub.
    kind: of what it names.
    scheme: stands before the name in a config.
  """
  import huggingface_hub
  from huggingface_hub import errors as hub_errors

  hub, what = huggingface_hub.HfApi(), _IN_WORDS[kind]
  try:
    ask = hub.model_info if kind == 'model' else hub.dataset_info
    ask(name, timeout=_SECONDS)
  except hub_errors.RepositoryNotFoundError:
    return (f'{scheme}{name}: neither a folder here nor a {what} of the hub; '
            'check the name, or log in if it is a private one (hf auth login)')
  except (hub_errors.HFValidationError, ValueError) as e:
    return (f'{scheme}{name}: no name of a {what}: '
            f'{str(e).splitlines()[0]:.200}')
  except Exception as e:  # Whatever the libraries of the network raise.
    return (f'{scheme}{name}: no folder here, and the hub can\'t be reached '
            f'({type(e).__name__}); check the connection, or download it '
            'elsewhere and give its folder')
  return None
