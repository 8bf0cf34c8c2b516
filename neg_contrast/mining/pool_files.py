"""Writes a pool: filters the candidates of each source and joins them.

Looking answers up in texts is what takes long, and processes divide it. What
comes of it is a byte a candidate; the rest of a pool is copied from candidates.
"""

import dataclasses
import functools
import pathlib
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Int, UInt8

from neg_contrast.artifacts import arrays, kept_parts
from neg_contrast.data import examples
from neg_contrast.mining import candidates as candidates_lib
from neg_contrast.mining import filters
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.settings import config as config_lib

QUERIES_AT_ONCE = 512
"""Of a part, at least: some seconds where answers are looked up."""


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


def drop(
    lines: slice,
    query_rows: Int[np.ndarray, ' queries'],
    mined: dict[str, candidates_lib.Candidates],
    corpus: Corpus,
    config: config_lib.NegativesConfig,
    beliefs: Mapping[str, filters.Beliefs] = types.MappingProxyType({}),
) -> UInt8[np.ndarray, 'lines depth']:
  """Filters the candidates of some queries.

  The pool of a source is the first M that survive; the pool of several is their
  union, where a passage belongs to the first source that has it.

  Args:
    lines: of the candidates, which queries.
    query_rows: `[queries] int32`, of all candidates, ascending.
    mined: candidates by source.
    corpus: groups, positives and answers.
    config: the filters and M.
    beliefs: source -> what a judge says of these queries; without a judge there
      are none.

  Returns:
    `[lines, depth] uint8`, of all sources together, places in
    `pool.DROPPED_BY`; 0 for what stays, and for padding.
  """
  queries, rows, dropped = query_rows[lines], [], []
  for source, found in mined.items():
    found = found.part(lines)
    rows.append(np.asarray(found.rows))
    dropped.append(filters.drop(
        source, found, pool_lib.groups_of(corpus.groups, rows[-1]),
        corpus.positive_groups[queries], config,
        functools.partial(corpus.has_answer, queries, rows[-1]),
        beliefs.get(source),
    ))
  joined, codes = (np.concatenate(some, axis=1) for some in (rows, dropped))
  if len(mined) > 1:
    repeated = filters.repeated(
        pool_lib.groups_of(corpus.groups, joined), (joined >= 0) & (codes == 0)
    )
    codes[repeated] = pool_lib.code('duplicate')
  return codes


def drop_all(
    query_rows: Int[np.ndarray, ' queries'],
    mined: dict[str, candidates_lib.Candidates],
    corpus: Corpus,
    config: config_lib.NegativesConfig,
) -> Iterator[tuple[slice, UInt8[np.ndarray, 'lines depth']]]:
  """`drop` for all queries, some at a time: (lines, what it returns)."""
  for lines in kept_parts.divide(len(query_rows), QUERIES_AT_ONCE):
    yield lines, drop(lines, query_rows, mined, corpus, config)


def write(
    scratch: pathlib.Path,
    manifest: dict[str, Any],
    query_rows: Int[np.ndarray, ' queries'],
    mined: dict[str, candidates_lib.Candidates],
    halves: Int[np.ndarray, 'halves 3'],
    passages: int,
    dropped: Iterable[tuple[slice, UInt8[np.ndarray, 'lines depth']]],
) -> None:
  """Joins the candidates of all sources, and what filters say of them.

  Args:
    scratch: a folder that is being made, see `folders.writing`.
    manifest: of that folder; gets what reading it takes, and counts.
    query_rows: `[queries] int32`, ascending.
    mined: candidates by source.
    halves: what rows beyond the corpus are.
    passages: of the corpus.
    dropped: lines, and what `drop` returns for them; together all lines.
  """
  count = len(query_rows)
  depth = sum(found.rows.shape[1] for found in mined.values())
  manifest |= {
      'sources': list(mined), 'queries': count, 'depth': depth,
      'passages': passages, 'dropped_by': list(pool_lib.DROPPED_BY),
  }
  np.save(scratch / 'query_rows.npy', query_rows.astype(np.int32))
  np.save(scratch / 'halves.npy', halves)
  np.save(scratch / 'positive_scores.npy', np.stack(
      [np.asarray(found.positive_scores) for found in mined.values()], 1
  ))
  files = {
      name: arrays.create_array(
          scratch / f'{name}.npy', dtype, (count, depth)
      )
      for name, dtype in pool_lib.ARRAYS.items()
  }
  for lines, codes in dropped:
    begin = 0
    for number, found in enumerate(mined.values()):
      columns = slice(begin, begin + found.rows.shape[1])
      begin = columns.stop
      files['rows'][lines, columns] = found.rows[lines]
      files['score'][lines, columns] = found.scores[lines]
      files['source'][lines, columns] = number
      files['rank'][lines, columns] = np.arange(
          1, columns.stop - columns.start + 1
      )
    files['dropped_by'][lines] = codes
  manifest['counts'] = pool_lib.Pool(
      query_rows, **files, verdicts=None,
      positive_scores=np.zeros((count, len(mined))),
      halves=halves, sources=tuple(mined), manifest=manifest,
  ).counts()
