"""Several runs side by side: means over seeds, and differences by query.

Differences are paired by query, each query's value being the mean over the
seeds. Intervals and tests are over the queries: they cover the choice of
queries, not that of seeds, whose spread stands beside them.
"""

import dataclasses
import statistics
from collections.abc import Sequence

from neg_contrast import errors
from neg_contrast.evaluation import finished_runs, run_groups, significance
from neg_contrast.evaluation import metrics as metrics_lib
from neg_contrast.evaluation.metrics import metric as metric_lib
from neg_contrast.settings import config as config_lib


@dataclasses.dataclass(frozen=True)
class Mean:
  """A metric of a row.

  Attributes:
    by_seed: one value for each run of the row.
  """

  by_seed: tuple[float, ...]

  @property
  def value(self) -> float:
    """Mean over the seeds."""
    return statistics.fmean(self.by_seed)

  @property
  def deviation(self) -> float | None:
    """Standard deviation over the seeds, of a sample; None for one seed."""
    return statistics.stdev(self.by_seed) if len(self.by_seed) > 1 else None


@dataclasses.dataclass(frozen=True)
class Comparison:
  """Rows that were measured on the same queries.

  Attributes:
    title: above it; may be empty.
    rows: in their order.
    metrics: columns.
    baseline: name of the row that the others are compared to.
    pairs: differences to it, and whether chance explains them, by metric.
  """

  title: str
  rows: tuple[run_groups.Row, ...]
  metrics: tuple[str, ...]
  baseline: str
  pairs: tuple[significance.Pair, ...]

  @property
  def dataset(self) -> str:
    """`<dataset>/<split>`."""
    return self.rows[0].runs[0].dataset

  @property
  def queries(self) -> int:
    """How many were measured, in the metric with the most."""
    values = self.rows[0].runs[0].values.values()
    return max(map(len, values), default=0)

  def mean(self, row: run_groups.Row, metric: str) -> Mean:
    """What a row reached."""
    return Mean(tuple(run.means[metric] for run in row.runs))

  def pair(self, row: run_groups.Row, metric: str) -> significance.Pair | None:
    """Its difference to the baseline; None where there is none."""
    return next((pair for pair in self.pairs
                 if (pair.system, pair.metric) == (row.name, metric)), None)

  def differences(self, row: run_groups.Row, metric: str) -> dict[str, float]:
    """The difference to the baseline with each seed that both ran with.

    Args:
      row: of the comparison.
      metric: one of the columns.

    Returns:
      Seed -> difference. A row that all seeds share, such as BM25, and a
      baseline that ran once are those of all seeds. Of runs that differ in the
      seed of an earlier stage alone, the second is called `SEED (2)`.
    """
    base = next(one for one in self.rows if one.name == self.baseline).runs
    found: dict[str, float] = {}
    for run, other in (
        [(row.runs[0], other) for other in base] if row.is_shared
        else [(run, base[0] if len(base) == 1 else _partner(run, base))
              for run in row.runs]
    ):
      if other is None:
        continue
      name = str((other if row.is_shared else run).seed)
      again = sum(key.partition(' ')[0] == name for key in found)
      found[f'{name} ({again + 1})' if again else name] = (
          run.means[metric] - other.means[metric])
    return found


def compare(
    rows: Sequence[run_groups.Row],
    settings: config_lib.CompareConfig,
    title: str = '',
) -> Comparison:
  """Compares rows.

  Args:
    rows: one alone has means over its seeds, and nothing to compare with.
    settings: metrics and baseline.
    title: above the table.

  Raises:
    UserError: they were not measured on the same queries in the same metrics;
      names a workdir and the remedy.
  """
  runs = [run for row in rows for run in row.runs]
  for run in runs[1:]:
    _check_same_data(run, runs[0])
  metrics = settings.metrics or tuple(dict.fromkeys(
      name for run in runs for name in run.means
      if not _has_queries_of_its_own(name, runs)
  ))
  for run in runs:
    _check_metrics(run, metrics, runs)
  for run in runs[1:]:
    _check_same_rules(run, runs[0], metrics)
    _check_same_queries(run, runs[0], metrics)
  baseline = settings.baseline or next(
      (row.name for row in rows if not row.is_shared), rows[0].name
  )
  if baseline not in [row.name for row in rows]:
    raise errors.SettingError(
        'compare.baseline', baseline, 'is none of the rows: '
        + '; '.join(row.name for row in rows)
    )
  pairs = significance.against(baseline, {
      row.name: _over_seeds(row, metrics) for row in rows
  })
  return Comparison(title, tuple(rows), metrics, baseline, tuple(pairs))


