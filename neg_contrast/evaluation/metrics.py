"""Retrieval metrics, computed by trec_eval (through pytrec_eval)."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Int

from neg_contrast import errors
from neg_contrast.data import answers as answer_rule
from neg_contrast.evaluation import linking, trec

# Our names, and the measures of trec_eval that hold their values.
_CUT_MEASURES = {
    'accuracy': 'success',
    'recall': 'recall',
    'precision': 'P',
    'ndcg': 'ndcg_cut',
}
_FORMS = (
    *(f'{name}@k' for name in _CUT_MEASURES), 'mrr@k', 'mrr', 'map'
)
_MACRO = 'macro_'


@dataclasses.dataclass(frozen=True)
class Scores:
  """Metrics of one run.

  Attributes:
    per_query: metric → query id → value, for every query of the judgements;
      without macro metrics, but with those that they are made of.
    mean: metric → mean over those queries; of a macro metric, over worlds.
    per_world: world → metric of `per_query` → mean; and `queries`, how many.
  """

  per_query: dict[str, dict[str, float]]
  mean: dict[str, float]
  per_world: dict[str, dict[str, float]]


@dataclasses.dataclass(frozen=True)
class _Metric:
  """A metric in trec_eval's terms; `floor` is the least value that counts."""

  measure: str
  floor: float = 0.0


def evaluate(
    qrels: Mapping[str, Mapping[str, int]],
    run: Mapping[str, Iterable[tuple[str, float]]],
    metrics: Sequence[str],
    relevance_level: int = 1,
    worlds: Mapping[str, str] | None = None,
) -> Scores:
  """Scores a run against judgements.

  As `trec_eval -c`, means are over all queries of the judgements: one that the
  run lacks, or without any positive, has 0 in every metric. Without -c,
  trec_eval averages over the queries that both have. Queries that only the run
  has are ignored.

  Args:
    qrels: grade of each judged passage, by query.
    run: (passage id, score) pairs of each query in any order; they are ranked
      by `trec.ranked`.
    metrics: `accuracy@k` (a positive in the top k; trec_eval's success),
      `recall@k`, `precision@k`, `ndcg@k` (gain = grade, whatever the relevance
      level), `mrr@k` (0 when the first positive is below k), `mrr`, `map`;
      any of them after `macro_`: the mean over worlds of their means.
    relevance_level: the least grade of a positive.
    worlds: of each query of the judgements; None: all are of one.

  Returns:
    Values per query and means, under the names asked for.

  Raises:
    UserError: an unknown metric.
    ValueError: no queries are judged, a passage is ranked twice, or a score is
      NaN.
  """
  if not qrels:
    raise ValueError('there are no judgements to evaluate against')
  parsed = {name.removeprefix(_MACRO): _parse(name) for name in metrics}
  values = _measure(
      qrels, run, {metric.measure for metric in parsed.values()},
      relevance_level,
  )
  per_query = {
      name: {query: _value(values.get(query, {}), metric) for query in qrels}
      for name, metric in parsed.items()
  }
  per_world = linking.by_world(per_query, worlds) if per_query else {}
  return Scores(per_query, {
      name: linking.over_worlds(per_world, name.removeprefix(_MACRO))
      if name.startswith(_MACRO)
      else float(np.mean(list(per_query[name].values())))
      for name in metrics
  }, per_world)


def check_names(names: Iterable[str]) -> None:
  """Refuses metrics that there are none of.

  Raises:
    UserError: names the first and the key.
  """
  for name in names:
    try:
      _parse(name)
    except errors.UserError as e:
      raise errors.UserError(f'config.evaluation.metrics: {e}') from None


