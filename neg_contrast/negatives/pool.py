"""The pool: candidates of all sources, and which of them are negatives.

A folder of `.npy` arrays with a manifest. Every candidate keeps its source, its
rank and score there, and the filter that dropped it.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from neg_contrast import errors
from neg_contrast.artifacts import arrays, folders
from neg_contrast.batches import batcher
from neg_contrast.data import examples
from neg_contrast.mining import candidates as candidates_lib
from neg_contrast.mining import filters
from neg_contrast.negatives import drawing
from neg_contrast.settings import config as config_lib

FOLDER = 'pool'  # Of a workdir.
_QUERIES_AT_ONCE = 4096
_ARRAYS = {'rows': np.int32, 'source': np.uint8, 'rank': np.int32,
           'score': np.float32, 'dropped_by': np.uint8}


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
    dropped_by: `[queries, depth] uint8`, places in `filters.DROPPED_BY`; 0: it
      is a negative.
    positive_scores: `[queries, sources] float32`.
    halves: `[halves, 3] int32`: parent row, first and end token.
    sources: their names.
    manifest: of the folder.
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

  def draw(
      self,
      query_rows: Int[np.ndarray, ' batch'],
      count: int,
      seed: int,
      step: int,
      examples: Int[np.ndarray, ' batch'],
      quotas: Sequence[int] = (),
  ) -> batcher.Drawn:
    """N of the M negatives of each query, see `drawing.draw_places`."""
    lines = self.lines_of(query_rows)
    known = np.maximum(lines, 0)
    usable = self.is_negative(known) & (lines >= 0)[:, None]
    sources = np.asarray(self.source[known])
    places = drawing.draw_places(
        usable, count, seed, step, examples, sources, quotas
    )
    at = np.maximum(places, 0)
    pick = lambda values: np.where(
        places >= 0,
        np.take_along_axis(values.astype(np.int32), at, axis=1), np.int32(-1),
    )
    return batcher.Drawn(pick(np.asarray(self.rows[known])), pick(sources))

  def counts(self) -> dict[str, dict[str, int]]:
    """Source -> `negatives` and each filter -> candidates; for logs."""
    result = {}
    for number, name in enumerate(self.sources):
      codes = np.zeros(len(filters.DROPPED_BY), np.int64)
      for begin in range(0, len(self), _QUERIES_AT_ONCE):
        lines = slice(begin, begin + _QUERIES_AT_ONCE)
        ours = (self.source[lines] == number) & (self.rows[lines] >= 0)
        codes += np.bincount(self.dropped_by[lines][ours],
                             minlength=len(codes))
      result[name] = {key or 'negatives': int(value) for key, value
                      in zip(filters.DROPPED_BY, codes, strict=True)}
    return result


@dataclasses.dataclass(frozen=True)
class Corpus:
  """What assembling a pool has to know of passages and queries.

  Attributes:
    groups: `[passages] int32`, equal for passages of the same text.
    positive_groups: of all queries.
    has_answer: (query rows, `[queries, depth]` rows, which to look at) -> which
      of these hold an answer; rows from `groups` on are halves of `halves`.
  """

  groups: Int[np.ndarray, ' passages']
  positive_groups: examples.Positives
  has_answer: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def groups_of(
    groups: Int[np.ndarray, ' passages'], rows: Int[np.ndarray, '*shape']
) -> Int[np.ndarray, '*shape']:
  """Groups of equal text; a half passage is one of its own."""
  passages = len(groups)
  return np.where(rows < passages, groups[np.clip(rows, 0, passages - 1)], rows)


def write(
    folder: pathlib.Path,
    identity: dict[str, Any],
    query_rows: Int[np.ndarray, ' queries'],
    mined: dict[str, candidates_lib.Candidates],
    halves: Int[np.ndarray, 'halves 3'],
    corpus: Corpus,
    config: config_lib.NegativesConfig,
    say: Callable[[int], None],
    facts: dict[str, Any] | None = None,
) -> None:
  """Filters the candidates of each source and joins them.

  The pool of a source is the first M that survive; the pool of several is their
  union, where a passage belongs to the first source that has it.

  Args:
    folder: to make.
    identity: what the pool depends on.
    query_rows: `[queries] int32`, ascending.
    mined: candidates by source.
    halves: what rows beyond the corpus are.
    corpus: groups, positives and answers.
    config: the filters and M.
    say: called with the number of queries done.
    facts: kept in the manifest.
  """
  count = len(query_rows)
  depth = sum(found.rows.shape[1] for found in mined.values())
  manifest: dict[str, Any] = {
      'identity': identity, 'sources': list(mined), 'queries': count,
      'depth': depth, 'dropped_by': list(filters.DROPPED_BY),
      **(facts or {}),
  }
  with folders.writing(folder, manifest) as scratch:
    np.save(scratch / 'query_rows.npy', query_rows.astype(np.int32))
    np.save(scratch / 'halves.npy', halves)
    np.save(scratch / 'positive_scores.npy', np.stack(
        [np.asarray(found.positive_scores) for found in mined.values()], 1
    ))
    files = {
        name: arrays.create_array(
            scratch / f'{name}.npy', dtype, (count, depth)
        )
        for name, dtype in _ARRAYS.items()
    }
    for begin in range(0, count, _QUERIES_AT_ONCE):
      lines = slice(begin, min(count, begin + _QUERIES_AT_ONCE))
      parts = {name: found.part(lines) for name, found in mined.items()}
      for name, values in _join(query_rows[lines], parts, corpus,
                                config).items():
        files[name][lines] = values
      say(lines.stop)
    manifest['counts'] = Pool(
        query_rows, **files, positive_scores=np.zeros((count, len(mined))),
        halves=halves, sources=tuple(mined), manifest=manifest,
    ).counts()


def _join(queries, parts, corpus, config) -> dict[str, np.ndarray]:
  """All arrays of some queries."""
  made: dict[str, list[np.ndarray]] = {name: [] for name in _ARRAYS}
  for number, (source, found) in enumerate(parts.items()):
    rows = np.asarray(found.rows)
    shape = rows.shape
    made['rows'].append(rows)
    made['source'].append(np.full(shape, number))
    made['rank'].append(np.broadcast_to(np.arange(1, shape[1] + 1), shape))
    made['score'].append(np.asarray(found.scores))
    made['dropped_by'].append(filters.drop(
        source, found, groups_of(corpus.groups, rows),
        corpus.positive_groups[queries], config,
        functools.partial(corpus.has_answer, queries, rows),
    ))
  joined = {name: np.concatenate(values, axis=1)
            for name, values in made.items()}
  usable = (joined['rows'] >= 0) & (joined['dropped_by'] == 0)
  if len(parts) > 1:
    groups = groups_of(corpus.groups, joined['rows'])
    joined['dropped_by'][filters.repeated(groups, usable)] = filters.code(
        'duplicate'
    )
  return joined


def read(folder: pathlib.Path) -> Pool:
  """Maps a pool.

  Raises:
    UserError: there is none, or a file is damaged.
  """
  manifest = folders.read_manifest(folder)
  if manifest is None or 'sources' not in manifest:
    raise errors.UserError(
        f'{folder}: not a pool of negatives; configs/mine.py makes one'
    )
  count, sources = manifest['queries'], tuple(manifest['sources'])
  load = lambda name, *shape: arrays.load_array(
      folder / f'{name}.npy', shape
  )
  return Pool(
      query_rows=load('query_rows', count),
      **{name: load(name, count, manifest['depth']) for name in _ARRAYS},
      positive_scores=load('positive_scores', count, len(sources)),
      halves=load('halves', None, 3),
      sources=sources,
      manifest=manifest,
  )
