"""An evaluation as one HTML page that needs nothing beside itself. Pure.

Names and texts come from files that anybody may have written: the template
escapes all of them, and the page's policy allows no script and no request.
"""

import dataclasses
import json
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neg_contrast.data import likeness, statistics
from neg_contrast.report import figures, negatives_page

EXCERPT = 420
"""Characters of a passage that are shown."""

_TEMPLATE = 'report.html.jinja'
_TITLE_LENGTH = 160
_QUERY_LENGTH = 300
_VALUE_LENGTH = 400
_SHOWN_LENGTH = 300  # Of passages side by side.
_ANSWERS = 6
_CUT_METRIC = re.compile('(.+)@([1-9][0-9]*)')


@dataclasses.dataclass(frozen=True)
class System:
  """What a system reached on a split.

  Attributes:
    name: of the system.
    folder: of its files, relative to the page.
    queries: how many were asked.
    passages: how many were searched.
    metrics: means, with their intervals.
  """

  name: str
  folder: str
  queries: int
  passages: int
  metrics: Mapping[str, figures.Estimate]


@dataclasses.dataclass(frozen=True)
class Comparison:
  """The same queries, asked of two systems.

  Attributes:
    before: the system compared with.
    after: the system that should be better.
    queries: how many both have.
    metrics: means of after minus before by query, with their intervals.
  """

  before: str
  after: str
  queries: int
  metrics: Mapping[str, figures.Estimate]


@dataclasses.dataclass(frozen=True)
class Group:
  """All systems on a split.

  Attributes:
    name: `<dataset>/<split>`.
    systems: in the order they are shown.
    comparison: of two of them; None where there is one system only.
  """

  name: str
  systems: tuple[System, ...]
  comparison: Comparison | None = None


@dataclasses.dataclass(frozen=True)
class Place:
  """Where a ranking has a passage.

  Attributes:
    rank: from 1; None: nowhere.
    score: of the system; None: unknown.
  """

  rank: int | None = None
  score: float | None = None


@dataclasses.dataclass(frozen=True)
class ShownPassage:
  """A passage of a query that moved.

  Attributes:
    id: of the passage.
    title: may be empty.
    text: whole; None: there is no such passage in the corpus.
    roles: why it is shown.
    before: where the first system has it.
    after: where the second system has it.
    is_positive: whether it is judged so.
    has_answer: whether it holds one.
  """

  id: str
  title: str
  text: str | None
  roles: tuple[str, ...]
  before: Place
  after: Place
  is_positive: bool
  has_answer: bool


@dataclasses.dataclass(frozen=True)
class MovedQuery:
  """A query that two systems answer differently.

  Attributes:
    id: of the query.
    text: of the query.
    answers: strings that may be marked in the passages.
    before: where its first positive was, in words.
    after: where it is now.
    positives: how many it has.
    passages: the positive and both top passages, each once.
  """

  id: str
  text: str
  answers: tuple[str, ...]
  before: str
  after: str
  positives: int
  passages: tuple[ShownPassage, ...]


@dataclasses.dataclass(frozen=True)
class Moves:
  """The queries that moved most.

  Attributes:
    before: name of the first system.
    after: name of the second.
    what: what is ranked, such as "first positive passage".
    risen: the biggest gains.
    fallen: the biggest losses.
    risen_count: all that rose.
    fallen_count: all that fell.
    same_count: all that stayed.
  """

  before: str
  after: str
  what: str
  risen: tuple[MovedQuery, ...]
  fallen: tuple[MovedQuery, ...]
  risen_count: int
  fallen_count: int
  same_count: int


@dataclasses.dataclass(frozen=True)
class Training:
  """The record of a training run.

  Attributes:
    columns: name of a logged value -> (`[steps] int`, `[steps] float`).
    tune: metric -> the same, of evaluations on the tune split.
    best_step: the step whose checkpoint counts; None where none was evaluated.
    facts: what else there is to say.
    contrast: what the positives were up against; empty where nothing is known.
    bias: kind of negatives -> (`[steps] int`, `[steps] float`), norm of the
      bias of NCE's gradient; empty where it was not measured.
  """

  columns: Mapping[str, tuple[np.ndarray, np.ndarray]]
  tune: Mapping[str, tuple[np.ndarray, np.ndarray]]
  best_step: int | None
  facts: Mapping[str, str]
  contrast: negatives_page.Contrast = dataclasses.field(default_factory=dict)
  bias: Mapping[str, tuple[np.ndarray, np.ndarray]] = dataclasses.field(
      default_factory=dict
  )


