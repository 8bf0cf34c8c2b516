"""The scores of a finished run, read where they are guarded.

These are the manifests of evaluations, which have checksums, and other results
that have them. What lies beside them for people (`metrics.json`,
`comparison.json`) has to say the same.
"""

import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import artifact, plan
from neg_contrast.data.formats import python_docs
from neg_contrast.evaluation import (
  evaluations,
  finished_runs,
  run_groups,
  summary,
  tampering,
)
from neg_contrast.report import comparison_report, expected

_DIGITS = 12  # Of a fingerprint.


def scores_of(
    job: Any, name: str, workdir: pathlib.Path
) -> list[expected.Score]:
  """What a finished run reached; nothing is run for it.

  Args:
    job: of the run.
    name: `config.job`.
    workdir: of the run.

  Raises:
    UserError: it is not finished, was changed, or leaves no scores.
  """
  targets = job.targets()
  to_do = plan.unfinished(targets)
  if to_do:
    raise errors.UserError(
        f'{workdir}: is not finished: "{to_do[0].title}" is to do'
        + (f', and {len(to_do) - 1} more' if len(to_do) > 1 else '')
        + '. Run the same command without --check first; --plan shows all'
    )
  if hasattr(job, 'rows'):
    return _of_rows(job.rows, workdir)
  if hasattr(job, 'metrics'):
    return _of_metrics(job.metrics(), targets, workdir)
  evaluated = [one for one in targets
               if isinstance(one, evaluations.Evaluation)]
  if not evaluated:
    raise errors.UserError(f'--check: job={name} leaves no scores to check')
  return _of_evaluations(evaluated, workdir)


def _of_evaluations(
    evaluated: Sequence[evaluations.Evaluation], workdir: pathlib.Path
) -> list[expected.Score]:
  """Those of a training, an evaluation, an ensemble, a table, a reranking.

  Systems that lie in folders of the workdir have the folder before their name.
  """
  runs = [finished_runs.read(one.folder, one.workdir, one.ranking.name)
          for one in evaluated]
  tampering.check_runs(runs, is_whole=True)
  return [
      expected.Score(
          run.dataset,
          (run.workdir.relative_to(workdir) / run.system).as_posix(), metric,
          (value,), _data_of(run), run.revision, run.date,
      ) for run in runs for metric, value in run.means.items()
  ]


def _of_rows(rows_of: Any, workdir: pathlib.Path) -> list[expected.Score]:
  """Those of a study, a sweep or a comparison: means of rows over seeds.

  A row of a table with a title has it before its name.
  """
  path = workdir / f'{comparison_report.NAME}.json'
  if not path.exists():
    raise errors.UserError(
        f'{path}: no such file: the run is not finished. Run the same command '
        'without --check first'
    )
  tables: dict[str, list[run_groups.Row]] = rows_of()
  runs = [run for rows in tables.values() for row in rows for run in row.runs]
  tampering.check_runs(runs, is_whole=False)
  scores = [
      expected.Score(
          row.runs[0].dataset, '/'.join(filter(None, (title, row.name))),
          metric, tuple(comparison_report.by_seed(
              [run.seed for run in row.runs],
              [run.means[metric] for run in row.runs])),
          _data_of(row.runs[0]), row.runs[0].revision, row.runs[0].date,
      )
      for title, rows in tables.items() for row in rows
      for metric in row.runs[0].means
      if all(metric in run.means for run in row.runs)
  ]
  tampering.check_equal(path, comparison_report.read(path), {
      '/'.join(score.key): list(score.by_seed) for score in scores
  }, 'it was changed by hand, or written with other rows or seeds')
  return scores


def _of_metrics(
    metrics: Mapping[str, float], targets: Sequence[artifact.Artifact],
    workdir: pathlib.Path,
) -> list[expected.Score]:
  """Those of a job that writes its own `metrics.json`."""
  tampering.check_metrics(workdir, metrics, metrics)
  revision = finished_runs.revision_of(targets[0].load())
  date = finished_runs.date_of(workdir / summary.FILE)
  scores = []
  for key, value in metrics.items():
    dataset, system, metric = key.rsplit('/', 2)
    scores.append(expected.Score(dataset, system, metric, (value,),
                                 revision=revision, date=date))
  return scores


def _data_of(run: finished_runs.FinishedRun) -> str:
  """The state of the data: its fingerprint, shortened.

  Of `python_docs` it is the version of Python, as `python 3.11`: the
  documentation of 3.11.7 and 3.11.8 differs by few words.
  """
  if run.dataset.partition('/')[0] == python_docs.FORMAT.scheme:
    return 'python {}.{}'.format(*sys.version_info)
  data = run.state[1]
  return data['data'][:_DIGITS] if data else ''
