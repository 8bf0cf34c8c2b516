"""Runs many configs in one plan, and compares what they reach."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from neg_contrast import errors, jobs
from neg_contrast.artifacts import artifact
from neg_contrast.evaluation import (
  comparison,
  evaluations,
  finished_runs,
  run_groups,
)
from neg_contrast.jobs.common import compiled, declared_cells, study_checks
from neg_contrast.report import comparison_report
from neg_contrast.settings import config as config_lib

Evaluated = tuple[declared_cells.Cell, evaluations.Evaluation]


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=study`."""
  if not config.cells:
    raise config.error('cells', 'is needed: configs by table and row, as in '
                       'configs/study_negatives.py')
  study_checks.check_rows(config)
  for name, cell in config_lib.inner_configs(config):
    with errors.within(name):
      study_checks.check_cell(cell)


class StudyJob:
  """`job=study`: all `cells` with all seeds, and then `compare`."""

  def __init__(
      self, config: config_lib.Config, workdir: pathlib.Path,
      cells: Sequence[declared_cells.Cell] | None = None,
  ):
    """Reads nothing yet.

    Args:
      config: with the keys of `compare`.
      workdir: has a folder for each cell.
      cells: the runs; default: those of `config.cells`.

    Raises:
      UserError: a cell does not suit its job; or `compare` names a row or a
        metric that there will not be.
    """
    self._settings, self._workdir = config.compare, workdir
    self._cells = cells or declared_cells.cells_of(config, workdir)
    study_checks.check_compared(self._settings, self._cells)
    self._jobs = list(map(_make, self._cells))
    self._evaluated: list[Evaluated] = []
    self._shared: set[str] = set()  # Systems that several cells have alike.

  def targets(self) -> list[artifact.Artifact]:
    """What each run makes, once, with the evaluations that are compared.

    Raises:
      UserError: a run has none of them.
    """
    compiled.keep(self._workdir)
    targets: list[artifact.Artifact] = []
    seen: set[Any] = set()
    self._evaluated = []
    for cell, job in zip(self._cells, self._jobs, strict=True):
      with cell.within():
        made = job.targets()
        study_checks.check_evaluated(self._settings, made)
      for one in made:
        if isinstance(one, evaluations.Evaluation):
          what = cell.group, _what(one)
          if what in seen:
            self._shared.add(one.ranking.name)
          if what in seen or not study_checks.is_compared(self._settings, one):
            continue
          seen.add(what)
          self._evaluated.append((cell, one))
        targets.append(one)
    return targets

  def finish(self) -> None:
    """Writes tables, figures and the page, and prints the tables.

    Every run gets the files that its own command would leave, without the
    evaluations of systems that are not compared.
    """
    for cell, job in zip(self._cells, self._jobs, strict=True):
      if cell.is_outdated():
        with cell.within(), contextlib.redirect_stdout(None):
          job.finish()
        artifact.keep_only([], are_large=False)
    print('\n' + comparison_report.write(self._workdir, [
        comparison.compare(rows, self._settings, group)
        for group, rows in self.rows().items()
    ], self._workdir.name))

  def rows(self) -> dict[str, list[run_groups.Row]]:
    """What is compared, by table; `targets` came before.

    A cell that is evaluated on several data sets has a row in a table of each.
    What one cell has for several others comes last, so that it names no row.
    """
    order = self._settings.systems.index
    datasets: dict[pathlib.Path, set[str]] = {}
    for cell, one in self._evaluated:
      datasets.setdefault(cell.workdir, set()).add(one.dataset)
    divided = {cell.group for cell, _ in self._evaluated
               if len(datasets[cell.workdir]) > 1}
    named: dict[
        tuple[str, str], list[tuple[str, finished_runs.FinishedRun]]] = {}
    for cell, one in sorted(self._evaluated,
                            key=lambda of: (of[1].ranking.name in self._shared,
                                            order(of[1].ranking.name))):
      run = finished_runs.read(one.folder, cell.workdir, one.ranking.name)
      dataset = run.dataset if cell.group in divided else ''
      named.setdefault((cell.group, dataset), []).append((
          cell.row,
          dataclasses.replace(run, config=config_lib.to_dict(cell.config)),
      ))
    return {' on '.join(filter(None, table)): run_groups.join(of)
            for table, of in named.items()}


def _make(cell: declared_cells.Cell) -> Any:
  with cell.within():
    return jobs.make_job(cell.config, cell.workdir)


def _what(one: evaluations.Evaluation) -> Any:
  """Equal for evaluations of the same system of the same model."""
  vectors = getattr(one.ranking, 'vectors', None)
  return (one.ranking.judged, one.ranking.name,
          getattr(vectors, 'model', one.ranking),
          getattr(vectors, 'encoding', None),
          getattr(one.ranking, 'search', None))
