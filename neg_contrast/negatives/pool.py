"""The pool: candidates of all sources, and which of them are negatives.

A folder of `.npy` arrays with a manifest. Every candidate keeps its source, its
rank and score there, and the filter that dropped it.
"""

import dataclasses
import pathlib
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Integer, UInt8

from neg_contrast import errors
from neg_contrast.artifacts import arrays, checksums, folders
from neg_contrast.negatives import drawing
from neg_contrast.negatives import verdicts as verdicts_lib

FOLDER = 'pool'  # Of a workdir.
FORMAT = folders.Format('a pool of negatives', 3)
DROPPED_BY = ('', 'positive', 'rank', 'margin', 'relative_margin', 'answer',
              'duplicate', 'pool_size', 'unscored', 'judge_above',
              'judge_below')
"""Names of filters by code; 0: it is in the pool. `pool_size`: M better ones
are in it. `unscored`: a margin is set, and its source gives the positives of
the query no score. `judge_above`: a judge believes it positive; `judge_below`:
it does not believe it negative."""
ARRAYS = {'rows': np.int32, 'source': np.uint8, 'rank': np.int32,
           'score': np.float32, 'dropped_by': np.uint8}
"""Files `[queries, depth]` and their types."""
_QUERIES_AT_ONCE = 4096


def code(name: str) -> int:
  """The code of a filter."""
  return DROPPED_BY.index(name)


@dataclasses.dataclass(frozen=True)
class Pool:
  """Candidates of every query; depth is that of all sources together.

  Attributes:
    query_rows: `[queries] int32`, rows of the data set, ascending.
    rows: `[queries, depth] int32` passage rows; -1 pads; at least the number of
      passages: a half passage.
    source: `[queries, depth] uint8`, places in `sources`.
    rank: `[queries, depth] int32`, from 1, where the source had it.
    score: `[queries, depth] float32`, of the source.
    dropped_by: `[queries, depth] uint8`, places in `DROPPED_BY`; 0: it is a
      negative.
    positive_scores: `[queries, sources] float32`.
    halves: `[halves, 3] int32`: parent row, first and end token.
    sources: their names.
    manifest: of the folder.
    verdicts: of a judge; None: nobody judged.
  """

  query_rows: Int[np.ndarray, ' queries']
  rows: Int[np.ndarray, 'queries depth']
  source: UInt8[np.ndarray, 'queries depth']
  rank: Int[np.ndarray, 'queries depth']
  score: Float[np.ndarray, 'queries depth']
  dropped_by: UInt8[np.ndarray, 'queries depth']
  positive_scores: Float[np.ndarray, 'queries sources']
  halves: Int[np.ndarray, 'halves 3']
  sources: tuple[str, ...]
  manifest: dict[str, Any]
  verdicts: verdicts_lib.Verdicts | None = None

  def __len__(self) -> int:
    return len(self.query_rows)

  def is_negative(
      self, lines: slice | Int[np.ndarray, ' lines'] = slice(None)
  ) -> Bool[np.ndarray, 'lines depth']:
    """Which candidates of some queries are in the pool proper."""
    return (self.rows[lines] >= 0) & (self.dropped_by[lines] == 0)

  def lines_of(
      self, query_rows: Int[np.ndarray, ' batch']
  ) -> Int[np.ndarray, ' batch']:
    """The line of each query, -1 where it has none."""
    lines = np.searchsorted(self.query_rows, query_rows)
    lines = np.minimum(lines, len(self) - 1)
    return np.where(self.query_rows[lines] == query_rows, lines, -1)

  def listed(
      self, query_rows: Int[np.ndarray, ' batch']
  ) -> drawing.Listed:
    """The M negatives of each query."""
    lines = self.lines_of(query_rows)
    known = np.maximum(lines, 0)
    usable = self.is_negative(known) & (lines >= 0)[:, None]
    return drawing.Listed(np.where(usable, self.rows[known], np.int32(-1)),
                          np.asarray(self.source[known]))

  def relabelled(self) -> Int[np.ndarray, 'pairs 2']:
    """(query row, passage row) of what a judge made a positive."""
    if self.verdicts is None or not self.verdicts.facts['relabel']:
      return np.zeros((0, 2), np.int32)
    lines, places = np.nonzero(self.dropped_by == code('judge_above'))
    pairs = np.stack(
        [self.query_rows[lines], self.rows[lines, places]], axis=1
    )
    return np.unique(pairs, axis=0)  # Several sources may have it.

  def teacher_scores(
      self, query_rows: Int[np.ndarray, ' batch'],
      rows: Int[np.ndarray, 'batch candidates'],
  ) -> Float[np.ndarray, 'batch candidates']:
    """A judge's scores of candidates and positives of some queries.

    Args:
      query_rows: `[batch] int32`.
      rows: `[batch, candidates] int32` passages; -1: none.

    Returns:
      `[batch, candidates] float32`; nan where nothing was judged.
    """
    lines = self.lines_of(query_rows)
    known = np.maximum(lines, 0)
    assert self.verdicts is not None, 'nobody has judged'
    scores = self.verdicts.scores_of(known, rows, self.rows[known])
    return np.where((lines >= 0)[:, None], scores, np.float32(np.nan))

  def counts(self) -> dict[str, dict[str, int]]:
    """Source -> `negatives` and each filter -> candidates; for logs."""
    result = {}
    for number, name in enumerate(self.sources):
      codes = np.zeros(len(DROPPED_BY), np.int64)
      for begin in range(0, len(self), _QUERIES_AT_ONCE):
        lines = slice(begin, begin + _QUERIES_AT_ONCE)
        ours = (self.source[lines] == number) & (self.rows[lines] >= 0)
        codes += np.bincount(self.dropped_by[lines][ours],
                             minlength=len(codes))
      result[name] = {key or 'negatives': int(value) for key, value
                      in zip(DROPPED_BY, codes, strict=True)}
    return result


