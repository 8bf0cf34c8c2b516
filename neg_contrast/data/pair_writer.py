"""Pairs stored as queries and judgements of a corpus, by all processes.

They do it in three passes, in parts that are kept until all is stored:

1. Files are read: of each pair, ten bytes that stand for its query, and the
   rows of its passages.
2. One process sorts these bytes: equal queries are one row, numbered as they
   first come. No object is kept of a pair, and no set of ids.
3. Files are read again, and each query is written where it comes first.

What is left to the first process is to copy files, to hash them, and to write
the table of ids. The bytes are the same for any number of processes.
"""

import contextlib
import functools
import hashlib
import pathlib
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int, UInt8

from neg_contrast import beams, progress
from neg_contrast.artifacts import folders, kept_parts
from neg_contrast.data import (
  beam_queries,
  fingerprints,
  id_table,
  inputs,
  judgement_writer,
  packed_records,
  pair_files,
  synthetic_pairs,
  tf_examples,
)
from neg_contrast.data import prepared as prepared_lib

_QUERIES = 'queries'  # In the folder.
_FIELDS, _RECORDS = 'fields.bin', 'records'  # In a part.


class PairWriter:
  """Stores the pairs of files, see `synthetic_pairs.py`, over a corpus."""

  def __init__(
      self, base: prepared_lib.Prepared, files: Sequence[pair_files.File],
      parts: pair_files.Parts,
  ):
    """Reads nothing yet.

    Args:
      base: the corpus.
      files: of pairs; their order counts.
      parts: are kept until all is stored.
    """
    self._base, self._parts = base, parts
    self._files = pair_files.PairFiles(base, files, parts)

  def prepare(self) -> int:
    """Does what processes divide, with all that come here.

    Returns:
      How many pairs there are; without any there is nothing to `write`.

    Raises:
      UserError: a file is damaged, a query empty, or a passage not in the
        corpus.
    """
    self._files.read()
    ends = self._files.ends()
    if not ends[-1]:
      return 0
    self._sorted.make(self._sort)
    first = self._sorted.array(0, 'first', (None,), np.int64)
    blocks = self._shards(len(first))
    say = progress.Ticker('writing queries of pairs', len(first))

    def write(
        part: int, scratch: pathlib.Path, manifest: dict[str, Any]
    ) -> None:
      manifest['records'] = self._write_records(
          scratch, first[blocks[part]], ends
      )
      say(blocks[part].stop)

    self._parts('records', len(blocks)).make(write)
    return int(ends[-1])

  def write(self, folder: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Joins the parts.

    Args:
      folder: a scratch folder, see `folders.writing`.
      manifest: gets counts and fingerprints; `fingerprint` covers the cuts.
    """
    codes = self._sorted.array(0, 'codes', (None, None), np.uint8)
    queries = self._join_records(folder, len(codes))
    id_table.write_sorted(
        folder / _QUERIES, synthetic_pairs.ids_of(codes),
        self._sorted.array(0, 'ascending', (len(codes),), np.int32),
    )
    keys = self._sorted.array(0, 'rows', (None,), np.int32).astype(np.int64)
    keys <<= 32
    table = _judgements(self._files, keys)
    unjudged = np.zeros(0, np.int32)
    np.save(folder / f'judgements-{synthetic_pairs.SPLIT}.npy', table)
    np.save(folder / f'unjudged-{synthetic_pairs.SPLIT}.npy', unjudged)
    judged = hashlib.sha256(fingerprints.digested(synthetic_pairs.SPLIT))
    judged.update(table.tobytes())
    base = self._base.manifest
    fingerprint = folders.sha256_json(
        [base['corpus_fingerprint'], queries, judged.hexdigest()]
    )
    cuts = _cuts(self._files, keys, table)
    if cuts is not None:
      synthetic_pairs.write_cuts(folder, cuts)
      fingerprint = hashlib.sha256(
          fingerprint.encode() + cuts.tobytes()
      ).hexdigest()
    manifest |= {
        'spec': base['spec'], 'worlds': [],
        'corpus_fingerprint': base['corpus_fingerprint'],
        'queries_fingerprint': queries, 'fingerprint': fingerprint,
        'mentions': False,
        'counts': {
            'passages': base['counts']['passages'],
            'queries': len(codes),
            'judgements': {synthetic_pairs.SPLIT: len(table)},
            'unjudged': {synthetic_pairs.SPLIT: 0},
            'skipped': {}, 'repeated': 0,
        },
    }

  @property
  def _sorted(self) -> kept_parts.KeptParts:
    return self._parts('queries', 1)

  def _shards(self, queries: int) -> list[slice]:
    """The queries of each shard of records."""
    from neg_contrast.data import tfds_records  # Slow to import.

    return [slice(begin, min(begin + tfds_records.ROWS_PER_SHARD, queries))
            for begin in range(0, queries, tfds_records.ROWS_PER_SHARD)]

  def _sort(
      self, part: int, scratch: pathlib.Path, manifest: dict[str, Any]
  ) -> None:
    """Finds equal queries, see `equal_queries`; takes 60 bytes a pair."""
    del part, manifest
    all_codes = functools.partial(
        self._files.all, 'codes', np.uint8, synthetic_pairs.CODE_BYTES)
    if beams.is_chosen():
      rows, first, ascending = beam_queries.equal_queries(
          self._files.of('codes'), scratch / 'beam'
      )
    else:
      rows, first, ascending = equal_queries(all_codes())
    for name, values in (('rows', rows), ('first', first),
                         ('ascending', ascending),
                         ('codes', all_codes()[first])):
      np.save(scratch / f'{name}.npy', values)

  def _write_records(
      self,
      scratch: pathlib.Path,
      first: Int[np.ndarray, ' queries'],
      ends: Int[np.ndarray, ' files'],
  ) -> tuple[int, int]:
    """Writes a shard of queries, and the bytes that they are hashed as.

    Args:
      scratch: gets both.
      first: numbers of the pairs where these queries come first, ascending.
      ends: of `PairFiles.ends`.

    Returns:
      Number and bytes of the records.
    """
    from neg_contrast.data import tfds_records

    shard = tfds_records.Shard(scratch / _RECORDS)
    with open(scratch / _FIELDS, 'wb') as f, contextlib.closing(shard):
      for text in self._files.texts(first, ends):
        name = synthetic_pairs.query_id(text)
        f.write(fingerprints.digested(name, text))
        shard.write(tf_examples.serialized(
            {'id': name, 'text': text, 'answers': (), 'context': ()}
        ))
    return shard.rows, shard.size

  def _join_records(self, folder: pathlib.Path, queries: int) -> str:
    """Copies the shards of queries; returns their fingerprint."""
    from neg_contrast.data import tfds_records

    parts = self._parts('records', len(self._shards(queries)))
    digest = hashlib.sha256()
    (folder / _QUERIES).mkdir()
    sizes = []
    for part in range(parts.count):
      rows, size = parts.manifest(part)['records']
      sizes.append((rows, size))
      shutil.copyfile(parts.file(part, _RECORDS),
                      tfds_records.place(folder / _QUERIES, part))
      with open(parts.file(part, _FIELDS), 'rb') as f:
        while block := f.read(2**20):
          digest.update(block)
    tfds_records.finish(
        folder / _QUERIES, packed_records.QUERY_FIELDS, sizes
    )
    return digest.hexdigest()


def _judgements(
    files: pair_files.PairFiles, keys: Int[np.ndarray, ' pairs']
) -> Int[np.ndarray, 'judgements 4']:
  """A judgement for every pair, and its home as a positive that is only known.

  Args:
    files: of the pairs.
    keys: `[pairs] int64`, query row · 2³².
  """
  homes = files.all('homes', np.int32)
  has_home = homes >= 0
  pairs = np.concatenate([
      keys | files.all('passages', np.int32),
      keys[has_home] | homes[has_home],
  ])
  grades = np.full(len(pairs), 1 << 1, np.int32)
  grades[: len(keys)] |= 1  # Is trained on.
  is_negative = files.all('is_negative', np.uint8).astype(bool)
  grades[: len(keys)][is_negative] = 0 << 1 | 1
  return judgement_writer.unique(pairs, grades).table


def _cuts(
    files: pair_files.PairFiles,
    keys: Int[np.ndarray, ' pairs'],
    table: Int[np.ndarray, 'judgements 4'],
) -> Int[np.ndarray, 'judgements 3'] | None:
  """Of each judgement; of equal pairs the first. None: all are whole."""
  cut = files.cut_pairs()
  if not len(cut):
    return None
  passages = files.all('passages', np.int32)
  wanted, first = np.unique(keys[cut] | passages[cut], return_index=True)
  cuts = np.tile(np.array(inputs.WHOLE, np.int32), (len(table), 1))
  judged = table[:, 0].astype(np.int64) << 32 | table[:, 1]
  cuts[np.searchsorted(judged, wanted)] = files.all(
      'cuts', np.int32, 3
  )[first]
  return cuts


def equal_queries(
    codes: UInt8[np.ndarray, 'pairs bytes'],
) -> tuple[Int[np.ndarray, ' pairs'], Int[np.ndarray, ' queries'],
           Int[np.ndarray, ' queries']]:
  """Numbers queries as they first come.

  Args:
    codes: `[pairs, 10] uint8`, what stands for the query of each pair.

  Returns:
    `[pairs] int32`, the row of each pair's query; `[queries] int64`, the first
    pair of each query; `[queries] int32`, rows in the order of codes.
  """
  high, low = (
      np.ascontiguousarray(some).view(dtype).ravel().astype(np.uint64)
      for some, dtype in ((codes[:, :8], '>u8'), (codes[:, 8:], '>u2'))
  )
  order = np.lexsort((low, high))  # Equal ones stay in order.
  is_new = np.ones(len(order), bool)
  for half in high, low:
    half[:] = half[order]
  is_new[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
  del high, low
  first = order[is_new]
  by_first = np.argsort(first)
  ascending = np.empty(len(first), np.int32)
  ascending[by_first] = np.arange(len(first), dtype=np.int32)
  rows = np.empty(len(order), np.int32)
  rows[order] = ascending[np.cumsum(is_new) - 1]
  return rows, first[by_first], ascending
