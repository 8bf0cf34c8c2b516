"""Shapes that are known by a name: of `random:SIZE`, and of the hub."""

import dataclasses
import pathlib
from typing import Any

from neg_contrast import errors
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.models import families, family, model_names


def shape_by_name(name: str, purpose: family.Purpose) -> Any:
  """The shapes of `random:SIZE`, or of a model of the hub with such a name.

  Args:
    name: of the model; the part before a slash does not count.
    purpose: of the families whose sizes are meant.

  Raises:
    UserError: there is no such size.
  """
  sizes = families.sizes(purpose)
  size = model_names.size_of(name).rpartition('/')[2]
  if size not in sizes:
    raise errors.UserError(
        f'{errors.key("model.init")}="{name}": its shapes are not known here; '
        'name a folder, or one of ' + ', '.join(sizes)
    )
  return sizes[size]


def read(name: str, purpose: family.Purpose) -> tuple[Any, pathlib.Path]:
  """The shapes that a name asks for, with the vocabulary of its tokenizer.

  Args:
    name: `random:SIZE` or `random:SIZE@PLACE`.
    purpose: of the families whose sizes are meant.

  Returns:
    (config, folder of the tokenizer).

  Raises:
    UserError: there is no such size, or no tokenizer in its place.
  """
  sizes = families.sizes(purpose)
  size = model_names.size_of(name)
  if size not in sizes:
    raise errors.UserError(
        f'{errors.key("model.init")}="{name}": there is no size "{size}"; '
        'choose one of ' + ', '.join(sizes)
    )
  folder = model_names.locate(model_names.tokenizer_place(name))
  tokenizer = tokenizer_lib.load_seq2seq_tokenizer(str(folder))
  return dataclasses.replace(
      sizes[size], vocab_size=tokenizer.vocab_size
  ), folder