@dataclasses.dataclass(frozen=True)
class Data:
  """What is known of the data.

  Attributes:
    corpus: the passages.
    splits: what each is used for, and its numbers.
    lengths: of `query` and `passage` inputs, where a model was at hand.
    skipped: unusable records by kind.
    repeated: records that repeat an earlier one of the same id.
  """

  corpus: statistics.Corpus
  splits: tuple[tuple[str, statistics.Split], ...]
  lengths: Mapping[str, statistics.Lengths]
  skipped: Mapping[str, int]
  repeated: int


@dataclasses.dataclass(frozen=True)
class Report:
  """All that the page shows.

  Attributes:
    job: `train`, `evaluate`, `mine` or `audit`.
    name: `<dataset>/<split>`.
    facts: what was run, a line each.
    made: when the newest evaluation was.
    groups: that of `name` first.
    moves: None where there is no pair of rankings with judgements or answers.
    training: None where nothing was trained here.
    data: the corpus and its splits.
    config: resolved, by section.
    defaults: the same keys; missing keys differ from everything.
    environment: versions and settings.
    negatives: None where there is no pool of them.
    tables: of a grid of trainings, as HTML.
  """

  job: str
  name: str
  facts: Mapping[str, str]
  made: str
  groups: tuple[Group, ...]
  moves: Moves | None
  training: Training | None
  data: Data
  config: Mapping[str, Any]
  defaults: Mapping[str, Any]
  environment: Mapping[str, Any]
  negatives: negatives_page.Negatives | None = None
  tables: tuple[str, ...] = ()


def render(report: Report) -> str:
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
      percent=percent,
      metric='{:.4f}'.format,
      signed=lambda value: figures.signed(value, '+.4f'),
      shorten=shorten,
      plain=plain,
      source_series=negatives_page.series_of,
      filter_counts=negatives_page.filter_counts,
      beyond_pool=negatives_page.beyond,
      svg=markupsafe.Markup,  # Text in figures is escaped by matplotlib,
      table=markupsafe.Markup,  # and that in tables by `tables.html`.
  )
  first = report.groups[0] if report.groups else None
  return environment.get_template(_TEMPLATE).render(
      report=report,
      group=first,
      headline=headline(first) if first else None,
      best={group.name: best_systems(group) for group in report.groups},
      names={group.name: metric_names(group) for group in report.groups},
      series=series_of(report.groups),
      series_count=figures.SERIES,
      charts=draw_charts(report),
      drawn=negatives_page.draw_charts(
          report.negatives,
          report.training.contrast if report.training else {},
      ),
      near=f'{likeness.NEAR:.0%}',
      shown_length=_SHOWN_LENGTH,
      excerpt=excerpt,
      sections=config_sections(report.config, report.defaults),
      title_length=_TITLE_LENGTH,
      query_length=_QUERY_LENGTH,
      answers_shown=_ANSWERS,
      left_out=f'{1 - figures.SHOWN_PART:.0%}',
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


def headline(group: Group) -> Headline | None:
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


def metric_names(group: Group) -> tuple[str, ...]:
  """All metrics of a group, in the order they were asked for."""
  return tuple(dict.fromkeys(
      name for system in group.systems for name in system.metrics
  ))


def best_systems(group: Group) -> dict[str, frozenset[str]]:
  """Metric -> the systems with the highest value; none among a single one."""
  best = {}
  for name in metric_names(group):
    values = {system.name: system.metrics[name].value
              for system in group.systems if name in system.metrics}
    top = max(values.values())
    best[name] = frozenset(
        system for system, value in values.items()
        if value == top and len(values) > 1
    )
  return best


def series_of(groups: Sequence[Group]) -> dict[str, int]:
  """The number of each system's colour, the same all over the page."""
  names = dict.fromkeys(
      system.name for group in groups for system in group.systems
  )
  known = {'bm25': 0, 'initial': 1, 'trained': 2}
  others = (n for n in range(len(known), len(known) + len(names)))
  return {name: known[name] if name in known else next(others)
          for name in names}


def draw_charts(report: Report) -> dict[str, list[str]]:
  """SVG of the parts `results`, `training` and `lengths`."""
  colours = series_of(report.groups)
  charts: dict[str, list[str]] = {'results': [], 'training': [], 'lengths': []}
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
    groups: Sequence[Group],
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


def _draw_training(training: Training) -> list[str]:
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
  }, mark=mark)
  for metric, values in list(training.tune.items())[:1]:
    drawn.append(figures.curves(
        'tune', f'{metric} on the tune split', {'': values}, series=2,
        mark=mark, markers=True,
    ))
  add('accuracy', 'In-batch accuracy', {'accuracy': ''}, mark=mark)
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


