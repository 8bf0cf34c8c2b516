"""Token ids of many texts in flat, memory-mapped files.

A store folder holds, for titles, texts and the contexts of mentions apart,
`*_ids.bin` (uint16 while the vocabulary fits, else uint32) and `*_offsets.bin`
(int64, one more than rows).
Nothing is cut and no special token is in it, so that one store serves every
length, prefix and marker; `tokenized.store_of` says which prefixes need their
own.
"""

import contextlib
import dataclasses
import itertools
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from neg_contrast import errors, hosts, workers
from neg_contrast.artifacts import arrays, folders, places, ranged_file
from neg_contrast.data import beam_tokens, sequences, token_bytes
from neg_contrast.data import tokenizer as tokenizer_lib

FORMAT = folders.Format('a token store', 1)
_BATCH = 1024
_BATCHES_ALONE = 20  # Some seconds, as workers take to start.
_FIELDS = ('title', 'text')
_CONTEXTS = ('left', 'right')


@dataclasses.dataclass(frozen=True)
class TokenStore:
  """Token ids of texts.

  Attributes:
    titles: those of the titles; empty where there is none.
    texts: those of the texts.
    contexts: those of what stands left and right of mentions, whose own words
      are the texts; None: they are no mentions.
  """

  titles: sequences.Sequences
  texts: sequences.Sequences
  contexts: tuple[sequences.Sequences, sequences.Sequences] | None = None

  def __len__(self) -> int:
    return len(self.texts)


def make_token_store(
    texts: Iterable[tuple[str, ...]],
    tokenizer: tokenizer_lib.AnyTokenizer,
    folder: pathlib.Path,
    fingerprint: str,
    has_contexts: bool = False,
    is_for_part: bool = False,
) -> TokenStore:
  """Tokenizes (title, text) pairs once; later calls map what is there.

  Of several processes one tokenizes and the others wait.

  Args:
    texts: consumed only if the store is made now.
    tokenizer: the model's.
    folder: of the store.
    fingerprint: of the texts.
    has_contexts: they are (title, text, left, right).
    is_for_part: ids of few rows will be read: of a store in a bucket, they come
      in ranges, and no file of all ids is fetched.

  Raises:
    UserError: the folder holds the tokens of other texts or another tokenizer.
  """
  wanted = {'fingerprint': fingerprint, 'tokenizer': tokenizer.sha256}
  fields = _FIELDS + (_CONTEXTS if has_contexts else ())
  made = folders.read_manifest(folder, FORMAT)
  if made is None:
    with folders.only_one(folder):
      made = folders.read_manifest(folder, FORMAT)
      if made is None:  # Not made while waiting.
        made = _make(texts, tokenizer, folder, wanted, fields)
  for key, value in wanted.items():
    if made[key] != value:
      raise errors.UserError(
          f'{folder}: made for {key} {made[key]}, but {value} is at '
          'hand. Remove the folder; the same command makes it again'
      )
  title, text, *contexts = (_read(folder, field, made['dtype'], is_for_part)
                            for field in fields)
  return TokenStore(title, text,
                    (contexts[0], contexts[1]) if contexts else None)


def _make(texts, tokenizer, folder, wanted, fields) -> dict[str, Any]:
  dtype = np.dtype('uint16' if tokenizer.vocab_size <= 2**16 else 'uint32')
  manifest = {**wanted, 'dtype': dtype.name, 'rows': 0}
  with folders.writing(folder, manifest, format=FORMAT) as scratch:
    manifest['rows'] = _write(texts, tokenizer, scratch, dtype, fields)
  return manifest


def _write(texts, tokenizer, folder, dtype, fields) -> int:
  if beam_tokens.can_write(texts):
    return beam_tokens.write(
        texts, token_bytes.Encoder(tokenizer, dtype), folder, fields
    )
  with contextlib.ExitStack() as stack:
    files = {
        f'{field}_{kind}': stack.enter_context(
            open(folder / f'{field}_{kind}.bin', 'wb')
        )
        for field in fields for kind in ('ids', 'offsets')
    }
    return _write_batches(texts, tokenizer, files, dtype, fields)


def _write_batches(texts, tokenizer, files, dtype, fields) -> int:
  rows = 0
  ends = dict.fromkeys(fields, 0)
  for field in fields:
    files[f'{field}_offsets'].write(np.zeros(1, np.int64).tobytes())
  for batch in workers.in_order(
      token_bytes.Encoder(tokenizer, dtype), _batches(texts),
      hosts.usable_cores(), _BATCHES_ALONE,
  ):
    for field, (ids, lengths) in zip(fields, batch, strict=True):
      files[f'{field}_ids'].write(ids)
      offsets = ends[field] + np.cumsum(lengths, dtype=np.int64)
      files[f'{field}_offsets'].write(offsets.tobytes())
      ends[field] = int(offsets[-1])
    rows += len(lengths)
  return rows


def _batches(items: Iterable) -> Iterator[list]:
  iterator = iter(items)
  while batch := list(itertools.islice(iterator, _BATCH)):
    yield batch


def _read(
    folder: pathlib.Path, field: str, dtype: str, is_for_part: bool
) -> sequences.Sequences:
  offsets = arrays.map_file(folder / f'{field}_offsets.bin').check().view(
      np.int64
  )
  path = folder / f'{field}_ids.bin'
  if is_for_part and places.is_remote(path):
    return sequences.Sequences(
        ranged_file.RangedValues(path, dtype), offsets[:-1], offsets[1:])
  ids = arrays.map_file(path)
  size = np.dtype(dtype).itemsize
  return sequences.Sequences(
      ids.data.view(dtype), offsets[:-1], offsets[1:],
      lambda begins, ends: ids.check_runs(begins * size, ends * size),
  )
