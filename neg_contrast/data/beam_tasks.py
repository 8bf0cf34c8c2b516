"""The parts of preparing a corpus by Beam; each is a function of its input.

They share a scratch folder, which all workers see. Each writes files of its own
there, under names that say which part they are of, and does nothing where these
are. What is done to a passage is `packed_records.PassageReader`'s alone.
"""

import bisect
import collections
import dataclasses
import json
import pathlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from neg_contrast import beams, errors
from neg_contrast.artifacts import passed_on
from neg_contrast.data import packed_files, packed_records, pieces
from neg_contrast.data.formats import line_blocks

SAMPLES = 64  # Ids of a piece, by which all ids are divided.


@dataclasses.dataclass(frozen=True)
class Scratch:
  """Names of the files of a corpus that is being prepared."""

  folder: pathlib.Path

  def records(self, piece: pieces.Piece) -> pathlib.Path:
    """The packed records of a piece."""
    return self._of(piece, 'records')

  def summary(self, piece: pieces.Piece) -> pathlib.Path:
    """What is known of them, as json."""
    return self._of(piece, 'json')

  def part(self, kind: str, number: int) -> pathlib.Path:
    """A numbered file of a kind."""
    return self.folder / f'{kind}-{number:06d}'

  def _of(self, piece: pieces.Piece, suffix: str) -> pathlib.Path:
    code = zlib.crc32(str(piece.path).encode())
    return self.folder / f'{code:08x}-{piece.begin}-{piece.end}.{suffix}'


@dataclasses.dataclass(frozen=True)
class ReadPieces:
  """A job that reads pieces: lines are counted first, then records are packed.

  Attributes:
    reader: of passages.
    scratch: gets records and a summary of each piece.
    pieces: all of them; those whose summary is there are not read again.
  """

  reader: packed_records.PassageReader
  scratch: Scratch
  pieces: list[pieces.Piece]

  def __call__(self, pipeline: Any) -> None:
    """Adds the transforms: the counts are a side input of the readers."""
    import apache_beam as beam

    task = _ReadPiece(self.reader, self.scratch, self.pieces)
    numbers = list(range(len(self.pieces)))
    to_count = pipeline | 'files' >> beam.Create(numbers)
    counts = to_count | 'to counters' >> beam.Reshuffle() | (
        'count lines' >> beam.Map(beams.Placed(task.count))
    )
    to_read = pipeline | 'pieces' >> beam.Create([
        number for number in numbers
        if not self.scratch.summary(self.pieces[number]).exists()
    ])
    to_read | 'to readers' >> beam.Reshuffle() | 'read' >> beam.Map(
        beams.Placed(task), beam.pvalue.AsList(counts)
    )


@dataclasses.dataclass(frozen=True)
class _ReadPiece:
  reader: packed_records.PassageReader
  scratch: Scratch
  pieces: list[pieces.Piece]

  def count(self, number: int) -> tuple[int, int]:
    """Counts the lines of a piece."""
    return number, pieces.count_lines(self.pieces[number])

  def __call__(self, number: int, counts: list[tuple[int, int]]) -> None:
    """Reads a piece; `counts` are those of all."""
    firsts = pieces.first_lines(
        self.pieces, [count for _, count in sorted(counts)]
    )
    piece = self.pieces[number]
    found = _Summary()
    try:
      with passed_on.putting(self.scratch.records(piece)) as path:
        packed_files.write(path, found.noting(
            self._read(piece, firsts[number], found)
        ))
    except errors.Unreached:  # Beam does it again.
      raise
    except errors.UserError as e:  # Raised in the order of the pieces.
      found.error = str(e)
    with passed_on.putting(self.scratch.summary(piece)) as path:
      path.write_text(json.dumps(vars(found)))

  def _read(self, piece, first, found):
    unread = b''
    for block in pieces.blocks(piece, first):
      read = self.reader(line_blocks.with_unread(unread, block))
      found.skipped.update(read.skipped)
      unread = read.unread
      yield read.records
    found.goes_on = bool(unread)