def excerpt(
    text: str, answers: Sequence[str], length: int = EXCERPT
) -> tuple[tuple[str, bool], ...]:
  """A piece of a text around its first answer.

  Args:
    text: runs of white space become one space.
    answers: marked where they stand as whole words, in any case.
    length: characters of the piece; an answer at its end may make it longer,
      up to twice as long.

  Returns:
    (text, whether it is an answer) pieces; an ellipsis stands for what is left
    out.
  """
  text = ' '.join(text.split())
  words = sorted(
      {' '.join(answer.split()) for answer in answers} - {''}, key=len,
      reverse=True,
  )
  pattern = re.compile(
      r'(?<!\w)(?:' + '|'.join(map(re.escape, words)) + r')(?!\w)', re.I
  ) if words else None
  first = pattern.search(text) if pattern else None
  begin = 0
  if first is not None and first.end() > length:
    begin = max(0, min(first.start() - length // 3, len(text) - length))
    space = text.find(' ', begin, first.start())
    begin = space + 1 if begin and space >= 0 else begin
  end = len(text)
  if end - begin > length:
    end = begin + length
    space = text.rfind(' ', begin + length // 2, end)
    end = end if space < 0 else space
    if first is not None and begin <= first.start() < end < first.end():
      end = min(first.end(), begin + 2 * length)  # Rather than in two.
  pieces, at = [], begin
  for match in pattern.finditer(text, begin, end) if pattern else ():
    pieces += [(text[at:match.start()], False), (match[0], True)]
    at = match.end()
  pieces.append((text[at:end], False))
  if begin:
    pieces.insert(0, ('… ', False))
  if end < len(text):
    pieces.append((' …', False))
  return tuple(piece for piece in pieces if piece[0])


def config_sections(
    config: Mapping[str, Any], defaults: Mapping[str, Any]
) -> list[tuple[str, list[tuple[str, str, str | None]]]]:
  """(section, its (key, value, default where that differs) rows)."""
  missing = object()

  def row(key: str, value: Any, default: Any) -> tuple[str, str, str | None]:
    if value == default:
      return key, plain(value), None
    return key, plain(value), '' if default in (missing, '') else plain(default)

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


def plain(value: Any) -> str:
  """A json value as people write it."""
  if value is None:
    return 'none'
  if isinstance(value, str):
    return shorten(value, _VALUE_LENGTH) or '–'
  if isinstance(value, Mapping):
    return ', '.join(f'{key} {plain(inner)}' for key, inner in value.items())
  if isinstance(value, (list, tuple)):
    return ', '.join(map(plain, value)) if value else 'none'
  return json.dumps(value)


def percent(part: float, whole: float) -> str:
  """A part in percent, never rounded to all or nothing."""
  if not whole:
    return '–'
  share = 100 * part / whole
  if 0 < share < 0.1:
    return '<0.1%'
  if 99.9 < share < 100:
    return '>99.9%'
  return f'{share:.1f}%'


def shorten(text: str, length: int) -> str:
  """At most `length` characters of a text, its white space folded."""
  text = ' '.join(text.split())
  return text if len(text) <= length else text[:length - 1].rstrip() + '…'