def _has_queries_of_its_own(
    name: str, runs: Sequence[finished_runs.FinishedRun]
) -> bool:
  """Whether it is of queries whose candidates hold a positive, and these
  differ."""
  needs = metrics_lib.parse(name).metric.needs
  queries = [run.values.get(metrics_lib.of_queries(name), {}).keys()
             for run in runs]
  return metric_lib.CANDIDATES in needs and any(
      one != queries[0] for one in queries)


def _partner(
    run: finished_runs.FinishedRun, base: Sequence[finished_runs.FinishedRun]
) -> finished_runs.FinishedRun | None:
  """The run of the baseline with the same seed; of several, with all seeds."""
  same = [one for one in base if one.seed == run.seed]
  if len(same) < 2:
    return same[0] if same else None
  seeds = lambda one: run_groups.seeds(one.config or {})
  return next((one for one in same if seeds(one) == seeds(run)), None)


def _over_seeds(
    row: run_groups.Row, metrics: Sequence[str]
) -> significance.Values:
  """Metric -> query id -> mean over the seeds."""
  return {
      metric: {
          query: statistics.fmean(run.values[metric][query] for run in row.runs)
          for query in row.runs[0].values[metric]
      } for metric in metrics if metric in row.runs[0].values
  }


def _check_same_data(
    run: finished_runs.FinishedRun, other: finished_runs.FinishedRun
) -> None:
  """Refuses runs on different data."""
  if run.dataset != other.dataset:
    raise errors.UserError(
        f'{run.workdir}: was evaluated on {run.dataset}, and {other.workdir} '
        f'on {other.dataset}; compare them in two commands, or choose one that '
        f'all have with --{errors.key("compare.dataset")}'
    )
  if run.state != other.state:
    raise errors.UserError(
        f'{run.workdir}: was evaluated on another state of {run.dataset} '
        f'({run.state[0]} passages) than {other.workdir} ({other.state[0]} '
        'passages); run the command of the older one again, which evaluates '
        'it on the data as they are now'
    )


def _check_metrics(
    run: finished_runs.FinishedRun,
    metrics: Sequence[str],
    runs: Sequence[finished_runs.FinishedRun],
) -> None:
  """Refuses a run that lacks a metric."""
  known = {name: other for other in runs for name in other.means}
  for name in metrics:
    if name not in run.means:
      other = known.get(name)
      where = f', which {other.workdir} has' if other else ''
      raise errors.UserError(
          f'{run.workdir}: has no {name}{where}; run its command again with '
          f'that in --config.evaluation.metrics, or choose others with '
          f'--{errors.key("compare.metrics")} (it has {", ".join(run.means)})'
      )


def _check_same_rules(
    run: finished_runs.FinishedRun,
    other: finished_runs.FinishedRun,
    metrics: Sequence[str],
) -> None:
  """Refuses a metric that is of more passages, or other matches, in one run."""
  for name in metrics:
    needs = metrics_lib.parse(name).metric.needs
    rule = ('answer_rule' if metric_lib.ANSWERS in needs else
            'depth' if metric_lib.DOCUMENTS in needs or '@' not in name else '')
    ours, theirs = run.rules.get(rule), other.rules.get(rule)
    if None not in (ours, theirs) and ours != theirs:
      raise errors.UserError(
          f'{run.workdir}: {name} was measured with '
          f'{errors.key("evaluation")}.{rule}={ours}, and that of '
          f'{other.workdir} with {theirs}; evaluate both alike'
      )


def _check_same_queries(
    run: finished_runs.FinishedRun,
    other: finished_runs.FinishedRun,
    metrics: Sequence[str],
) -> None:
  """Refuses runs that were measured on other queries."""
  for name in metrics:
    ours = run.values.get(name, {}).keys()
    theirs = other.values.get(name, {}).keys()
    if ours != theirs:
      raise errors.UserError(
          f'{run.workdir}: was measured in {name} on {len(ours)} queries, and '
          f'{other.workdir} on {len(theirs)}, {len(ours & theirs)} of them the '
          'same; evaluate both again on the same split'
      )
