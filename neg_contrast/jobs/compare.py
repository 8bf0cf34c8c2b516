"""Compares finished runs: seeds put together, differences, tables, figures."""

import dataclasses
import json
import pathlib

from neg_contrast.artifacts import artifact
from neg_contrast.evaluation import comparison, finished_runs, run_groups
from neg_contrast.jobs.common import listed_names
from neg_contrast.report import comparison_report
from neg_contrast.settings import config as config_lib


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=compare`."""
  if not config.compare.workdirs:
    raise config.error('compare.workdirs', 'is needed: finished runs, such as '
                       "('workdirs/bm25-*','workdirs/random-*')")
  listed_names.check(config, 'compare.workdirs')


class CompareJob:
  """`job=compare`: reads what runs have left, and makes nothing that they did.
  """

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._settings, self._workdir = config.compare, workdir

  def targets(self) -> list[artifact.Artifact]:
    """Nothing: all of it is there."""
    return []

  def finish(self) -> None:
    """Writes tables, figures and the page, and prints the tables.

    Raises:
      UserError: the runs can't be compared; names a workdir and the remedy.
    """
    print('\n' + comparison_report.write(self._workdir, [
        comparison.compare(rows, self._settings, group)
        for group, rows in self.rows().items()
    ], self._workdir.name))

  def rows(self) -> dict[str, list[run_groups.Row]]:
    """What is compared: one table, without a name.

    Raises:
      UserError: a workdir is not there, or holds no such evaluation.
    """
    settings = self._settings
    rows = run_groups.group([
        run for folder in finished_runs.find_workdirs(settings.workdirs)
        for run in finished_runs.read_workdir(
            folder, settings.systems, settings.dataset
        )
    ], json.loads(json.dumps(config_lib.to_dict(config_lib.Config()))))
    names = settings.names or tuple(row.name for row in rows)
    if len(names) != len(rows) or len(set(names)) < len(names):
      raise settings.error('names', 'has to name each row, differently: '
                           + '; '.join(row.name for row in rows))
    return {'': [dataclasses.replace(row, name=name)
                 for row, name in zip(rows, names, strict=True)]}