def groups_of(
    groups: Int[np.ndarray, ' passages'], rows: Int[np.ndarray, '*shape']
) -> Int[np.ndarray, '*shape']:
  """Groups of equal text; a half passage is one of its own."""
  passages = len(groups)
  return np.where(rows < passages, groups[np.clip(rows, 0, passages - 1)], rows)


def read(folder: pathlib.Path) -> Pool:
  """Maps a pool.

  Raises:
    UserError: there is none, it is of another format, or a file is damaged.
  """
  manifest = folders.read_manifest(folder)
  if manifest is None or manifest.get(
      'kind', FORMAT.kind if 'sources' in manifest else ''
  ) != FORMAT.kind:
    raise errors.UserError(
        f'{folder}: not a pool of negatives; configs/mine.py makes one'
    )
  folders.check_format(folder, manifest, FORMAT)
  count, sources = manifest['queries'], tuple(manifest['sources'])
  load = lambda name, dtype, *shape: arrays.load_array(
      folder / f'{name}.npy', shape, dtype
  )
  pool = Pool(
      query_rows=load('query_rows', np.int32, count),
      **{name: load(name, dtype, count, manifest['depth'])
         for name, dtype in ARRAYS.items()},
      positive_scores=load('positive_scores', np.float32, count, len(sources)),
      halves=load('halves', np.int32, None, 3),
      sources=sources,
      manifest=manifest,
      verdicts=verdicts_lib.read(folder, manifest),
  )
  _check_ranges(pool, folder)
  return pool


def _check_ranges(pool: Pool, folder: pathlib.Path) -> None:
  """Raises UserError where a file holds what nothing can stand for."""
  passages, depth = pool.manifest['passages'], pool.rows.shape[1]
  for name, least, most in (
      ('rows', -1, passages + len(pool.halves) - 1),
      ('source', 0, len(pool.sources) - 1),
      ('rank', 1, depth),
      ('dropped_by', 0, len(DROPPED_BY) - 1),
  ):
    check_range(folder / f'{name}.npy', getattr(pool, name), least, most)
  check_range(folder / 'halves.npy', pool.halves[:, 0], 0, passages - 1)
  if (np.diff(pool.query_rows) <= 0).any() or (pool.query_rows[:1] < 0).any():
    raise checksums.damaged(folder / 'query_rows.npy', 'rows do not ascend')


def check_range(
    path: pathlib.Path, values: Integer[np.ndarray, '...'], least: int,
    most: int,
) -> None:
  """Checks the numbers of a file.

  Args:
    path: of the file.
    values: its numbers, or some.
    least: allowed.
    most: allowed.

  Raises:
    UserError: one is less or more.
  """
  if values.size and not (least <= values.min() and values.max() <= most):
    raise checksums.damaged(
        path, f'holds {values.min()} to {values.max()}, where {least} to '
        f'{most} are possible'
    )
