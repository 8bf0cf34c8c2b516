"""Token ids of many texts in flat, memory-mapped files.

A store folder holds, for titles and texts apart, `*_ids.bin` (uint16 while the
vocabulary fits, else uint32) and `*_offsets.bin` (int64, one more than rows).
Nothing is cut and no special token is in it, so that one store serves every
length and prefix.
"""

import contextlib
import dataclasses
import itertools
import pathlib
from collections.abc import Iterable, Iterator

import numpy as np

from neg_contrast import artifacts, errors
from neg_contrast.data import sequences
from neg_contrast.data import tokenizer as tokenizer_lib

_BATCH = 4096
_FIELDS = ('title', 'text')


@dataclasses.dataclass(frozen=True)
class TokenStore:
  """Token ids of texts.

  Attributes:
    titles: those of the titles; empty where there is none.
    texts: those of the texts.
  """

  titles: sequences.Sequences
  texts: sequences.Sequences

  def __len__(self) -> int:
    return len(self.texts)


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
  return TokenStore(*(_read(folder, field, made['dtype']) for field in _FIELDS))


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


def _read(
    folder: pathlib.Path, field: str, dtype: str
) -> sequences.Sequences:
  offsets = _map(folder / f'{field}_offsets.bin', 'int64')
  return sequences.Sequences(
      _map(folder / f'{field}_ids.bin', dtype), offsets[:-1], offsets[1:]
  )


def _map(path: pathlib.Path, dtype: str) -> np.ndarray:
  if path.stat().st_size == 0:  # An empty file can't be mapped.
    return np.zeros(0, dtype)
  # A plain array of the same memory: slices of a memmap cost far more.
  return np.asarray(np.memmap(path, dtype, mode='r'))
