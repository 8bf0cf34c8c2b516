"""Reads the log of a training, for a report."""

import json
import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from neg_contrast import errors, progress
from neg_contrast.artifacts import folders as folders_lib
from neg_contrast.report import contents, negatives_facts
from neg_contrast.training import criterion as criterion_lib

_COLUMNS = ('loss', 'forward_loss', 'backward_loss', 'accuracy',
            'gradient_norm', 'learning_rate', 'scale', 'step_seconds',
            'queries_per_second', 'padding')


def read(workdir: pathlib.Path) -> contents.Training | None:
  """The log of a training run; None where there is none.

  Raises:
    UserError: the log is damaged, beyond lines that a crash cut short.
  """
  path = workdir / 'log.jsonl'
  if not path.exists():
    return None
  try:
    return _read(workdir, path)
  except (AttributeError, KeyError, TypeError, ValueError) as e:
    raise errors.UserError(
        f'{path}: damaged ({type(e).__name__}: {e}). Move it away: the report '
        'leaves the curves of the training out then'
    ) from None


def _read(
    workdir: pathlib.Path, path: pathlib.Path
) -> contents.Training | None:
  steps: dict[int, list[float]] = {}
  contrast: dict[int, dict[str, Any]] = {}
  tune: dict[str, dict[int, float]] = {}
  bias: dict[str, dict[int, float]] = {}
  refreshes: dict[int, dict[str, Any]] = {}
  solved: list[tuple[int, str]] = []
  with open(path, encoding='utf-8', errors='replace') as lines:
    for record in _records(lines):
      if 'evaluation' in record:
        for metric, value in record['evaluation'].items():
          tune.setdefault(metric, {})[record['step']] = value
      elif 'refresh' in record:
        refreshes[record['step']] = record['refresh']
      elif 'solved' in record:
        solved.append((record['step'], record['solved']['text']))
      elif 'bias' in record:
        for kind, values in record['bias']['kinds'].items():
          bias.setdefault(kind, {})[record['step']] = values['bias']
      else:
        steps[record['step']] = [record.get(name, np.nan) for name in _COLUMNS]
        contrast[record['step']] = record.get('contrast', {})
  if not steps:
    return None
  numbers = np.array(list(steps))
  table = np.array(list(steps.values()), np.float64)
  columns = {name: (numbers, table[:, i]) for i, name in enumerate(_COLUMNS)
             if not np.isnan(table[:, i]).all()}
  best = _best_step(tune, workdir)
  curves = lambda found: {
      name: (np.array(list(values)), np.array(list(values.values())))
      for name, values in found.items()
  }
  return contents.Training(
      columns, curves(tune), best, _training_facts(workdir, columns, best),
      negatives_facts.read_contrast(contrast), curves(bias),
      negatives_facts.read_refreshes(refreshes), tuple(solved),
  )


def _best_step(
    tune: dict[str, dict[int, float]], workdir: pathlib.Path
) -> int | None:
  """The step that early stopping chose; of equals the first one."""
  name = _run(workdir).get('config', {}).get('evaluation', {}).get(
      'criterion', 'accuracy@1'
  )
  criterion = (criterion_lib.of_metric(name) if name in tune
               else criterion_lib.LOSS)
  values, best = tune.get(criterion.name, {}), None
  for step, value in values.items():
    if best is None or criterion.is_better(value, values[best]):
      best = step
  return best


def _run(workdir: pathlib.Path) -> dict[str, Any]:
  """What `run.json` holds; nothing where it is not there."""
  path = workdir / 'run.json'
  return folders_lib.read_json(path) if path.exists() else {}


def _records(lines: Iterable[str]) -> Iterable[dict[str, Any]]:
  """The lines of a log; a crash may have cut one short."""
  for line in lines:
    try:
      record = json.loads(line)
    except (json.JSONDecodeError, RecursionError):
      continue
    if isinstance(record, dict) and 'step' in record:
      yield record


def _training_facts(workdir, columns, best) -> dict[str, str]:
  run = _run(workdir)
  last = int(next(iter(columns.values()))[0][-1])
  facts = {'steps': f'{last:,}' + (
      f' of {run["total_steps"]:,}'
      if run.get('total_steps', last) != last else ''
  )}
  if 'examples' in run:
    facts['examples'] = f'{run["examples"]:,}'
  if best is not None:
    facts['best step'] = f'{best:,}'
  if 'step_seconds' in columns:
    facts['time in steps'] = progress.format_seconds(
        float(np.nansum(columns['step_seconds'][1]))
    )
  if 'queries_per_second' in columns:
    speed = float(np.nanmedian(columns['queries_per_second'][1]))
    facts['speed'] = f'{speed:,.3g} queries/s'
  if 'padding' in columns:
    facts['padding'] = f'{100 * float(np.nanmean(columns["padding"][1])):.1f}%'
  return facts
