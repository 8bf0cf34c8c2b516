"""Passages of a source, prepared by Beam to the bytes of `CorpusWriter`.

    files → pieces → lines counted → records packed, a file each      (read)
          → ids by GroupByKey, sorted, repeats found                    (sort)
          → rows numbered by prefix sums of what stays of each piece
          → shards of rows; equal texts and documents by GroupByKey    (store)

This process then joins what has one order: the fingerprint, a hash of all that
was stored, and the table of ids. It holds 24 bytes a passage, as `CorpusWriter`
does; a worker holds a block of 256 KiB, or a part of the ids or hashes.
"""

import array
import collections
import dataclasses
import hashlib
import itertools
import json
import pathlib
from collections.abc import Iterator, Sequence

import numpy as np

from neg_contrast import beams, errors
from neg_contrast.artifacts import passed_on, places
from neg_contrast.data import (
    beam_tasks,
    corpus_writer,
    id_table,
    packed_files,
    packed_records,
    pieces,
    records,
)

_PART_ROWS = 1 << 18
"""Values that a worker sorts at once, in some 100 MB."""


class BeamCorpusWriter(corpus_writer.CorpusWriter):
  """Writes passages by Beam, and what refers to them as any `CorpusWriter`.

  A source whose passages are no lines of files is read by this process.
  """

  def _write_records(self, kind, fields, read):
    lines = records.in_lines(self._source)
    if kind != 'passages' or lines is None:
      return super()._write_records(kind, fields, read)
    scratch = passed_on.share(self._folder / 'beam')
    rows = self._read(lines, beam_tasks.Scratch(scratch))
    worlds = self._worlds_of[kind] = array.array('i')
    if not rows.begins[-1]:
      places.remove(scratch)
      return _Sorted(self._folder / kind, rows, 0), ''
    rows = self._drop(rows, _sort_ids(rows))
    sorter = _Sorted(self._folder / kind, rows,
                     rows.begins[-1] - len(rows.dropped()))
    sorter.store(fields)
    digest = hashlib.sha256()
    for data in sorter.digested():
      digest.update(data)
    worlds.extend(map(self._worlds.__getitem__, sorter.worlds()))
    return sorter, digest.hexdigest()

  def _read(
      self, lines: records.SourceInLines, scratch: beam_tasks.Scratch
  ) -> beam_tasks.Rows:
    """Reads all pieces; counts what was skipped, and numbers worlds."""
    reader = packed_records.PassageReader(lines, self._invalid)
    whole = pieces.divide(lines.passage_files, pieces.PIECE_BYTES)
    while True:
      beams.run('reading passages',
                [beam_tasks.ReadPieces(reader, scratch, whole)])
      found = [json.loads(scratch.summary(piece).read_text())
               for piece in whole]
      joined, old = pieces.joined(whole, [one['goes_on'] for one in found])
      if len(joined) == len(whole):
        break
      for number in set(range(len(whole))) - set(old):
        scratch.summary(whole[number]).unlink()
        scratch.records(whole[number]).unlink(missing_ok=True)
      whole = joined
    for one in found:
      if one['error']:
        raise errors.UserError(one['error'])
      self._invalid.counts += collections.Counter(one['skipped'])
      for world in one['worlds']:
        self._worlds.setdefault(world, len(self._worlds))
    begins = itertools.accumulate((one['rows'] for one in found), initial=0)
    return beam_tasks.Rows(scratch, whole, list(begins))

  def _drop(
      self, rows: beam_tasks.Rows, repeats: np.ndarray
  ) -> beam_tasks.Rows:
    """Rows without repeats, which are merged or reported.

    Args:
      rows: all that were read.
      repeats: `[2, repeats] int64`: rows, ascending, and 1 or 2.
    """
    if not repeats.shape[1]:
      return rows
    for number, piece in enumerate(rows.pieces):
      begin, end = rows.begins[number], rows.begins[number + 1]
      low, high = np.searchsorted(repeats[0], [begin, end])
      if low == high:
        continue
      kinds = np.zeros(end - begin, np.int8)
      kinds[repeats[0, low:high] - begin] = repeats[1, low:high]
      read = packed_files.read(rows.scratch.records(piece))
      for _ in self._without('passages', read, kinds.tolist()):
        pass
    passed_on.save(rows.dropped_file, repeats[0])
    return dataclasses.replace(rows, has_repeats=True)


