"""The postings of a corpus: shards that all cores of all processes make.

They lie beside the prepared corpus, in `bm25/`, in a folder that the contents
of the passages name: one for all jobs, models and settings, since k1 and b are
those of a search. Where the corpus has worlds, no shard holds passages of two.

Counting takes one pass. A shard is a function of its passages alone, so the
bytes are the same for any number of processes, and an interruption loses the
shards that were being made. There is nothing to merge: how many passages hold a
term, how many passages there are and how long they are on average are sums over
the shards that a search reads, of whole numbers.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Int

from neg_contrast import beams, hosts, progress
from neg_contrast.artifacts import failures, folders, parts
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.retrieval import bm25_helpers, bm25_postings, bm25_terms

FORMAT = folders.Format('postings of BM25', 1)
SHARD_ROWS = bm25_postings.MOST_PASSAGES
_RANKINGS = 1  # Raised when searches find something else.
TERMS = 'english-2'
"""What `TermReader` makes of texts; 2: words of any script."""



@dataclasses.dataclass(frozen=True)
class Rows:
  """The passages of a shard.

  Attributes:
    rows: of the corpus, ascending.
    world: that they belong to; -1 where there are no worlds.
  """

  rows: range | np.ndarray
  world: int = -1

  def __len__(self) -> int:
    return len(self.rows)

  def at(self, places: Int[np.ndarray, ' some']) -> np.ndarray:
    """The rows at some places, `[some] int32`."""
    if isinstance(self.rows, range):
      return (self.rows.start + places).astype(np.int32)
    return self.rows[places]

  def places(self, rows: Int[np.ndarray, '*some']) -> np.ndarray:
    """The places of some rows, `[...] int`; -1 for those of other shards."""
    if isinstance(self.rows, range):
      is_here = (rows >= self.rows.start) & (rows < self.rows.stop)
      return np.where(is_here, rows - self.rows.start, -1)
    at = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
    return np.where(self.rows[at] == rows, at, -1)


@dataclasses.dataclass(frozen=True)
class Shard:
  """Some passages of a corpus, and their postings."""

  rows: Rows
  postings: bm25_postings.Postings


def folder_of(prepared: prepared_lib.Prepared) -> pathlib.Path:
  """Where the postings of a corpus lie."""
  return prepared.corpus_folder.parent / 'bm25' / (
      f'{TERMS}-{_corpus(prepared)[:12]}'
  )


def rankings_of(
    prepared: prepared_lib.Prepared, search: dict[str, Any]
) -> pathlib.Path:
  """Where the best passages of some queries are kept.

  Args:
    prepared: corpus and queries.
    search: which queries, how deep, and the settings that count; json.
  """
  code = folders.sha256_json({
      **search, 'format': _RANKINGS, 'postings': FORMAT.number,
      'terms': TERMS, 'corpus': _corpus(prepared),
      'queries': prepared.manifest['queries_fingerprint'],
  })
  return prepared.corpus_folder.parent / 'bm25_rankings' / code[:12]


def is_made(prepared: prepared_lib.Prepared) -> bool:
  """Whether all shards lie there.

  Raises:
    UserError: they are damaged, or of another format.
  """
  return _read_shard_rows(prepared, folders.MANIFEST) is not None


def make(
    prepared: prepared_lib.Prepared, shard_rows: int = SHARD_ROWS
) -> None:
  """Makes the shards that are missing.

  Processes divide them, and so do helpers of each, one for every core.

  Args:
    prepared: of the corpus.
    shard_rows: passages of a shard, at most. A folder that was begun goes on
      with its own.

  Raises:
    UserError: they are damaged or of another format, or the disk is full.
  """
  if is_made(prepared):
    return
  shard_rows = _begin(prepared, shard_rows)
  if beams.is_chosen():
    beams.run('counting words of passages', [beams.Each(
        _MakeShard(prepared.corpus_folder, shard_rows),
        _Maker(prepared, shard_rows).missing(),
    )])
  maker = _Maker(prepared, shard_rows)
  ticker = progress.Ticker('counting words of passages', maker.passages(),
                           before=maker.passages_there())

  def make_one(number: int) -> None:
    maker.make(number)
    ticker(maker.passages_there())

  helpers = min(len(maker.missing()), hosts.usable_cores()) - 1
  with bm25_helpers.started(
      prepared.corpus_folder, helpers, maker.places, maker.is_made):
    parts.make_all(maker.places, maker.is_made, make_one)
  folder = folder_of(prepared)
  with folders.only_one(folder):
    if (folder / folders.UNFINISHED).exists():  # Not yet another's work.
      folders.finish(folder)


def open_shards(
    prepared: prepared_lib.Prepared, numbers: Iterable[int] | None = None
) -> list[Shard]:
  """Maps postings of a corpus; makes them where they are not.

  Args:
    prepared: of the corpus.
    numbers: of the shards; default: all.

  Raises:
    UserError: as `make`.
  """
  rows_of, folder = rows_of_shards(prepared), folder_of(prepared)
  return [
      Shard(rows_of[number], bm25_postings.read(
          _file(prepared, number), folder, len(rows_of[number])
      ))
      for number in (range(len(rows_of)) if numbers is None else numbers)
  ]


def rows_of_shards(prepared: prepared_lib.Prepared) -> list[Rows]:
  """`divide` as a corpus is; makes the shards where they are not.

  Raises:
    UserError: as `make`.
  """
  make(prepared)
  shard_rows = _read_shard_rows(prepared, folders.MANIFEST)
  assert shard_rows is not None
  return divide(prepared, shard_rows)


def divide(
    prepared: prepared_lib.Prepared, shard_rows: int
) -> list[Rows]:
  """The passages of every shard: neighbours, of one world."""
  prepared = _with_worlds(prepared)
  if not prepared.worlds:
    count = prepared.manifest['counts']['passages']
    return [Rows(range(first, min(first + shard_rows, count)))
            for first in range(0, count, shard_rows)]
  shards = []
  for world in range(len(prepared.worlds)):
    rows = np.flatnonzero(prepared.passage_worlds == world).astype(np.int32)
    shards += [Rows(rows[first : first + shard_rows], world)
               for first in range(0, len(rows), shard_rows)]
  return shards


def count(
    prepared: prepared_lib.Prepared, rows: Rows,
    reader: bm25_terms.TermReader,
) -> bm25_postings.Postings:
  """Counts the terms of some passages: of titles and texts, side by side."""
  return bm25_postings.count(reader.read(
      f'{passage.title} {passage.text}'
      for passage in prepared.passages.some(rows.rows)
  ))


class _Maker:
  """Makes shards by their numbers.

  Attributes:
    places: of each, for turns.
  """

  def __init__(self, prepared: prepared_lib.Prepared, shard_rows: int):
    """Looks at nothing yet."""
    self._prepared, self._shards = prepared, divide(prepared, shard_rows)
    self._folder = folder_of(prepared)
    self._reader = functools.cache(bm25_terms.TermReader)
    self.places = [
        self._folder.with_name(f'{self._folder.name}-{number:05d}')
        for number in range(len(self._shards))
    ]

  def is_made(self, number: int) -> bool:
    """Whether a shard is there."""
    return _file(self._prepared, number).exists()

  def missing(self) -> list[int]:
    """Those that are not there; the folder is listed once."""
    there = {path.name for path in self._folder.iterdir()}
    return [number for number in range(len(self._shards))
            if _file(self._prepared, number).name not in there]

  def passages(self) -> int:
    """Of all shards."""
    return sum(map(len, self._shards))

  def passages_there(self) -> int:
    """Of those that are there."""
    return self.passages() - sum(
        len(self._shards[number]) for number in self.missing())

  def make(self, number: int) -> None:
    """Makes a shard."""
    path = _file(self._prepared, number)
    partial = path.with_name(path.name + '.partial')
    with failures.while_writing(self._folder):
      try:
        bm25_postings.write(
            count(self._prepared, self._shards[number], self._reader()), partial
        )
        folders.add_file(partial, path)
      finally:
        partial.unlink(missing_ok=True)


@dataclasses.dataclass(frozen=True)
class _MakeShard:
  """Makes a shard, as a part of a pipeline of Beam.

  Attributes:
    folder: of the prepared corpus.
    shard_rows: passages of a shard, at most.
  """

  folder: pathlib.Path
  shard_rows: int

  def __call__(self, number: int) -> None:
    """Makes the shard with a number, unless it is there."""
    maker = _Maker(prepared_lib.Prepared(self.folder), self.shard_rows)
    with folders.only_one(maker.places[number]):
      if not maker.is_made(number):
        maker.make(number)


def help_make(
    prepared: prepared_lib.Prepared, numbers: Iterable[int]
) -> Iterator[int]:
  """Makes shards, but those that another process of this machine is making.

  Args:
    prepared: of the corpus; its folder was begun.
    numbers: of the shards.

  Yields:
    Each number, when nothing is left to do for it.
  """
  shard_rows = _read_shard_rows(prepared, folders.UNFINISHED)
  if shard_rows is None:  # Finished by now.
    return
  maker = _Maker(prepared, shard_rows)
  for number in numbers:
    with folders.only_one(maker.places[number], wait=False) as is_ours:
      if is_ours and not maker.is_made(number):
        maker.make(number)
    yield number


def _begin(prepared: prepared_lib.Prepared, shard_rows: int) -> int:
  """Makes the folder, or joins in; the passages of its shards."""
  folder = folder_of(prepared)
  folders.make_folder(folder.parent)
  with folders.only_one(folder):
    for name in (folders.MANIFEST, folders.UNFINISHED):
      begun = _read_shard_rows(prepared, name)
      if begun is not None:
        return begun
    manifest = {'corpus': _corpus(prepared), 'terms': TERMS,
                'shard_rows': shard_rows}
    with folders.writing(folder, manifest, folders.UNFINISHED, FORMAT):
      pass
  return shard_rows


def _read_shard_rows(
    prepared: prepared_lib.Prepared, name: str
) -> int | None:
  """Passages of a shard, if a manifest is there and of this corpus."""
  made = folders.read_manifest(folder_of(prepared), FORMAT, name)
  if made is None or made['corpus'] != _corpus(prepared):
    return None
  return made['shard_rows']


def _with_worlds(prepared: prepared_lib.Prepared) -> prepared_lib.Prepared:
  """The corpus; queries that were made for it know of no worlds."""
  if prepared.folder == prepared.corpus_folder:
    return prepared
  return prepared_lib.Prepared(prepared.corpus_folder)


def _corpus(prepared: prepared_lib.Prepared) -> str:
  return prepared.manifest['corpus_fingerprint']


def _file(prepared: prepared_lib.Prepared, number: int) -> pathlib.Path:
  return folder_of(prepared) / f'postings-{number:05d}.bin'
