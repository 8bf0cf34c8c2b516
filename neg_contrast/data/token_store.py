"""Token ids of many texts in flat, memory-mapped files.

A store folder holds, for titles and texts apart, `*_ids.bin` (uint16 while the
vocabulary fits, else uint32) and `*_offsets.bin` (int64, one more than rows).
Nothing is cut and no special token is in it, so that one store serves every
length and prefix.
"""

import contextlib
import itertools
import pathlib
from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Int, Integer

from neg_contrast import artifacts, errors
from neg_contrast.data import tokenizer as tokenizer_lib

_BATCH = 4096
_FIELDS = ('title', 'text')


class TokenStore:
  """Reads a store."""

  def __init__(self, folder: pathlib.Path):
    """Maps the files of a finished store."""
    manifest = artifacts.read_manifest(folder)
    if manifest is None:
      raise errors.UserError(f'{folder}: not a finished token store')
    self._ids = {}
    self._offsets = {}
    for field in _FIELDS:
      self._ids[field] = _map(folder / f'{field}_ids.bin', manifest['dtype'])
      self._offsets[field] = _map(folder / f'{field}_offsets.bin', 'int64')

  def __len__(self) -> int:
    return len(self._offsets['text']) - 1

  def title(self, row: int) -> Integer[np.ndarray, ' tokens']:
    """Token ids of a title; empty where there is none.

    Raises:
      IndexError: there is no such row; -1, which pads pools, is none.
    """
    return self._slice('title', row)

  def text(self, row: int) -> Integer[np.ndarray, ' tokens']:
    """Token ids of a text; raises as `title` does."""
    return self._slice('text', row)

  @property
  def title_lengths(self) -> Int[np.ndarray, ' rows']:
    """`[rows] int64`."""
    return np.diff(self._offsets['title'])

  @property
  def text_lengths(self) -> Int[np.ndarray, ' rows']:
    """`[rows] int64`."""
    return np.diff(self._offsets['text'])

  def _slice(self, field, row):
    offsets = self._offsets[field]
    if not 0 <= row < len(self):
      raise IndexError(f'row {row} of a store of {len(self)} rows')
    return self._ids[field][offsets[row] : offsets[row + 1]]


def make_token_store(
    texts: Iterable[tuple[str, str]],
    tokenizer: tokenizer_lib.AnyTokenizer,
    folder: pathlib.Path,
    fingerprint: str,
) -> TokenStore:
  """Tokenizes (title, text) pairs once; later calls map what is there.

  Of several processes one tokenizes and the others wait.

  Args:
    texts: consumed only if the store is made now.
    tokenizer: the model's.
    folder: of the store.
    fingerprint: of the texts.

  Raises:
    UserError: the folder holds the tokens of other texts or another tokenizer.
  """
  wanted = {'fingerprint': fingerprint, 'tokenizer': tokenizer.sha256}
  if artifacts.read_manifest(folder) is None:
    with artifacts.only_one(folder):
      if artifacts.read_manifest(folder) is None:  # Not made while waiting.
        _make(texts, tokenizer, folder, wanted)
  made = artifacts.read_json(folder / artifacts.MANIFEST)
  for key, value in wanted.items():
    if made[key] != value:
      raise errors.UserError(
          f'{folder}: made for {key} {made[key]}, but {value} is at '
          'hand. Remove the folder to have it made anew'
      )
  return TokenStore(folder)


def _make(texts, tokenizer, folder, wanted) -> None:
  dtype = np.dtype('uint16' if tokenizer.vocab_size <= 2**16 else 'uint32')
  manifest = {**wanted, 'dtype': dtype.name, 'rows': 0}
  with artifacts.writing(folder, manifest) as scratch:
    manifest['rows'] = _write(texts, tokenizer, scratch, dtype)


def _write(texts, tokenizer, folder, dtype) -> int:
  with contextlib.ExitStack() as stack:
    files = {
        f'{field}_{kind}': stack.enter_context(
            open(folder / f'{field}_{kind}.bin', 'wb')
        )
        for field in _FIELDS for kind in ('ids', 'offsets')
    }
    return _write_batches(texts, tokenizer, files, dtype)


def _write_batches(texts, tokenizer, files, dtype) -> int:
  rows = 0
  ends = dict.fromkeys(_FIELDS, 0)
  for field in _FIELDS:
    files[f'{field}_offsets'].write(np.zeros(1, np.int64).tobytes())
  for batch in _batches(texts):
    rows += len(batch)
    for field, values in zip(_FIELDS, zip(*batch, strict=True), strict=True):
      encoded = tokenizer.encode_batch(values)
      lengths = np.array([len(ids) for ids in encoded], np.int64)
      flat = np.fromiter(itertools.chain.from_iterable(encoded), dtype)
      files[f'{field}_ids'].write(flat.tobytes())
      files[f'{field}_offsets'].write(
          (ends[field] + np.cumsum(lengths)).tobytes()
      )
      ends[field] += int(lengths.sum())
  return rows


def _batches(items: Iterable) -> Iterator[list]:
  iterator = iter(items)
  while batch := list(itertools.islice(iterator, _BATCH)):
    yield batch


def _map(path: pathlib.Path, dtype: str) -> np.ndarray:
  if path.stat().st_size == 0:  # An empty file can't be mapped.
    return np.zeros(0, dtype)
  return np.memmap(path, dtype, mode='r')
