"""The charts of a report, by its parts."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neg_contrast.report import contents, figures, rank_figure

_CUT_METRIC = re.compile('(.+)@([1-9][0-9]*)')


def series_of(groups: Sequence[contents.Group]) -> dict[str, int]:
  """The number of each system's colour, the same all over the page."""
  names = dict.fromkeys(
      system.name for group in groups for system in group.systems
  )
  known = {'bm25': 0, 'initial': 1, 'trained': 2}
  others = (n for n in range(len(known), len(known) + len(names)))
  return {name: known[name] if name in known else next(others)
          for name in names}


def draw_charts(report: contents.Report) -> dict[str, list[str]]:
  """SVG of `results`, `training`, `lengths`, `calibration` and `moves`."""
  colours = series_of(report.groups)
  charts: dict[str, list[str]] = {
      'results': [], 'training': [], 'lengths': [], 'calibration': [],
      'moves': [],
  }
  if report.moves is not None and report.moves.ranks:
    charts['moves'].append(rank_figure.rank_movement(
        'moves-ranks', report.moves.before, report.moves.after,
        report.moves.ranks,
    ))
  if report.calibration is not None:
    charts['calibration'] = [
        figures.reliability(f'calibration-{name}', title,
                            report.calibration[name]['bins'])
        for name, title in (('before', 'Before calibration'),
                            ('after', 'After calibration'))
    ]
  for base, systems in cut_families(report.groups[:1]).items():
    charts['results'].append(figures.cuts(
        f'cuts-{len(charts["results"])}', base, systems, colours
    ))
  pair = report.groups[0].comparison if report.groups else None
  if pair is not None and pair.metrics:
    charts['results'].append(figures.differences(
        'differences', f'{pair.after} − {pair.before}', pair.metrics,
        colours[pair.after],
    ))
  if report.training is not None:
    charts['training'] = _draw_training(report.training)
  for role, label in (('query', 'queries'), ('passage', 'passages')):
    if role in report.data.lengths:
      lengths = report.data.lengths[role]
      charts['lengths'].append(figures.histogram(
          f'lengths-{role}', f'Length of {label}', lengths.counts, lengths.cut,
          label,
      ))
  return charts


def cut_families(
    groups: Sequence[contents.Group],
) -> dict[str, dict[str, dict[int, figures.Estimate]]]:
  """Metrics with a cut-off: base -> system -> k -> value; two k at least."""
  found: dict[str, dict[str, dict[int, figures.Estimate]]] = {}
  for group in groups:
    for system in group.systems:
      for name, value in system.metrics.items():
        if match := _CUT_METRIC.fullmatch(name):
          systems = found.setdefault(match[1], {})
          systems.setdefault(system.name, {})[int(match[2])] = value
  return {
      base: systems for base, systems in found.items()
      if len({k for values in systems.values() for k in values}) > 1
  }


def _draw_training(training: contents.Training) -> list[str]:
  columns: Mapping = training.columns
  drawn: list[str] = []
  mark = None if training.best_step is None else (
      training.best_step, f'best: step {training.best_step:,}'
  )

  def add(name: str, title: str, labels: Mapping[str, str],
          **options: Any) -> None:
    lines = {label: columns[column] for column, label in labels.items()
             if column in columns}
    if lines:
      drawn.append(figures.curves(name, title, lines, series=2, **options))

  add('loss', 'Loss', {
      'loss': 'mean', 'forward_loss': 'query to passage',
      'backward_loss': 'passage to query',
  }, mark=mark, is_smoothed=True)
  for metric, values in list(training.tune.items())[:1]:
    drawn.append(figures.curves(
        'tune', f'{metric} on the tune split', {'': values}, series=2,
        mark=mark, markers=True,
    ))
  add('accuracy', 'In-batch accuracy', {'accuracy': ''}, mark=mark,
      is_smoothed=True)
  add('rate', 'Learning rate', {'learning_rate': ''}, mark=mark,
      from_zero=True)
  add('norm', 'Gradient norm, before clipping', {'gradient_norm': ''},
      mark=mark, from_zero=True)
  if 'scale' in columns and np.ptp(columns['scale'][1]) > 0:
    add('scale', 'Scale of the scores', {'scale': ''}, mark=mark)
  if training.bias:
    drawn.append(figures.curves(
        'bias', 'Norm of the bias of NCE’s gradient', training.bias, series=2,
        colours={kind: n for n, kind in enumerate(training.bias, start=2)},
        mark=mark, from_zero=True, markers=True,
    ))
  return drawn
