"""Mined candidates of one source: what it proposes for each query, best first.

Filters come later (`pool_files.py`): candidates keep the positives too, at the
ranks where the source found them.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from neg_contrast import errors
from neg_contrast.artifacts import arrays, checksums, folders, kept_parts
from neg_contrast.data import examples
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.retrieval import hits

FORMAT = folders.Format('mined candidates', 2)
_ON_MESH = 16  # Times as many queries,
_POSITIVES_AT_ONCE = 2**24  # unless one of them has very many positives.


@dataclasses.dataclass(frozen=True)
class Candidates:
  """What one source proposes; arrays may be mapped from disk.

  Attributes:
    rows: `[queries, depth] int32` passage rows, best first; -1 pads. A row of
      at least the number of passages means a half passage, see
      `negatives/halves.py`.
    scores: `[queries, depth] float32`: dot products, BM25 scores, or minus the
      distance in the document.
    positive_scores: `[queries] float32`, the highest score of a positive; nan
      where the source gives none.
  """

  rows: Int[np.ndarray, 'queries depth']
  scores: Float[np.ndarray, 'queries depth']
  positive_scores: Float[np.ndarray, ' queries']

  def part(self, lines: slice) -> 'Candidates':
    """Those of some queries."""
    return Candidates(*(
        getattr(self, name)[lines]
        for name in ('rows', 'scores', 'positive_scores')
    ))

  def first(self, depth: int) -> 'Candidates':
    """The best `depth` of every query."""
    return dataclasses.replace(
        self, rows=self.rows[:, :depth], scores=self.scores[:, :depth]
    )


@runtime_checkable
class Miner(Protocol):
  """Proposes candidates."""

  def mine(self, queries: Int[np.ndarray, ' queries']) -> Candidates:
    """The candidates of some queries, given as rows of the data set."""
    ...


@dataclasses.dataclass(frozen=True)
class SearchMiner:
  """The top passages of a search.

  Attributes:
    search: (query rows, `[queries, some]` passage rows, -1 pads) -> hits, and
      the scores of those passages, -inf where there is none.
    positives: passage rows, of all queries.
  """

  search: Callable[[np.ndarray, np.ndarray], tuple[hits.Hits, np.ndarray]]
  positives: examples.Positives

  def mine(self, queries: Int[np.ndarray, ' queries']) -> Candidates:
    """The candidates of some queries."""
    positives = self.positives[queries]
    found, own = self.search(queries, positives)
    own = own.max(axis=1)
    return Candidates(found.rows, found.scores, own.astype(np.float32))


def listed(rows, scores, depth: int) -> Candidates:
  """Candidates from a list of rows (and of scores) for each query."""
  shape = (len(rows), depth)
  found = Candidates(
      np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32),
      np.full(len(rows), np.nan if scores is None else 0, np.float32),
  )
  for line, values in enumerate(rows):
    count = min(depth, len(values))
    found.rows[line, :count] = values[:count]
    found.scores[line, :count] = 0 if scores is None else scores[line][:count]
  return found


def of_pool(pool: pool_lib.Pool, number: int) -> Candidates:
  """Those of a source, as a pool keeps them: in the same columns."""
  columns = np.flatnonzero(pool.source[0] == number)
  return Candidates(
      pool.rows[:, columns], pool.score[:, columns],
      pool.positive_scores[:, number],
  )


def join(parts: Sequence[Candidates]) -> Candidates:
  """Those of some queries after those of others; of the same depth."""
  return Candidates(*(
      np.concatenate([getattr(part, field.name) for part in parts])
      for field in dataclasses.fields(Candidates)
  ))


def divide(
    queries: int, at_once: int, positives: examples.Positives | None = None
) -> list[slice]:
  """The queries that are mined at once, by any number of processes.

  Args:
    queries: of all.
    at_once: how many.
    positives: of all queries, where a search on the mesh reads the whole
      corpus, once for 16 times as many queries: 65,536 of 4,096, or fewer where
      one of them has over 256 positives. None: other searches.
  """
  if positives is not None:
    fitting = _POSITIVES_AT_ONCE // max(1, positives.most)
    at_once = min(_ON_MESH * at_once, max(at_once, fitting))
  return kept_parts.divide(queries, at_once)


def mine(
    miner: Miner,
    queries: Int[np.ndarray, ' queries'],
    blocks: Iterable[slice],
) -> Iterator[tuple[slice, Candidates]]:
  """Which queries, and their candidates, block by block.

  Args:
    miner: proposes them.
    queries: `[queries] int32`, rows of the data set, ascending.
    blocks: from `divide`.
  """
  for lines in blocks:
    yield lines, miner.mine(queries[lines])


def write(
    scratch: pathlib.Path,
    manifest: dict[str, Any],
    queries: int,
    depth: int,
    mined: Iterable[tuple[slice, Candidates]],
    halves: Sequence[int] = (),
) -> None:
  """Writes candidates, those of some queries after those of others.

  Args:
    scratch: a folder that is being made, see `folders.writing`.
    manifest: of that folder; gets the number of `queries`.
    queries: how many.
    depth: candidates kept for a query.
    mined: which queries, and their candidates; together all.
    halves: numbers of the half passages that rows point to, three of each, see
      `negatives/halves.py`; may be added to while `mined` goes on.
  """
  manifest['queries'] = queries
  make = lambda name, dtype, *shape: arrays.create_array(
      scratch / f'{name}.npy', dtype, shape
  )
  made = Candidates(
      make('rows', np.int32, queries, depth),
      make('scores', np.float32, queries, depth),
      make('positive_scores', np.float32, queries),
  )
  for lines, found in mined:
    part = made.part(lines)
    part.rows[:] = found.rows
    part.scores[:] = found.scores
    part.positive_scores[:] = found.positive_scores
  np.save(scratch / 'halves.npy', np.array(halves, np.int32).reshape(-1, 3))


def write_part(scratch: pathlib.Path, found: Candidates) -> None:
  """Writes the candidates of some queries, as a part of all."""
  for field in dataclasses.fields(found):
    np.save(scratch / f'{field.name}.npy', getattr(found, field.name))


def read_part(
    parts: kept_parts.KeptParts, number: int, queries: int, depth: int
) -> Candidates:
  """What `write_part` wrote; raises as `parts.array`."""
  return Candidates(
      parts.array(number, 'rows', (queries, depth), np.int32),
      parts.array(number, 'scores', (queries, depth), np.float32),
      parts.array(number, 'positive_scores', (queries,), np.float32),
  )


def read(
    folder: pathlib.Path, passages: int | None = None
) -> tuple[Candidates, Int[np.ndarray, 'halves 3']]:
  """Maps candidates, and the half passages that belong to them.

  Args:
    folder: that `write` made.
    passages: of the corpus; None: rows are not compared with it.

  Raises:
    UserError: there are none, they are of another format, or a file is damaged.
  """
  manifest = folders.read_manifest(folder, FORMAT)
  if manifest is None:
    raise errors.UserError(f'{folder}: holds no mined candidates')
  count = manifest['queries']
  load = lambda name, dtype, *shape: arrays.load_array(
      folder / f'{name}.npy', shape, dtype
  )
  found = Candidates(
      load('rows', np.int32, count, None),
      load('scores', np.float32, count, None),
      load('positive_scores', np.float32, count),
  )
  halves = load('halves', np.int32, None, 3)
  if found.rows.shape != found.scores.shape:
    raise checksums.damaged(folder / 'scores.npy',
                            f'holds {found.scores.shape}, and rows.npy '
                            f'{found.rows.shape}')
  most = np.iinfo(np.int32).max if passages is None else (
      passages + len(halves) - 1)
  pool_lib.check_range(folder / 'rows.npy', found.rows, -1, most)
  return found, halves
