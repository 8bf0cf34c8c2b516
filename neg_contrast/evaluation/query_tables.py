"""Tables of a ranking, query by query: `per_query.tsv` and DPR's json."""

import pathlib
from collections.abc import Iterator, Mapping

import numpy as np
from absl import logging

from neg_contrast import errors
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.evaluation import dpr_results, per_query
from neg_contrast.retrieval import hits

DPR_FILE = 'results.json'
"""In the folder of an evaluation."""


def write_per_query(
    folder: pathlib.Path,
    prepared: prepared_lib.Prepared,
    judgements: prepared_lib.Judgements,
    found: hits.Hits,
    by_query: Mapping[str, Mapping[str, float]],
) -> None:
  """Writes `per_query.tsv`; where an id cannot be written, warns.

  Args:
    folder: of the evaluation.
    prepared: queries and passages.
    judgements: of the split.
    found: the ranking of its queries.
    by_query: metric -> query id -> value.
  """
  try:
    per_query.write(
        folder / per_query.FILE,
        _results(prepared, judgements, found, by_query), list(by_query),
    )
  except errors.UserError as e:
    logging.warning('%s: no per_query.tsv is written: %s', folder, e)


def write_dpr(
    folder: pathlib.Path,
    prepared: prepared_lib.Prepared,
    query_rows: np.ndarray,
    found: hits.Hits,
    rule: str,
) -> None:
  """Writes `results.json`, which readers in DPR's form take.

  Args:
    folder: of the evaluation.
    prepared: queries and passages.
    query_rows: `[queries] int32`.
    found: their ranking.
    rule: how answers are found, see `answers.has_answer`.
  """
  dpr_results.write(folder / DPR_FILE,
                    _dpr_results(prepared, query_rows, found), rule)


def _results(
    prepared: prepared_lib.Prepared,
    judgements: prepared_lib.Judgements,
    found: hits.Hits,
    by_query: Mapping[str, Mapping[str, float]],
) -> Iterator[per_query.Result]:
  positives = _positive_rows(judgements)
  for row, ranking in zip(
      judgements.queries.tolist(), found.rows, strict=True
  ):
    query, right = prepared.queries[row], positives.get(row, set())
    ranks = [rank for rank, passage in enumerate(ranking.tolist(), start=1)
             if passage in right]
    first = int(ranking[0])
    yield per_query.Result(
        query.id, query.text, ranks[0] if ranks else None,
        prepared.passage_ids[first].decode() if first >= 0 else '',
        first in right, tuple(query.answers),
        {metric: values[query.id] for metric, values in by_query.items()
         if query.id in values},
    )


def _positive_rows(
    judgements: prepared_lib.Judgements,
) -> dict[int, set[int]]:
  """Passage rows of each query that has a positive."""
  rows: dict[int, set[int]] = {}
  is_positive = judgements.grades > 0
  for query, passage in zip(
      judgements.query_rows[is_positive].tolist(),
      judgements.passage_rows[is_positive].tolist(), strict=True,
  ):
    rows.setdefault(query, set()).add(passage)
  return rows


def _dpr_results(
    prepared: prepared_lib.Prepared, query_rows: np.ndarray, found: hits.Hits
) -> Iterator[dpr_results.Result]:
  for row, ranking, scores in zip(
      query_rows.tolist(), found.rows, found.scores, strict=True
  ):
    query = prepared.queries[row]
    passages = [
        (prepared.passages[int(passage)], float(score))
        for passage, score in zip(ranking, scores, strict=True)
        if passage >= 0
    ]
    yield dpr_results.Result(query.text, query.answers, [
        dpr_results.Passage(passage.id, passage.title, passage.text, score)
        for passage, score in passages
    ])
