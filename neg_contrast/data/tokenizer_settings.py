"""tokenizer_config.json, where transformers heeds it beside tokenizer.json."""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import tokenizers

from neg_contrast import errors
from neg_contrast.artifacts import folders

FILE = 'tokenizer_config.json'
# Their classes that take tokenizer.json as it is.
_PLAIN = 'PreTrainedTokenizerFast', 'TokenizersBackend'
# Part of a tokenizer.json, its key, and what overrides it.
_OVERRIDDEN = (
    ('BertNormalizer', 'lowercase', 'do_lower_case'),
    ('BertNormalizer', 'strip_accents', 'strip_accents'),
    ('BertNormalizer', 'handle_chinese_chars', 'tokenize_chinese_chars'),
    ('ByteLevel', 'add_prefix_space', 'add_prefix_space'),
)


def are_others(folder: pathlib.Path, backend: tokenizers.Tokenizer) -> bool:
  """Whether transformers makes another tokenizer of a folder.

  Args:
    folder: of the tokenizer.
    backend: as tokenizer.json alone has it.

  Raises:
    UserError: tokenizer_config.json is broken.
  """
  values = _read(folder)
  if values.get('tokenizer_class', _PLAIN[0]) in _PLAIN:
    return False
  parts = [part for state in (backend.normalizer, backend.pre_tokenizer)
           if state is not None
           for part in _parts(json.loads(state.__getstate__()))]
  return any(
      part.get('type') == kind and key in part
      and values.get(theirs, part[key]) != part[key]
      for part in parts for kind, key, theirs in _OVERRIDDEN
  )


def check(folder: pathlib.Path) -> None:
  """Refuses what changes the inputs of an encoder otherwise.

  Raises:
    UserError: tokenizer_config.json is broken, or has texts cut in front.
  """
  side = _read(folder).get('truncation_side') or 'right'
  if side != 'right':
    raise errors.UserError(
        f'{folder / FILE}: truncation_side "{side}" is not supported; long '
        'texts are cut at their end ("right")'
    )


def _read(folder: pathlib.Path) -> dict[str, Any]:
  path = folder / FILE
  values = folders.read_json(path) if path.exists() else {}
  if not isinstance(values, dict):
    raise errors.UserError(f'{path}: holds no json object; copy or download '
                           'the folder again')
  return values


def _parts(state: dict[str, Any]) -> Iterator[dict[str, Any]]:
  """A part of a tokenizer, and those that it is made of."""
  yield state
  for key in ('normalizers', 'pretokenizers'):
    for part in state.get(key, ()):
      yield from _parts(part)