def _parse(name: str) -> _Metric:
  """What trec_eval measures for the metric `name`."""
  full, name = name, name.removeprefix(_MACRO)
  if name == 'map':
    return _Metric('map')
  if name == 'mrr':
    return _Metric('recip_rank')
  base, _, cut = name.partition('@')
  if re.fullmatch('[1-9][0-9]*', cut):
    if base == 'mrr':
      # trec_eval has no cut: 1/rank falls below 1/k where rank exceeds k.
      return _Metric('recip_rank', floor=1 / int(cut))
    if base in _CUT_MEASURES:
      return _Metric(f'{_CUT_MEASURES[base]}_{cut}')
  raise errors.UserError(
      f'no metric {full!r}; there are {", ".join(_FORMS)} (k = 1, 2, ...), '
      f'and {_MACRO}accuracy@k and the like'
  )


def _measure(
    qrels: Mapping[str, Mapping[str, int]],
    run: Mapping[str, Iterable[tuple[str, float]]],
    measures: set[str],
    relevance_level: int,
) -> dict[str, dict[str, float]]:
  """Query → measure → value, for the queries that both sides have."""
  import pytrec_eval

  evaluator = pytrec_eval.RelevanceEvaluator(
      {query: dict(judged) for query, judged in qrels.items()},
      measures,
      relevance_level,
  )
  return evaluator.evaluate({
      query: _distinct_scores(trec.ranked(run[query]))
      for query in qrels if query in run
  })


def _distinct_scores(ranking: trec.Ranking) -> dict[str, float]:
  """n, n - 1, ..., 1: no ties are left for a library to break its own way."""
  return {
      passage: float(len(ranking) - i)
      for i, (passage, _) in enumerate(ranking)
  }


def _value(measured: Mapping[str, float], metric: _Metric) -> float:
  value = measured.get(metric.measure, 0.0)
  return value if value >= metric.floor else 0.0


def answer_accuracy(
    rows: Int[np.ndarray, 'queries depth'],
    text_of: Callable[[int], str],
    answers: Sequence[Sequence[str]],
    ks: Sequence[int],
    rule: str = 'string',
) -> dict[str, Bool[np.ndarray, 'queries']]:
  """Whether an answer is found in the top k passages (DPR's top-k accuracy).

  Args:
    rows: [queries, depth] corpus rows, best first, -1 where there are no more.
    text_of: the text of a row, without its title; asked for only until the
      first hit of a query, and never below max(ks).
    answers: the answers (or patterns) of each query.
    ks: the cuts.
    rule: see `answers.has_answer`.

  Returns:
    `answer_accuracy@k` → [queries] bool, for each k.

  Raises:
    UserError: an answer pattern backtracks without end.
    ValueError: rows and answers differ in number, or a k exceeds the depth.
  """
  if len(rows) != len(answers):
    raise ValueError(f'{len(rows)} rankings but answers of {len(answers)}')
  deepest = max(ks, default=0)
  if deepest > rows.shape[1]:
    raise ValueError(f'k = {deepest} is beyond the depth {rows.shape[1]}')
  first_hits = np.array([
      _first_hit(ranking[:deepest], text_of, wanted, rule)
      for ranking, wanted in zip(rows, answers, strict=True)
  ], np.int64)
  return {f'answer_accuracy@{k}': first_hits < k for k in ks}


def _first_hit(
    ranking: Int[np.ndarray, 'depth'],
    text_of: Callable[[int], str],
    answers: Sequence[str],
    rule: str,
) -> int:
  """The position of the first passage with an answer; len(ranking) if none."""
  for position, row in enumerate(ranking.tolist()):
    if row >= 0 and answer_rule.has_answer(text_of(row), answers, rule):
      return position
  return len(ranking)


def format_table(rows: Mapping[str, Mapping[str, float]]) -> str:
  """A plain text table: a system a line, a metric a column.

  Args:
    rows: system → metric → value; '-' stands where a system lacks a metric.

  Returns:
    Aligned lines without a final newline, values to four decimals.
  """
  metrics = list(dict.fromkeys(name for row in rows.values() for name in row))
  cells = [['system', *metrics]]
  for system, row in rows.items():
    cells.append([
        system, *(f'{row[m]:.4f}' if m in row else '-' for m in metrics)
    ])
  widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
  return '\n'.join(
      '  '.join([
          line[0].ljust(widths[0]),
          *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True)),
      ]).rstrip()
      for line in cells
  )