@dataclasses.dataclass
class _Summary:
  """What is known of the records of a piece.

  Attributes:
    rows: how many there are.
    skipped: how many can't be used, by kind.
    goes_on: whether the last row goes on in the next piece.
    error: why the piece can't be read; empty: it can.
    worlds: of the records, as they come.
    sample: some ids, as hexadecimal digits.
  """

  rows: int = 0
  skipped: dict[str, int] = dataclasses.field(
      default_factory=collections.Counter)
  goes_on: bool = False
  error: str = ''
  worlds: list[str] = dataclasses.field(default_factory=list)
  sample: list[str] = dataclasses.field(default_factory=list)

  def noting(self, lists):
    """Notes the records that pass through."""
    ids: list[bytes] = []
    step = 1
    for some in lists:
      for record in some:
        if self.rows % step == 0:
          ids.append(record.id)
          if len(ids) == 2 * SAMPLES:  # Every second one stays.
            ids, step = ids[::2], 2 * step
        self.rows += 1
        if record.world and record.world not in self.worlds:
          self.worlds.append(record.world)
      yield some
    self.sample = [name.hex() for name in ids]


@dataclasses.dataclass(frozen=True)
class Rows:
  """The rows of pieces that were read.

  Attributes:
    scratch: holds their records.
    pieces: in order.
    begins: first row of each, and the number of all rows; repeats counted.
    has_repeats: whether rows are dropped, which `dropped` then names.
  """

  scratch: Scratch
  pieces: list[pieces.Piece]
  begins: list[int]
  has_repeats: bool = False

  @property
  def dropped_file(self) -> pathlib.Path:
    """Of the rows that are dropped."""
    return self.scratch.folder / 'dropped.npy'

  def dropped(self) -> np.ndarray:
    """`[dropped] int64`, ascending."""
    return (np.load(self.dropped_file) if self.has_repeats
            else np.zeros(0, np.int64))

  def records(
      self, number: int, names: Sequence[str]
  ) -> Iterator[tuple[int, list[tuple]]]:
    """Records of a piece that stay, some at a time, after their first row."""
    dropped = self.dropped()
    row = self.begins[number]
    kept = row - int(np.searchsorted(dropped, row))
    for some in packed_files.read(
        self.scratch.records(self.pieces[number]), names
    ):
      stop = row + len(some)
      low, high = np.searchsorted(dropped, [row, stop])
      gone = set((dropped[low:high] - row).tolist())
      some = [one for at, one in enumerate(some) if at not in gone]
      yield kept, some
      row, kept = stop, kept + len(some)


@dataclasses.dataclass(frozen=True)
class Values:
  """Values of records by the part of all values that they belong to.

  Attributes:
    rows: of the pieces.
    kind: of the values, names the files of `FirstRows`.
    names: of the fields; the first one is the value, others come with it.
    part_of: (value) -> number of its part.
  """

  rows: Rows
  kind: str
  names: tuple[str, ...]
  part_of: Callable[[bytes], int]

  def __call__(
      self, number: int
  ) -> Iterator[tuple[tuple[str, int], list[tuple]]]:
    """Those of a piece: (kind, part) and a list of (*fields, row)."""
    parts = collections.defaultdict(list)
    for first, some in self.rows.records(number, self.names):
      for row, fields in enumerate(some, first):
        if fields[0]:
          parts[self.part_of(fields[0])].append((*fields, row))
    for part, listed in parts.items():
      yield (self.kind, part), listed


@dataclasses.dataclass(frozen=True)
class ByHash:
  """Divides values into so many parts."""

  parts: int

  def __call__(self, value: bytes) -> int:
    """The part of a value."""
    return zlib.crc32(value) % self.parts


@dataclasses.dataclass(frozen=True)
class ByOrder:
  """Divides values so that those of a part come before those of the next.

  Attributes:
    splitters: ascending; the first values of all parts but the first.
  """

  splitters: tuple[bytes, ...]

  def __call__(self, value: bytes) -> int:
    """The part of a value."""
    return bisect.bisect_right(self.splitters, value)


