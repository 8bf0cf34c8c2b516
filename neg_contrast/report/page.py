"""An evaluation as one HTML page that needs nothing beside itself.

Names and texts come from files that anybody may have written: the template
escapes all of them, and the page's policy allows no script and no request.
"""

import base64
import dataclasses
import html
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from neg_contrast.data import likeness
from neg_contrast.evaluation import metrics
from neg_contrast.report import (
  charts,
  contents,
  figures,
  negatives_page,
  svg,
  wording,
)

_TEMPLATE = 'report.html.jinja'
_TITLE_LENGTH = 160
_QUERY_LENGTH = 300
_SHOWN_LENGTH = 300  # Of passages side by side.
_ANSWERS = 6


def render(report: contents.Report) -> str:
  """The page, as the text of an HTML file."""
  import jinja2  # Only reports need it.
  import markupsafe

  environment = jinja2.Environment(
      loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent),
      autoescape=True,
      undefined=jinja2.StrictUndefined,
      trim_blocks=True,
      lstrip_blocks=True,
  )
  environment.filters.update(
      count=lambda value: f'{value:,}',
      percent=wording.percent,
      metric='{:.4f}'.format,
      signed=lambda value: figures.signed(value, '+.4f'),
      shorten=wording.shorten,
      plain=wording.plain,
      source_series=negatives_page.series_of,
      filter_counts=negatives_page.filter_counts,
      beyond_pool=negatives_page.beyond,
      figure=_figure,  # Text in figures is escaped by matplotlib,
      table=markupsafe.Markup,  # and that in tables by `tables.html`.
  )
  first = report.groups[0] if report.groups else None
  return environment.get_template(_TEMPLATE).render(
      report=report,
      group=first,
      headline=headline(first) if first else None,
      best={group.name: best_systems(group) for group in report.groups},
      names={group.name: metric_names(group) for group in report.groups},
      series=charts.series_of(report.groups),
      series_count=svg.SERIES,
      charts=charts.draw_charts(report),
      drawn=negatives_page.draw_charts(
          report.negatives,
          report.training.contrast if report.training else {},
      ),
      near=f'{likeness.NEAR:.0%}',
      shown_length=_SHOWN_LENGTH,
      excerpt=wording.excerpt,
      sections=config_sections(report.config, report.defaults),
      title_length=_TITLE_LENGTH,
      query_length=_QUERY_LENGTH,
      answers_shown=_ANSWERS,
      left_out=f'{1 - figures.SHOWN_PART:.0%}',
  )


def _figure(drawn: str) -> Any:
  """A figure, and below it a link that saves it as a file of its own."""
  import markupsafe

  label = re.search('aria-label="([^"]*)"', drawn)
  name = re.sub('[^0-9A-Za-z]+', '-', html.unescape(
      label[1] if label else 'figure')).strip('-').lower() or 'figure'
  data = base64.b64encode(svg.standalone(drawn).encode()).decode()
  return markupsafe.Markup(
      f'{drawn}<a class="save" download="{name}.svg" '
      f'href="data:image/svg+xml;base64,{data}">save as SVG</a>'
  )


@dataclasses.dataclass(frozen=True)
class Headline:
  """The outcome in a line.

  Attributes:
    metric: the first one.
    verdict: one of `better`, `worse`, `open` (the interval of the difference
      holds 0) and `alone` (there is nothing to compare with).
    before: what was compared with, and its value.
    after: what counts, and its value.
    difference: after minus before.
  """

  metric: str
  verdict: str
  before: tuple[str, figures.Estimate] | None
  after: tuple[str, figures.Estimate]
  difference: figures.Estimate | None


def headline(group: contents.Group) -> Headline | None:
  """What the first metric says; None where nothing was measured."""
  values = {system.name: system.metrics for system in group.systems}
  pair = group.comparison
  if pair is not None and pair.metrics:
    metric, difference = next(iter(pair.metrics.items()))
    verdict = 'open'
    if difference.low is not None and difference.low > 0:
      verdict = 'better'
    if difference.high is not None and difference.high < 0:
      verdict = 'worse'
    return Headline(
        metric, verdict, (pair.before, values[pair.before][metric]),
        (pair.after, values[pair.after][metric]), difference,
    )
  for system in reversed(group.systems):
    for metric, value in system.metrics.items():
      return Headline(metric, 'alone', None, (system.name, value), None)
  return None


def metric_names(group: contents.Group) -> tuple[str, ...]:
  """All metrics of a group, in the order they were asked for."""
  return tuple(dict.fromkeys(
      name for system in group.systems for name in system.metrics
  ))


def best_systems(group: contents.Group) -> dict[str, frozenset[str]]:
  """Metric -> the systems with the best value; none among a single one."""
  best = {}
  for name in metric_names(group):
    values = {system.name: system.metrics[name].value
              for system in group.systems if name in system.metrics}
    top = metrics.best(name, values.values())
    best[name] = frozenset(
        system for system, value in values.items()
        if value == top and len(values) > 1
    )
  return best


def config_sections(
    config: Mapping[str, Any], defaults: Mapping[str, Any]
) -> list[tuple[str, list[tuple[str, str, str | None]]]]:
  """(section, its (key, value, default where that differs) rows)."""
  missing = object()

  def row(key: str, value: Any, default: Any) -> tuple[str, str, str | None]:
    if value == default:
      return key, wording.plain(value), None
    is_empty = default in (missing, '')
    return key, wording.plain(value), '' if is_empty else wording.plain(default)

  sections: dict[str, list[tuple[str, str, str | None]]] = {'run': []}
  for key, value in config.items():
    default = defaults.get(key, missing)
    if isinstance(value, Mapping):
      known = default if isinstance(default, Mapping) else {}
      sections[key] = [row(name, inner, known.get(name, missing))
                       for name, inner in value.items()]
    else:
      sections['run'].append(row(key, value, default))
  return [(name, rows) for name, rows in sections.items() if rows]
