"""Whether the numbers of a finished run are still those that were measured.

Checksums notice damage when a file is read. `metrics.json` is written for
people and other programs, and has none; and a checksum can be made again. So
values are held against each other.
"""

import math
import pathlib
import statistics
from collections.abc import Iterable, Mapping, Sequence

from neg_contrast import errors
from neg_contrast.artifacts import folders, places
from neg_contrast.evaluation import (
  evaluations,
  finished_runs,
  metrics,
  summary,
)

_ROUNDING = 1e-9  # Of a mean of doubles, summed in another order.


def check_runs(
    runs: Sequence[finished_runs.FinishedRun], is_whole: bool
) -> None:
  """Refuses runs whose numbers were changed by hand.

  Args:
    runs: evaluations.
    is_whole: whether their workdirs have to hold `metrics.json`; those that are
      compared may lack it.

  Raises:
    UserError: names the file and the metric.
  """
  keys: dict[pathlib.Path, list[str]] = {}
  for run in runs:
    check_means(run)
    keys.setdefault(run.workdir, []).extend(
        f'{run.dataset}/{run.system}/{metric}' for metric in run.means
    )
  for workdir, needed in keys.items():
    if is_whole or (workdir / summary.FILE).exists():
      check_metrics(workdir, values_of(workdir), needed)


def check_means(run: finished_runs.FinishedRun) -> None:
  """Refuses an evaluation whose means are not those of its queries.

  Means over worlds are left out.

  Raises:
    UserError: names the workdir, the system and the metric.
  """
  for metric, by_query in run.values.items():
    mean = run.means.get(metric)
    if mean is None or not by_query or metrics.parse(metric).is_over_worlds:
      continue
    of_queries = statistics.fmean(by_query.values())
    if not math.isclose(mean, of_queries, rel_tol=0, abs_tol=_ROUNDING):
      raise errors.UserError(
          f'{run.workdir}: {metric} of {run.system} on {run.dataset} is '
          f'{mean} in manifest.json, and {of_queries} in per_query.tsv: it was '
          'changed by hand. Remove that folder of evaluation/; the same '
          'command makes it again'
      )


def values_of(workdir: pathlib.Path) -> dict[str, float]:
  """`<dataset>/<split>/<system>/<metric>` -> value, of all evaluations there.

  Raises:
    UserError: one is damaged.
  """
  known: dict[str, float] = {}
  for folder in sorted((workdir / 'evaluation').glob('*')):
    if places.is_left(folder):
      continue
    manifest = evaluations.read_manifest(folder)
    if manifest is not None:
      known |= {f'{manifest["key"]}/{metric}': value
                for metric, value in manifest['metrics'].items()}
  return known


def check_metrics(
    workdir: pathlib.Path, known: Mapping[str, float], needed: Iterable[str]
) -> None:
  """Refuses a `metrics.json` that says something else than was measured.

  What a training found on the tune split while it ran, such as its calibration,
  has no evaluation, and is left out.

  Args:
    workdir: of the run.
    known: what was measured there.
    needed: keys that it has to hold; of others it may.

  Raises:
    UserError: it is not there, or names its first wrong key.
  """
  path = workdir / summary.FILE
  if not path.exists():
    raise errors.UserError(
        f'{path}: no such file: the run is not finished. Run the same command '
        'without --check first'
    )
  there = folders.read_json(path)
  there = there if isinstance(there, dict) else {}
  of_systems = {key.rpartition('/')[0] for key in (*known, *needed)}
  measured = [key for key in there if key.rpartition('/')[0] in of_systems
              or key.split('/')[-3:-2] != ['tune']]
  check_equal(
      path, {key: there.get(key) for key in (*measured, *needed)}, known)


def check_equal(
    path: pathlib.Path, there: Mapping[str, object],
    known: Mapping[str, object], cause: str = 'it was changed by hand',
) -> None:
  """Refuses a file of values that were not measured.

  Args:
    path: of the file, for the message.
    there: its values; None: it lacks the key.
    known: what was measured.
    cause: what may have happened, for the message.

  Raises:
    UserError: names the first key that differs.
  """
  for key, value in there.items():
    if known.get(key) != value:
      raise errors.UserError(
          f'{path}: {key} is {value}, and {known.get(key)} was measured: '
          f'{cause}. Run the same command without --check, which writes it '
          'again'
      )
