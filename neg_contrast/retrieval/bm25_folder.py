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

import contextlib
import dataclasses
import functools
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging
from jaxtyping import Int

from neg_contrast import beams, errors, hosts, progress
from neg_contrast.artifacts import bucket_turns, failures, folders, parts
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.retrieval import bm25_postings, bm25_terms

FORMAT = folders.Format('postings of BM25', 1)
SHARD_ROWS = bm25_postings.MOST_PASSAGES
_RANKINGS = 1  # Raised when searches find something else.
_TERMS = 'english'  # What `TermReader` makes of texts.


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
      f'{_TERMS}-{_corpus(prepared)[:12]}'
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
      'terms': _TERMS, 'corpus': _corpus(prepared),
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
  missing = [number for number in range(len(divide(prepared, shard_rows)))
             if not _file(prepared, number).exists()]
  if beams.is_chosen():
    beams.run('counting words of passages', [beams.Each(
        _MakeShard(prepared.corpus_folder, shard_rows), missing
    )])
  places, is_made_one, make_one = parts_of(prepared, shard_rows)
  helpers = min(len(missing), hosts.usable_cores()) - 1
  with _helpers(prepared, helpers, places, is_made_one):
    parts.make_all(places, is_made_one, make_one)
  folder = folder_of(prepared)
  with folders.only_one(folder):
    if (folder / folders.UNFINISHED).exists():  # Not yet another's work.
      folders.finish(folder)


def open_shards(prepared: prepared_lib.Prepared) -> list[Shard]:
  """Maps the postings of a corpus; makes them where they are not.

  Raises:
    UserError: as `make`.
  """
  make(prepared)
  shard_rows = _read_shard_rows(prepared, folders.MANIFEST)
  assert shard_rows is not None
  folder = folder_of(prepared)
  return [
      Shard(rows, bm25_postings.read(
          _file(prepared, number), folder, len(rows)
      ))
      for number, rows in enumerate(divide(prepared, shard_rows))
  ]


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


def parts_of(prepared: prepared_lib.Prepared, shard_rows: int):
  """The arguments of `parts.make_all`: what its parts are, and makes one."""
  shards = divide(prepared, shard_rows)
  folder = folder_of(prepared)
  reader = functools.cache(bm25_terms.TermReader)
  def is_made(number: int) -> bool:
    return _file(prepared, number).exists()

  def passages_there() -> int:
    return sum(len(rows) for at, rows in enumerate(shards) if is_made(at))

  ticker = progress.Ticker('counting words of passages',
                           sum(map(len, shards)), before=passages_there())

  def make(number: int) -> None:
    path = _file(prepared, number)
    partial = path.with_name(path.name + '.partial')
    with failures.while_writing(folder):
      try:
        bm25_postings.write(
            count(prepared, shards[number], reader()), partial
        )
        folders.add_file(partial, path)
      finally:
        partial.unlink(missing_ok=True)
    ticker(passages_there())

  places = [folder.with_name(f'{folder.name}-{number:05d}')
            for number in range(len(shards))]
  return places, is_made, make


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
    places, is_made, make = parts_of(
        prepared_lib.Prepared(self.folder), self.shard_rows
    )
    with folders.only_one(places[number]):
      if not is_made(number):
        make(number)


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
  places, is_made, make = parts_of(prepared, shard_rows)
  for number in numbers:
    with folders.only_one(places[number], wait=False) as is_ours:
      if is_ours and not is_made(number):
        make(number)
    yield number


@contextlib.contextmanager
def _helpers(
    prepared: prepared_lib.Prepared,
    count: int,
    places: Sequence[pathlib.Path],
    is_made: Callable[[int], bool],
) -> Iterator[None]:
  """Lets other processes help; what one leaves undone others do.

  They are no forks, which JAX's threads forbid, and import no main program, of
  which users have any.
  """
  command = [sys.executable, '-m', 'neg_contrast.retrieval.bm25_helper',
             str(prepared.corpus_folder.absolute())]
  environment = {
      **os.environ, 'JAX_PLATFORMS': 'cpu',  # Accelerators are the parent's.
      'PYTHONPATH': os.pathsep.join(filter(None, sys.path)),
  }
  helpers = [
      subprocess.Popen(command, env=environment, stdin=subprocess.PIPE,
                       stdout=subprocess.PIPE, text=True)
      for _ in range(count)
  ]
  leading = [threading.Thread(target=_lead, args=(helper, places, is_made))
             for helper in helpers]
  for thread in leading:
    thread.start()
  try:
    yield
  finally:
    for helper, thread in zip(helpers, leading, strict=True):
      helper.terminate()  # Nothing is left to do, or the parent fails.
      thread.join()
      helper.communicate()
  failed = [code for helper in helpers if (code := helper.returncode) > 0]
  if failed:
    logging.warning('%d of %d helpers failed', len(failed), count)


def _lead(
    helper: subprocess.Popen[str],
    places: Sequence[pathlib.Path],
    is_made: Callable[[int], bool],
) -> None:
  """Gives a helper one shard after another that nobody makes.

  The helper has the locks of its machine alone. In a bucket, turns are taken
  for it here, by a process of the program that other machines know.
  """
  assert helper.stdin and helper.stdout
  try:
    for number in reversed(range(len(places))):  # Others begin at the front.
      with bucket_turns.turn(places[number], wait=False) as is_ours:
        if is_ours and not is_made(number):
          helper.stdin.write(f'{number}\n')
          helper.stdin.flush()
          if not helper.stdout.readline():
            return  # It has ended.
  except BrokenPipeError:
    pass  # It has ended; what it has not made is left to the processes.
  except errors.UserError as e:
    logging.warning('%s', e)


def _begin(prepared: prepared_lib.Prepared, shard_rows: int) -> int:
  """Makes the folder, or joins in; the passages of its shards."""
  folder = folder_of(prepared)
  folders.make_folder(folder.parent)
  with folders.only_one(folder):
    for name in (folders.MANIFEST, folders.UNFINISHED):
      begun = _read_shard_rows(prepared, name)
      if begun is not None:
        return begun
    manifest = {'corpus': _corpus(prepared), 'terms': _TERMS,
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
