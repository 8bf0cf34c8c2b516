"""Snapshots of the Hugging Face hub: kept here, or downloaded.

The library is imported where a name of the hub is met.
"""

import pathlib
from collections.abc import Sequence
from typing import Literal

from neg_contrast import errors

Kind = Literal['model', 'dataset']
_IN_WORDS = {'model': 'model', 'dataset': 'data set'}


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
