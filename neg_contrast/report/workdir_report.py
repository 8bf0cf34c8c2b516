"""Gathers what a workdir holds into `report.html`."""

import dataclasses
import datetime
import pathlib
from collections.abc import Mapping
from typing import Any

from absl import logging

from neg_contrast import terminal
from neg_contrast.artifacts import atomic
from neg_contrast.artifacts import folders as folders_lib
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import summary
from neg_contrast.models import loading
from neg_contrast.report import (
  contents,
  data_facts,
  movement_facts,
  negatives_facts,
  system_facts,
  training_facts,
)
from neg_contrast.report import page as page_lib
from neg_contrast.settings import config as config_lib

FILE = 'report.html'


@dataclasses.dataclass(frozen=True)
class About:
  """What a job says of itself.

  Attributes:
    job: its name.
    split: that it reports on.
    use: what that split is for: `evaluation`, `mining` or `audit`.
    is_training: whether it leaves a log of a training.
    is_tuned: whether it has splits to train and tune on.
    facts: what was run, a line each.
    config: all keys and values, by section, as json.
    defaults: the same keys.
    command: that ran it; empty: it was run from Python.
    notes: system -> which model it is, where that is known better than by its
      name.
  """

  job: str
  split: str
  use: str
  is_training: bool
  is_tuned: bool
  facts: Mapping[str, str]
  config: Mapping[str, Any]
  defaults: Mapping[str, Any]
  command: str = ''
  notes: Mapping[str, str] = dataclasses.field(default_factory=dict)


def write_report(
    workdir: pathlib.Path,
    about: About,
    data: config_lib.DataConfig,
    evaluation: config_lib.EvaluationConfig,
    dataset: dataset_lib.Dataset,
    model: loading.Model | None = None,
    negatives: negatives_facts.Mined | None = None,
    tables: tuple[str, ...] = (),
    calibration: Mapping[str, Any] | None = None,
) -> pathlib.Path:
  """Writes `report.html` from the finished evaluations of a workdir.

  What is not there is left out: the log of a job that trains nothing, rankings,
  values by query, judgements. A job that neither trains nor evaluates shows the
  split that it mines, and no evaluations that others left in its workdir.

  Args:
    workdir: of the job; `evaluation/` should be complete.
    about: the job.
    data: names the splits.
    evaluation: how answers are found.
    dataset: the data of the job.
    model: gives tokenizer, lengths and name, not its weights; without one,
      lengths of texts are not shown.
    negatives: a finished pool of hard negatives, to be explained.
    tables: of a grid of trainings, as HTML.
    calibration: of a cross-encoder, as `evaluation.calibrated` has it.

  Returns:
    The file.

  Raises:
    UserError: a file of the workdir is damaged.
  """
  page = page_lib.render(dataclasses.replace(_gather(
      workdir, about, data, evaluation, dataset, model, negatives, tables
  ), calibration=calibration))
  path = workdir / FILE
  with atomic.writing(path) as f:  # Names of files need not be UTF-8.
    f.write(terminal.clean(page.encode('utf-8', 'backslashreplace').decode()))
  logging.info('report: %s', path)
  return path


def _gather(
    workdir: pathlib.Path,
    about: About,
    data: config_lib.DataConfig,
    evaluation: config_lib.EvaluationConfig,
    dataset: dataset_lib.Dataset,
    model: loading.Model | None,
    negatives: negatives_facts.Mined | None,
    tables: tuple[str, ...],
) -> contents.Report:
  """What the page shows; arguments as of `write_report`."""
  is_evaluating = about.use == 'evaluation'
  name = f'{dataset.name}/{about.split}'
  groups = system_facts.by_group(
      summary.read_evaluations(workdir, dataset)
  ) if is_evaluating else {}
  shown = groups.get(name, [])
  pair = system_facts.pair(shown)
  return contents.Report(
      job=about.job,
      name=name,
      facts=about.facts,
      command=about.command,
      made=_newest(shown),
      groups=tuple(
          system_facts.summarize(group, groups[group], workdir, about.notes)
          for group in sorted(groups, key=lambda group: group != name)
      ),
      moves=movement_facts.moves(
          pair, about.split, evaluation, dataset.prepared
      ) if pair else None,
      training=training_facts.read(workdir) if about.is_training else None,
      data=data_facts.describe(
          data if about.is_tuned else None, dataset, about.split, about.use,
          model,
      ),
      config=about.config,
      defaults=about.defaults,
      environment=_environment(workdir, shown, about.is_training)
      if is_evaluating else folders_lib.environment(),
      negatives=None if negatives is None else negatives_facts.describe(
          negatives, evaluation
      ),
      tables=tables,
  )


def _newest(systems: list[system_facts.Evaluated]) -> str:
  """When the newest evaluation was finished."""
  times = [(system.folder / folders_lib.MANIFEST).stat().st_mtime
           for system in systems]
  if not times:
    return ''
  moment = datetime.datetime.fromtimestamp(max(times), datetime.UTC)
  return moment.strftime('%Y-%m-%d %H:%M UTC')


def _environment(workdir, systems, is_training) -> dict[str, Any]:
  """Of the newest known part of the job."""
  found = dict(systems[-1].manifest.get('environment', {})) if systems else {}
  path = workdir / 'run.json'
  if is_training and path.exists():
    # Devices and mesh are known of the training only.
    found = {**folders_lib.read_json(path).get('environment', {}), **found}
  return found
