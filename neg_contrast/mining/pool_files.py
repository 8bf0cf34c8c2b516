"""Writes a pool: filters the candidates of each source and joins them."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Int

from neg_contrast.artifacts import arrays
from neg_contrast.data import examples
from neg_contrast.mining import candidates as candidates_lib
from neg_contrast.mining import filters
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.settings import config as config_lib

_QUERIES_AT_ONCE = 4096


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


def write(
    scratch: pathlib.Path,
    manifest: dict[str, Any],
    query_rows: Int[np.ndarray, ' queries'],
    mined: dict[str, candidates_lib.Candidates],
    halves: Int[np.ndarray, 'halves 3'],
    corpus: Corpus,
    config: config_lib.NegativesConfig,
    say: Callable[[int], None],
) -> None:
  """Filters the candidates of each source and joins them.

  The pool of a source is the first M that survive; the pool of several is their
  union, where a passage belongs to the first source that has it.

  Args:
    scratch: a folder that is being made, see `folders.writing`.
    manifest: of that folder; gets what reading it takes, and counts.
    query_rows: `[queries] int32`, ascending.
    mined: candidates by source.
    halves: what rows beyond the corpus are.
    corpus: groups, positives and answers.
    config: the filters and M.
    say: called with the number of queries done.
  """
  count = len(query_rows)
  depth = sum(found.rows.shape[1] for found in mined.values())
  manifest |= {
      'sources': list(mined), 'queries': count, 'depth': depth,
      'passages': len(corpus.groups), 'dropped_by': list(pool_lib.DROPPED_BY),
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
  for begin in range(0, count, _QUERIES_AT_ONCE):
    lines = slice(begin, min(count, begin + _QUERIES_AT_ONCE))
    parts = {name: found.part(lines) for name, found in mined.items()}
    for name, values in _join(query_rows[lines], parts, corpus,
                              config).items():
      files[name][lines] = values
    say(lines.stop)
  manifest['counts'] = pool_lib.Pool(
      query_rows, **files, positive_scores=np.zeros((count, len(mined))),
      halves=halves, sources=tuple(mined), manifest=manifest,
  ).counts()


def _join(queries, parts, corpus, config) -> dict[str, np.ndarray]:
  """All arrays of some queries."""
  made: dict[str, list[np.ndarray]] = {name: [] for name in pool_lib.ARRAYS}
  for number, (source, found) in enumerate(parts.items()):
    rows = np.asarray(found.rows)
    shape = rows.shape
    made['rows'].append(rows)
    made['source'].append(np.full(shape, number))
    made['rank'].append(np.broadcast_to(np.arange(1, shape[1] + 1), shape))
    made['score'].append(np.asarray(found.scores))
    made['dropped_by'].append(filters.drop(
        source, found, pool_lib.groups_of(corpus.groups, rows),
        corpus.positive_groups[queries], config,
        functools.partial(corpus.has_answer, queries, rows),
    ))
  joined = {name: np.concatenate(values, axis=1)
            for name, values in made.items()}
  usable = (joined['rows'] >= 0) & (joined['dropped_by'] == 0)
  if len(parts) > 1:
    groups = pool_lib.groups_of(corpus.groups, joined['rows'])
    joined['dropped_by'][filters.repeated(groups, usable)] = pool_lib.code(
        'duplicate'
    )
  return joined