@dataclasses.dataclass(frozen=True)
class FirstRows:
  """Finds the first row of each value of a part.

  Attributes:
    scratch: gets `<kind>-<part>`, `[2, values] int64`: rows, and the first rows
      with the same value.
  """

  scratch: Scratch

  def __call__(
      self, key: tuple[str, int], lists: Iterable[list[tuple[bytes, int]]]
  ) -> None:
    """Writes a part."""
    first_of: dict[bytes, int] = {}
    values = sorted((one for some in lists for one in some),
                    key=lambda one: one[-1])
    pairs = np.array([(row, first_of.setdefault(value, row))
                      for value, row in values], np.int64)
    passed_on.save(self.scratch.part(*key), pairs.T)


@dataclasses.dataclass(frozen=True)
class SortIds:
  """Sorts the ids of a part and finds those that repeat.

  Attributes:
    scratch: gets `ids-<part>`, `[ids] int64`: rows in the order of their ids,
      without repeats; the ids beside them; and `repeats-<part>`,
      `[2, repeats] int64`: rows, and 1 or 2 as `IdSorter.finish`.
  """

  scratch: Scratch

  def __call__(
      self, key: tuple[str, int],
      lists: Iterable[list[tuple[bytes, bytes, int]]],
  ) -> None:
    """Writes a part."""
    rows, names, repeats = [], [], []
    last = first_content = None
    for name, content, row in sorted(
        (one for some in lists for one in some),
        key=lambda one: (one[0], one[2]),
    ):
      if name == last:
        repeats.append((row, 1 if content == first_content else 2))
        continue
      last, first_content = name, content
      rows.append(row)
      names.append(name)
    passed_on.save(self.scratch.part('repeats', key[1]),
          np.array(repeats, np.int64).reshape(-1, 2).T)
    with passed_on.putting(self.scratch.part('names', key[1])) as path:
      path.write_bytes(b''.join(names))
    passed_on.save(self.scratch.part('lengths', key[1]),
          np.array(list(map(len, names)), np.int64))
    passed_on.save(self.scratch.part('ids', key[1]), np.array(rows, np.int64))


@dataclasses.dataclass(frozen=True)
class StoreShard:
  """Stores rows as a shard of a tensorflow-datasets data set.

  Attributes:
    rows: of the pieces.
    size: rows of a shard.
  """

  rows: Rows
  size: int

  def __call__(self, shard: int) -> None:
    """Writes a shard, its ids, their worlds, and what is digested."""
    from neg_contrast.data import tfds_records

    scratch, done = self.rows.scratch, self.rows.scratch.part('shard', shard)
    if done.exists():
      return
    names, lengths, worlds = [], [], []
    with (passed_on.putting(scratch.part('rows', shard)) as path,
          passed_on.putting(scratch.part('digested', shard)) as digested,
          open(digested, 'wb') as f):
      file = tfds_records.Shard(path)
      for row, name, world, data in self._records(shard):
        file.write(row)
        f.write(data)
        names.append(name)
        lengths.append(len(name))
        worlds.append(world)
      file.close()
    passed_on.save(scratch.part('id_lengths', shard),
                   np.array(lengths, np.int64))
    with passed_on.putting(scratch.part('id_bytes', shard)) as path:
      path.write_bytes(b''.join(names))
    if any(worlds):
      with passed_on.putting(scratch.part('worlds', shard)) as path:
        path.write_text(json.dumps(worlds))
    with passed_on.putting(done) as path:
      path.write_text(json.dumps([file.rows, file.size]))

  def _records(self, shard: int) -> Iterator[tuple[bytes, bytes, str, bytes]]:
    begin, end = shard * self.size, (shard + 1) * self.size
    begins = np.array(self.rows.begins)
    kept = begins - np.searchsorted(self.rows.dropped(), begins)
    names = ('row', 'id', 'world', 'digested')
    for number in range(int(np.searchsorted(kept, begin, 'right')) - 1,
                        len(self.rows.pieces)):
      if kept[number] >= end:
        return
      for first, some in self.rows.records(number, names):
        low, high = max(begin - first, 0), max(end - first, 0)
        yield from some[low:high]
