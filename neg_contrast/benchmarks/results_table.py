"""What was measured, as a table in markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neg_contrast.benchmarks import task
from neg_contrast.settings import config as config_lib

_PARTS = (task.PADDING, task.UTILISATION, task.HOST_WAIT)
# Rows that every table has, and that no other comes before.
_ALWAYS = (task.QUERIES, task.PASSAGES, task.TOKENS, task.FLOPS, *_PARTS)


def title(
    settings: config_lib.BenchmarkConfig,
    data: config_lib.DataConfig,
    per_query: int,
    init: str,
    dtype: str,
    is_made_up: bool,
) -> str:
  """What was measured, in a line.

  Args:
    settings: task and steps.
    data: texts and batches.
    per_query: hard negatives of a query.
    init: the model.
    dtype: of matrix products.
    is_made_up: whether the texts are.
  """
  texts = (f'made-up texts of {data.expected_query_tokens} and '
           f'{data.expected_passage_tokens} tokens'
           if is_made_up else data.source)
  parts = [settings.task, init, dtype, texts]
  if settings.task in ('train', 'input'):
    parts.append(
        f'batch {data.batch_size:,}, {per_query} hard negatives, '
        f'{data.groups} groups, {settings.steps} steps a round'
    )
  return ', '.join(parts)


def markdown(heading: str, made: Mapping[str, Any]) -> str:
  """A row a measure, with the median of the rounds.

  Args:
    heading: above them.
    made: `rows`, `reasons` and `notes` of `rounds.run`; and `profile`, if
      there was one: operation -> part of the time.
  """
  rows, reasons = made['rows'], made['reasons']
  lines = [f'| {heading} | median | least | most |', '|---|---:|---:|---:|']
  names = [name for name in _ALWAYS if name in rows or name in reasons]
  for name in [*names, *(name for name in rows if name not in names)]:
    lines.append(f'| {name} | {_cells(name, rows, reasons)} |')
  lines += [f'| of device time: {name} | {_percent(part)} | | |'
            for name, part in made.get('profile', {}).items()]
  lines += [f'| {name} | {text} | | |' for name, text in made['notes'].items()]
  return '\n'.join(lines)


def _cells(
    name: str, rows: Mapping[str, Sequence[float]], reasons: Mapping[str, str]
) -> str:
  if name not in rows:
    return f'– ({reasons[name]}) | | '
  values = rows[name]
  show = _percent if name in _PARTS else number
  if len(values) == 1:
    return f'{show(values[0])} | | '
  return ' | '.join(map(show, (float(np.median(values)), min(values),
                               max(values))))


def _percent(value: float) -> str:
  return f'{100 * value:.1f}%'


def number(value: float) -> str:
  """Three digits that tell something, or more where they are whole."""
  return f'{value:,.0f}' if value >= 100 else f'{value:.3g}'
