"""Models named `random:SIZE` or `random:SIZE@PLACE`: trained from scratch.

And shapes of models that are known by their names.
"""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any, TypeVar

from neg_contrast import errors
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.models import pretrained

_SCHEME = 'random:'
Config = TypeVar('Config')


def is_random(name: str) -> bool:
  """Whether it names random weights."""
  return name.startswith(_SCHEME)


def tokenizer_place(name: str) -> str:
  """Where the tokenizer of `random:SIZE@PLACE` lies; another name unchanged."""
  if not is_random(name):
    return name
  return name.removeprefix(_SCHEME).partition('@')[2] or pretrained.MINILM


def has_folder(name: str) -> bool:
  """Whether a model lies on this machine, or comes with a package."""
  return name == pretrained.MINILM or pathlib.Path(name).is_dir()


def shape_by_name(name: str, sizes: Mapping[str, Config]) -> Config:
  """The shapes of `random:SIZE`, or of a model of the hub with such a name.

  Args:
    name: of the model; the part before a slash does not count.
    sizes: those that there are.

  Raises:
    UserError: there is no such size.
  """
  size = name.removeprefix(_SCHEME).partition('@')[0].rpartition('/')[2]
  if size not in sizes:
    raise errors.UserError(
        f'config.model.init="{name}": its shapes are not known here; name a '
        'folder, or one of ' + ', '.join(sizes)
    )
  return sizes[size]


def read(
    name: str, sizes: Mapping[str, Config]
) -> tuple[Config, pathlib.Path]:
  """The shapes that a name asks for, with the vocabulary of its tokenizer.

  Args:
    name: `random:SIZE` or `random:SIZE@PLACE`.
    sizes: those that there are, dataclasses with `vocab_size`.

  Returns:
    (config, folder of the tokenizer).

  Raises:
    UserError: there is no such size, or no tokenizer in its place.
  """
  size = name.removeprefix(_SCHEME).partition('@')[0]
  if size not in sizes:
    raise errors.UserError(
        f'config.model.init="{name}": there is no size "{size}"; choose one of '
        + ', '.join(sizes)
    )
  folder = pretrained.locate(tokenizer_place(name))
  tokenizer = tokenizer_lib.load_seq2seq_tokenizer(str(folder))
  config: Any = sizes[size]
  return dataclasses.replace(config, vocab_size=tokenizer.vocab_size), folder
