"""The table of metrics, and the scores of a ranking in any of them.

A metric is a class of `metric.Metric` in a file of this folder and a line in
`METRICS`. Configs write it under that name, with a number for `k`; after
`macro_` it is the mean over worlds of their means, and after `micro_`, where
that is its mean already, the mean over queries.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from neg_contrast import errors
from neg_contrast.evaluation import worlds as worlds_lib
from neg_contrast.evaluation.metrics import (
  answer_accuracy,
  documents,
  linking,
  metric,
  trec_eval,
)

METRICS: dict[str, metric.Metric] = {
    **dict.fromkeys(trec_eval.MEASURES, trec_eval.TrecEval()),
    'answer_accuracy@k': answer_accuracy.AnswerAccuracy(),
    **dict.fromkeys(linking.NAMES, linking.Linking()),
    **dict.fromkeys(documents.NAMES, documents.Documents()),
}

_MACRO, _MICRO = 'macro_', 'micro_'


@dataclasses.dataclass(frozen=True)
class Scores:
  """Metrics of one run.

  Attributes:
    per_query: metric → query id → value; without `macro_` and `micro_`.
    mean: name as asked for → mean over queries or worlds.
    per_world: world → metric of `per_query` → mean; and `queries`, how many.
  """

  per_query: dict[str, dict[str, float]]
  mean: dict[str, float]
  per_world: dict[str, dict[str, float]]


@dataclasses.dataclass(frozen=True)
class Parsed:
  """A metric as a config names it.

  Attributes:
    name: as given.
    asked: the same without `macro_` and `micro_`, with its cut.
    metric: that measures it.
  """

  name: str
  asked: metric.Asked
  metric: metric.Metric

  @property
  def is_over_worlds(self) -> bool:
    """Whether the mean is over worlds."""
    return self.metric.is_over_worlds != (self.name != self.asked.name)


def parse(name: str) -> Parsed:
  """The metric that a name stands for.

  Raises:
    UserError: there is no such metric; names all there are.
  """
  for prefix in ('', _MACRO, _MICRO):
    base = name.removeprefix(prefix)
    form = re.sub('@[1-9][0-9]*$', '@k', base)
    known = METRICS.get(form)
    if not name.startswith(prefix) or known is None or (
        form == base and base.endswith('@k')
    ):
      continue
    if not prefix or (prefix == _MICRO) == known.is_over_worlds:
      cut = int(base.rpartition('@')[2]) if form != base else None
      return Parsed(name, metric.Asked(base, form, cut), known)
  raise errors.UserError(
      f'no metric {name!r}; there are {", ".join(METRICS)} (k = 1, 2, ...), '
      f'and {_MACRO}accuracy@k and the like'
  )


def check_names(
    names: Iterable[str], key: str = 'evaluation.metrics'
) -> None:
  """Refuses metrics that there are none of.

  Args:
    names: of metrics.
    key: that holds them.

  Raises:
    UserError: names the first and the key.
  """
  for name in names:
    try:
      parse(name)
    except errors.UserError as e:
      raise errors.UserError(f'{errors.key(key)}: {e}') from None


def check_criterion(name: str, has_candidates: bool = False) -> None:
  """Refuses a criterion of early stopping that can't be measured.

  Args:
    name: of the metric.
    has_candidates: whether candidates are ranked anew.

  Raises:
    UserError: there is no such metric, or it needs candidates.
  """
  check_names([name], 'evaluation.criterion')
  if metric.CANDIDATES in parse(name).metric.needs and not has_candidates:
    raise errors.SettingError(
        'evaluation.criterion', name,
        'is of what is ranked anew (job=train_reranker); choose another '
        'metric, such as accuracy@1'
    )


def of_queries(name: str) -> str:
  """The name of a mean over queries of what a metric measures on each."""
  try:
    return _MICRO + name if parse(name).is_over_worlds else name
  except errors.UserError:
    return name


def less_is_better(name: str) -> bool:
  """Whether the smaller of two means is better; not so of unknown metrics."""
  try:
    return parse(name).metric.less_is_better
  except errors.UserError:
    return False


def best(name: str, values: Iterable[float]) -> float:
  """The best of some means of a metric; there is at least one."""
  return min(values) if less_is_better(name) else max(values)


def names_with(need: str) -> tuple[str, ...]:
  """All metrics without a cut that have a need, by each of their means."""
  return tuple(
      prefix + name for name, known in METRICS.items()
      if need in known.needs and not name.endswith('@k')
      for prefix in (('', _MICRO) if known.is_over_worlds else ('',))
  )


def score(ranking: metric.Ranking, names: Sequence[str]) -> Scores:
  """Scores a ranking.

  Args:
    ranking: and what is known of its queries.
    names: of metrics. Those that need what is not known are left out.

  Returns:
    Values per query and means, in the order of `names`.

  Raises:
    UserError: an unknown metric.
    ValueError: a passage is ranked twice, or a score is NaN.
  """
  parsed = [one for one in map(parse, names)
            if set(one.metric.needs) <= ranking.known]
  groups: dict[metric.Metric, dict[str, metric.Asked]] = {}
  for one in parsed:
    groups.setdefault(one.metric, {})[one.asked.name] = one.asked
  measured: dict[str, dict[str, float]] = {}
  for known, asked in groups.items():
    measured |= known.values(ranking, list(asked.values()))
  per_query = {one.asked.name: measured[one.asked.name] for one in parsed}
  per_world = worlds_lib.by_world(per_query, ranking.worlds)
  return Scores(
      per_query,
      {one.name: _mean(one, per_query, per_world) for one in parsed},
      per_world,
  )


def _mean(
    parsed: Parsed,
    per_query: Mapping[str, Mapping[str, float]],
    per_world: Mapping[str, Mapping[str, float]],
) -> float:
  if parsed.is_over_worlds:
    return worlds_lib.over_worlds(per_world, parsed.asked.name)
  values = list(per_query[parsed.asked.name].values())
  return float(np.mean(values)) if values else 0.0
