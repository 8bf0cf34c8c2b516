"""Uploads exported models to the Hugging Face hub, or to one like it."""

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.models import exported

_MODULES = 'modules.json'
_OWN = (folders.MANIFEST,)  # Says where the model came from on this machine.


def push_to_hub(
    folder: str | os.PathLike[str],
    repo: str,
    *,
    private: bool = False,
    token: str | None = None,
    revision: str | None = None,
    message: str = 'Upload a dense retriever',
    endpoint: str | None = None,
) -> str:
  """Uploads an exported model.

  The repository is made if there is none. Files there that the folder does not
  have stay.

  Args:
    folder: `model` of `configs/export.py`, or what `Training.export` returns.
    repo: `USER/NAME`, or `NAME`.
    private: whether a repository that is made is private.
    token: of the hub; None: that of `hf auth login`, or HF_TOKEN.
    revision: an existing branch; None: the main one.
    message: of the commit.
    endpoint: of another hub; None: HF_ENDPOINT, or https://huggingface.co.

  Returns:
    The address of the commit.

  Raises:
    UserError: the folder is no exported model or was changed, there is no
      token, no network, or the hub refuses; in one line.
  """
  place = pathlib.Path(folder)
  if not any((place / name / _MODULES).is_file()
             for name in ('', 'query', 'passage')):
    raise errors.UserError(
        f'{place}: is no exported model ({_MODULES} is missing); '
        'configs/export.py makes one, and Training.export'
    )
  exported.check(place)
  import huggingface_hub  # Slow to import.

  with _told(repo, place):
    client = huggingface_hub.HfApi(endpoint=endpoint, token=token)
    if token is None and huggingface_hub.get_token() is None:
      raise errors.UserError(
          f'{repo}: the hub asks for a token; run `hf auth login`, set '
          'HF_TOKEN, or give token='
      )
    made = client.create_repo(repo, private=private, exist_ok=True)
    commit = client.upload_folder(
        repo_id=made.repo_id, folder_path=place, commit_message=message,
        revision=revision, ignore_patterns=list(_OWN),
    )
  return str(commit.commit_url)


@contextlib.contextmanager
def _told(repo: str, folder: pathlib.Path) -> Iterator[None]:
  """The errors of the library, each as one line.

  Raises:
    UserError: the block raised one of them.
  """
  from huggingface_hub import errors as hub_errors

  try:
    yield
  except hub_errors.HFValidationError as e:
    raise errors.UserError(f'{repo!r:.80}: no name of a repository: '
                           f'{_line(e)}') from None
  except hub_errors.OfflineModeIsEnabled:
    raise errors.UserError(
        f'{repo}: HF_HUB_OFFLINE is set; unset it to upload {folder}'
    ) from None
  except hub_errors.HfHubHTTPError as e:
    raise errors.UserError(f'{repo}: {_refusal(e)}') from None
  except hub_errors.HTTPError as e:  # No answer came.
    raise errors.UserError(
        f'{repo}: the hub can\'t be reached ({type(e).__name__}: {_line(e)}); '
        f'upload {folder} when there is a network'
    ) from None
  except (RuntimeError, ValueError, OSError) as e:  # Of one of its threads.
    cause = e.__cause__ or e
    raise errors.UserError(
        f'{repo}: the upload of {folder} failed ({type(cause).__name__}: '
        f'{_line(cause)}); the same call uploads what is missing'
    ) from e


_REFUSALS = {
    401: 'the token is not valid; run `hf auth login` again, or give token=',
    403: 'the token may not write there; take one with write access, or a '
         'repository of yours',
    404: 'there is no such repository or branch, or the token may not see it',
    409: 'is there already, as something else',
    429: 'the hub gets too many requests; try again later',
}


def _refusal(e: Any) -> str:
  status = getattr(getattr(e, 'response', None), 'status_code', 0)
  reason = _REFUSALS.get(status)
  if reason is None:
    reason = ('the hub is out of order; try again later'
              if status >= 500 else 'refused')
  told = getattr(e, 'server_message', None) or ''
  return f'{reason} (HTTP {status}{": " if told else ""}{_line(told)})'


def _line(text: Any) -> str:
  """One line, of bounded length, of what others wrote."""
  line = ' '.join(str(text).split())
  shown = ''.join(c if c.isprintable() else ' ' for c in line)
  return shown if len(shown) <= 200 else f'{shown[:200]} ...'
