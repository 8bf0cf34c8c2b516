"""Pairs of a synthetic query and a passage, as data to train on.

A pair is a line of a json file: `query`, `passage_id` and, where only a part of
the passage is meant, `cut`: see `examples.Examples.cuts`; and `home_id`, if the
query was cut from another passage, which is then known to hold it. Queries of
equal text are one query with several positives, so that none is a negative of
another.
"""

import functools
import hashlib
import itertools
import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

import numpy as np
from jaxtyping import Bool, Int

from neg_contrast.artifacts import arrays, folders
from neg_contrast.data import id_table, inputs, preparation, records
from neg_contrast.data import prepared as prepared_lib

SPLIT = 'synthetic'
_CUTS = 'cuts.npy'
_CODE_BYTES = 10  # Of a query's text: two of 10⁸ meet once in 10⁸ data sets.


def write_pair(
    f: TextIO,
    query: str,
    passage_id: str,
    cut: Sequence[int] = inputs.WHOLE,
    home_id: str = '',
) -> None:
  """Appends a pair to a file of pairs."""
  row: dict[str, Any] = {'query': query, 'passage_id': passage_id}
  if tuple(cut) != inputs.WHOLE:
    row['cut'] = list(cut)
  if home_id and home_id != passage_id:
    row['home_id'] = home_id
  f.write(json.dumps(row, ensure_ascii=False) + '\n')


def read_pairs(files: Iterable[pathlib.Path]) -> Iterator[dict[str, Any]]:
  """The lines of files of pairs, in order; with `cut` always."""
  for path in files:
    with open(path, encoding='utf-8', newline='\n') as f:
      for line in f:
        yield {'cut': inputs.WHOLE, **json.loads(line)}


def query_id(text: str) -> str:
  """The id of every query with this text."""
  return f'synthetic-{_code(text).hex()}'


class PairSource:
  """Files of pairs as a `records.Source` without passages.

  Attributes:
    files: as given.
    splits: one, `synthetic`.
  """

  splits = (SPLIT,)

  def __init__(self, files: Sequence[pathlib.Path]):
    """Reads nothing yet."""
    self.files = tuple(files)

  def passages(self) -> Iterator[records.Passage]:
    """None: they are in the corpus already."""
    return iter(())

  def queries(self) -> Iterator[records.Query]:
    """The queries of all pairs, each once: a repeat would be written twice."""
    for pair, is_first in zip(read_pairs(self.files), self._are_first,
                              strict=True):
      if is_first:
        text = pair['query']
        yield records.Query(query_id(text), text,
                            where=str(self.files[0].parent))

  def judgements(self, split: str) -> Iterator[records.Judgement]:
    """A positive for every pair, and its home as one that is only known."""
    assert split == SPLIT
    for pair in read_pairs(self.files):
      name = query_id(pair['query'])
      yield records.Judgement(name, pair['passage_id'], 1)
      if 'home_id' in pair:
        yield records.Judgement(name, pair['home_id'], 1, is_example=False)


  @functools.cached_property
  def _are_first(self) -> Bool[np.ndarray, ' pairs']:
    """Whether the query of each pair is there for the first time.

    The codes are sorted as bytes: 30 of a pair, and no object.
    """
    codes = bytearray()
    for pair in read_pairs(self.files):
      codes += _code(pair['query'])
    first = np.unique(np.frombuffer(codes, f'V{_CODE_BYTES}'),
                      return_index=True)[1]
    are_first = np.zeros(len(codes) // _CODE_BYTES, bool)
    are_first[first] = True
    return are_first


def write(
    base: prepared_lib.Prepared,
    files: Sequence[pathlib.Path],
    folder: pathlib.Path,
    manifest: dict[str, Any],
) -> None:
  """Stores pairs as queries and judgements of a corpus.

  Args:
    base: the corpus.
    files: of pairs.
    folder: a scratch folder, see `artifacts.writing`.
    manifest: gets counts and fingerprints; `fingerprint` covers the cuts.
  """
  preparation.write_queries(base, PairSource(files), folder, manifest)
  cuts = _cuts(base, files, folder)
  if cuts is not None:
    np.save(folder / _CUTS, cuts, allow_pickle=False)
    digest = hashlib.sha256(manifest['fingerprint'].encode() + cuts.tobytes())
    manifest['fingerprint'] = digest.hexdigest()


def _cuts(
    base: prepared_lib.Prepared,
    files: Sequence[pathlib.Path],
    folder: pathlib.Path,
) -> Int[np.ndarray, 'judgements 3'] | None:
  """Of each judgement; of equal pairs the first. None: all are whole."""
  with_cuts = (pair for pair in read_pairs(files)
               if pair['cut'] != inputs.WHOLE)
  first = list(itertools.islice(with_cuts, 1))
  if not first:
    return None
  table = arrays.load_array(
      folder / f'judgements-{SPLIT}.npy', (None, 4), np.int32,
      is_finished=False,
  )
  keys = table[:, 0].astype(np.int64) << 32 | table[:, 1]
  queries = id_table.IdTable(folder / 'queries', is_finished=False)
  cuts = np.tile(np.array(inputs.WHOLE, np.int32), (len(keys), 1))
  is_known = np.zeros(len(keys), bool)
  for pairs in _blocks(itertools.chain(first, with_cuts)):
    wanted = np.array([
        (queries.row_of(query_id(pair['query'])),
         base.passage_ids.row_of(pair['passage_id'])) for pair in pairs
    ], np.int64)
    wanted = wanted[:, 0] << 32 | wanted[:, 1]
    for place, pair in zip(np.searchsorted(keys, wanted), pairs, strict=True):
      if not is_known[place]:
        cuts[place], is_known[place] = pair['cut'], True
  return cuts


def read_cuts(
    prepared: prepared_lib.Prepared,
) -> Int[np.ndarray, 'judgements 3'] | None:
  """`examples.Examples.cuts` of all judgements of the split `synthetic`."""
  if _CUTS not in folders.file_names(prepared.folder):
    return None
  return arrays.load_array(prepared.folder / _CUTS, (None, 3), np.int32)


def _blocks(pairs: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
  while block := list(itertools.islice(pairs, 4096)):
    yield block


def _code(text: str) -> bytes:
  """What stands for a text."""
  return hashlib.sha256(text.encode()).digest()[:_CODE_BYTES]