def _sort_ids(rows: beam_tasks.Rows) -> np.ndarray:
  """Sorts ids; `[2, repeats] int64`: rows that repeat, ascending, and how."""
  scratch = rows.scratch
  sample = sorted(
      bytes.fromhex(name) for piece in rows.pieces
      for name in json.loads(scratch.summary(piece).read_text())['sample']
  )
  parts = -(-rows.begins[-1] // _PART_ROWS)
  splitters = sorted({sample[len(sample) * part // parts]
                      for part in range(1, parts)})
  beams.run('sorting ids', [beams.Grouped(
      beam_tasks.Values(rows, 'ids', ('id', 'content'),
                        beam_tasks.ByOrder(tuple(splitters))),
      beam_tasks.SortIds(scratch), _numbers(rows),
  )])
  repeats = np.concatenate(
      [np.load(path) for path in _parts(scratch, 'repeats')], axis=1
  )
  return repeats[:, np.argsort(repeats[0])]


@dataclasses.dataclass(frozen=True)
class _Sorted:
  """What is known of the stored rows, as `id_table.IdSorter`.

  Attributes:
    path: of the table of ids.
    rows: of the pieces.
    count: rows that stay.
  """

  path: pathlib.Path
  rows: beam_tasks.Rows
  count: int

  def __len__(self) -> int:
    return self.count

  @property
  def _shards(self) -> range:
    return range(-(-self.count // _shard_rows()))

  def store(self, fields: Sequence[str]) -> None:
    """Stores the rows, finds equal texts and documents, and writes the ids."""
    from neg_contrast.data import tfds_records

    scratch = self.rows.scratch
    self.path.mkdir()
    by_hash = beam_tasks.ByHash(-(-self.count // _PART_ROWS))
    beams.run('storing passages', [
        beams.Each(
            beam_tasks.StoreShard(self.rows, _shard_rows()),
            list(self._shards),
        ),
        *(beams.Grouped(
            beam_tasks.Values(self.rows, kind, (kind,), by_hash),
            beam_tasks.FirstRows(scratch), _numbers(self.rows),
        ) for kind in ('text', 'document')),
    ])
    for shard in self._shards:
      places.bring(scratch.part('rows', shard),
                   tfds_records.place(self.path, shard))
    tfds_records.finish(self.path, fields, [
        tuple(json.loads(scratch.part('shard', shard).read_text()))
        for shard in self._shards
    ])
    self._write_ids()

  def _write_ids(self) -> None:
    scratch = self.rows.scratch
    end = 0
    with (open(self.path.with_suffix('.ids.bin'), 'wb') as ids,
          open(self.path.with_suffix('.ends.bin'), 'wb') as ends):
      for shard in self._shards:
        ids.write(scratch.part('id_bytes', shard).read_bytes())
        lengths = np.load(scratch.part('id_lengths', shard))
        ends.write((end + np.cumsum(lengths, dtype='<i8')).tobytes())
        end += int(lengths.sum())
    id_table.write_ascending(self.path, self._ascending(), self.count)

  def _ascending(self) -> Iterator[tuple[bytes, int]]:
    """Ids in their order, with the rows that they have at last."""
    scratch, dropped = self.rows.scratch, self.rows.dropped()
    for rows, names, lengths in zip(*(
        _parts(scratch, kind) for kind in ('ids', 'names', 'lengths')
    ), strict=True):
      some = np.load(rows)
      some -= np.searchsorted(dropped, some)
      data, begin = names.read_bytes(), 0
      for row, length in zip(some.tolist(), np.load(lengths).tolist(),
                             strict=True):
        yield data[begin : begin + length], row
        begin += length

  def digested(self) -> Iterator[bytes]:
    """What the fingerprint is taken of, in order."""
    for shard in self._shards:
      with open(self.rows.scratch.part('digested', shard), 'rb') as f:
        while data := f.read(1 << 20):
          yield data

  def worlds(self) -> Iterator[str]:
    """The world of each row; none if there are no worlds."""
    for shard in self._shards:
      path = self.rows.scratch.part('worlds', shard)
      if path.exists():
        yield from json.loads(path.read_text())

  def groups(self) -> np.ndarray:
    """`[rows] int32`: the first row with an equal text."""
    return self._firsts('text', np.arange(self.count, dtype=np.int32))

  def documents(self) -> np.ndarray:
    """`[rows] int32`: documents numbered as they come; -1 where unknown."""
    return id_table.numbered(self._firsts(
        'document', np.full(self.count, -1, np.int32)
    ))

  def _firsts(self, kind: str, first: np.ndarray) -> np.ndarray:
    for path in _parts(self.rows.scratch, kind):
      rows, firsts = np.load(path)
      first[rows] = firsts
    return first

  def close(self) -> None:
    """Removes the scratch files."""
    places.remove(self.rows.scratch.folder)


def _numbers(rows: beam_tasks.Rows) -> list[int]:
  """Of the pieces that hold records."""
  return [number for number in range(len(rows.pieces))
          if rows.begins[number] < rows.begins[number + 1]]


def _parts(scratch: beam_tasks.Scratch, kind: str) -> list[pathlib.Path]:
  """The files of a kind, in order."""
  return sorted(path for path in scratch.folder.glob(f'{kind}-*')
                if path.suffix != '.partial')


def _shard_rows() -> int:
  from neg_contrast.data import tfds_records

  return tfds_records.ROWS_PER_SHARD
