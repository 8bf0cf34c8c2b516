"""Run files of other programs, and rankings by ids as rows of a corpus."""

import pathlib
from collections.abc import Iterable

import numpy as np
from absl import logging

from neg_contrast import errors
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data.formats import files, zeshel
from neg_contrast.evaluation import trec
from neg_contrast.retrieval import hits


def read_run(path: pathlib.Path) -> trec.Run:
  """A run file: TREC's, or Zeshel's candidates (.json).

  Raises:
    UserError: it is no such file.
  """
  is_json = files.plain_name(path).endswith('.json')
  return zeshel.read_candidates(path) if is_json else trec.read_run(path)


def read_runs(paths: Iterable[pathlib.Path]) -> trec.Run:
  """Run files of different queries as one.

  Raises:
    UserError: one is no run file, or a query is in two of them.
  """
  joined: trec.Run = {}
  for path in paths:
    run = read_run(path)
    repeated = next((query for query in run if query in joined), None)
    if repeated is not None:
      raise errors.UserError(
          f'{path}: query "{repeated}" was in a run file before; name files of '
          'different queries'
      )
    joined.update(run)
  return joined


def run_name(path: pathlib.Path) -> str:
  """The system of a run file, after its name."""
  return path.name.removesuffix('.gz').rpartition('.')[0] or path.name


def missing_run(path: pathlib.Path) -> str | None:
  """What is wrong with the place of a run file."""
  return None if path.is_file() else f'{path}: no such file'


def to_ids(
    found: hits.Hits, query_rows: np.ndarray, prepared: prepared_lib.Prepared
) -> trec.Run:
  """Hits as a run with ids.

  Args:
    found: rows and scores.
    query_rows: `[queries] int32`, whose hits they are.
    prepared: has the ids.
  """
  return {
      prepared.query_ids[query].decode(): [
          (prepared.passage_ids[row].decode(), float(score))
          for row, score in zip(rows, scores, strict=True)
          if row >= 0
      ]
      for query, rows, scores in zip(
          query_rows, found.rows, found.scores, strict=True
      )
  }


def to_rows(
    run: trec.Run,
    query_rows: np.ndarray,
    prepared: prepared_lib.Prepared,
    depth: int,
) -> hits.Hits:
  """A run as rows, for the queries of a split; the inverse of `to_ids`.

  Passages of other worlds than the query's are left out.

  Args:
    run: passage ids of each query id, best first.
    query_rows: `[queries] int32` of the split.
    prepared: has the ids.
    depth: passages of a query that are kept.

  Raises:
    UserError: it ranks a passage that the corpus does not have, or none for any
      query of the split.
  """
  shape = (len(query_rows), depth)
  found = hits.Hits(np.full(shape, -1, np.int32),
                    np.full(shape, -np.inf, np.float32))
  has_worlds, foreign = bool(prepared.worlds), 0
  for number, query in enumerate(query_rows):
    place = 0
    for name, score in run.get(prepared.query_ids[query].decode(), []):
      if place == depth:
        break
      row = prepared.passage_ids.row_of(name)
      if row is None:
        raise errors.UserError(
            f'passage "{name}" is not in {prepared.manifest["spec"]}; give '
            'the corpus that the run was made with'
        )
      if has_worlds and (
          prepared.passage_worlds[row] != prepared.query_worlds[query]
      ):
        foreign += 1
        continue
      found.rows[number, place] = row
      found.scores[number, place] = score
      place += 1
  if foreign:
    logging.warning('the run ranks %d passages of other worlds than their '
                    'queries\'; they are left out', foreign)
  _check_queries(run, found, prepared)
  return found


def _check_queries(
    run: trec.Run, found: hits.Hits, prepared: prepared_lib.Prepared
) -> None:
  """Warns of queries that only the run or only the split has.

  Raises:
    UserError: the two share none.
  """
  ranked = int((found.rows[:, 0] >= 0).sum())
  if ranked < len(found.rows):
    logging.warning('the run ranks %d of the %d queries of the split; the '
                    'others count as not found', ranked, len(found.rows))
  if len(run) > ranked > 0:  # Other splits are no mistake; other data may be.
    known = {name.decode() for name in prepared.query_ids}
    unknown = [name for name in run if name not in known]
    if unknown:
      logging.warning(
          'the run ranks %d queries that %s does not have, such as "%s"; '
          'they are left out', len(unknown), prepared.manifest['spec'],
          unknown[0],
      )
  if not ranked:
    raise errors.UserError(
        'it ranks nothing for the queries of the split; give a run of theirs, '
        'or name the split that it was made for with '
        f'--{errors.key("data.split")}; trainings and ensembles have '
        'data.tune_split and data.test_split'
    )
