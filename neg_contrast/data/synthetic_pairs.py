"""Pairs of a synthetic query and a passage, as data to train on.

A pair is a line of a json file: `query`, `passage_id` and, where only a part of
the passage is meant, `cut`: see `examples.Examples.cuts`; and `home_id`, if the
query was cut from another passage, which is then known to hold it; and
`is_negative`, if the passage is known not to answer the query. Queries of equal
text are one query with several positives, so that none is a negative of
another.
"""

import hashlib
import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

import numpy as np
from jaxtyping import Int, UInt8

from neg_contrast.artifacts import arrays, folders
from neg_contrast.data import inputs
from neg_contrast.data import prepared as prepared_lib

SPLIT = 'synthetic'
_CUTS = 'cuts.npy'
_ID = 'synthetic-'
CODE_BYTES = 10
"""Of a query's text: two of 10⁸ meet once in 10⁸ data sets."""


def write_pair(
    f: TextIO,
    query: str,
    passage_id: str,
    cut: Sequence[int] = inputs.WHOLE,
    home_id: str = '',
    is_negative: bool = False,
) -> None:
  """Appends a pair to a file of pairs."""
  row: dict[str, Any] = {'query': query, 'passage_id': passage_id}
  if tuple(cut) != inputs.WHOLE:
    row['cut'] = list(cut)
  if home_id and home_id != passage_id:
    row['home_id'] = home_id
  if is_negative:
    row['is_negative'] = True
  f.write(json.dumps(row, ensure_ascii=False) + '\n')


def read_pairs(files: Iterable[pathlib.Path]) -> Iterator[dict[str, Any]]:
  """The lines of files of pairs, in order; with `cut` always."""
  for path in files:
    with open(path, encoding='utf-8', newline='\n') as f:
      for line in f:
        yield {'cut': inputs.WHOLE, **json.loads(line)}


def query_id(text: str) -> str:
  """The id of every query with this text."""
  return f'{_ID}{code(text).hex()}'


def ids_of(
    codes: UInt8[np.ndarray, 'queries 10']
) -> UInt8[np.ndarray, 'queries length']:
  """The bytes of `query_id`, from what `code` made of the texts."""
  digits = np.frombuffer(b'0123456789abcdef', np.uint8)
  prefix = np.frombuffer(_ID.encode(), np.uint8)
  ids = np.empty((len(codes), len(prefix) + 2 * CODE_BYTES), np.uint8)
  ids[:, : len(prefix)] = prefix
  ids[:, len(prefix) :: 2] = digits[codes >> 4]
  ids[:, len(prefix) + 1 :: 2] = digits[codes & 15]
  return ids


def code(text: str) -> bytes:
  """What stands for the text of a query."""
  return hashlib.sha256(text.encode()).digest()[:CODE_BYTES]


def write_cuts(
    folder: pathlib.Path, cuts: Int[np.ndarray, 'judgements 3']
) -> None:
  """Keeps what `read_cuts` reads."""
  np.save(folder / _CUTS, cuts, allow_pickle=False)


def read_cuts(
    prepared: prepared_lib.Prepared,
) -> Int[np.ndarray, 'judgements 3'] | None:
  """`examples.Examples.cuts` of all judgements of the split `synthetic`."""
  if _CUTS not in folders.file_names(prepared.folder):
    return None
  return arrays.load_array(prepared.folder / _CUTS, (None, 3), np.int32)
