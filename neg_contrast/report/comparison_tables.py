"""Comparisons as tables: Markdown, LaTeX, HTML and csv.

A table of means (± standard deviation over seeds) and one of differences to the
baseline. A star marks what chance does not explain.
"""

import csv
import dataclasses
import html
import io
from collections.abc import Callable, Sequence

from neg_contrast.evaluation import comparison as comparison_lib
from neg_contrast.evaluation import confidence, significance
from neg_contrast.report import figures, tables

ALPHA = 0.05
MARK = '*'
CSV_COLUMNS = ('comparison', 'row', 'system', 'seed', 'dataset', 'queries',
               'metric', 'value', 'workdir')


@dataclasses.dataclass(frozen=True)
class Grid:
  """A table of texts.

  Attributes:
    title: above it.
    head: of the columns; the first column is of names.
    lines: cells of each row.
    note: below it.
  """

  title: str
  head: tuple[str, ...]
  lines: tuple[tuple[str, ...], ...]
  note: str


def grids(made: comparison_lib.Comparison) -> list[Grid]:
  """What each row reached, and the differences if there are any."""
  return [_means(made), *([_differences(made)] if made.pairs else [])]


def _means(made: comparison_lib.Comparison) -> Grid:
  """What each row reached: mean ± standard deviation over its seeds."""
  lines = []
  for row in made.rows:
    cells = []
    for metric in made.metrics:
      mean, pair = made.mean(row, metric), made.pair(row, metric)
      spread = '' if mean.deviation is None else f' ± {mean.deviation:.4f}'
      mark = MARK if pair and pair.p_holm < ALPHA else ''
      cells.append(f'{mean.value:.4f}{spread}{mark}')
    lines.append((row.name, str(len(row.runs)), *cells))
  note = 'Mean over seeds ± standard deviation over seeds.'
  if made.pairs:
    note += (f' {MARK} differs from {made.baseline} (p < {ALPHA} after Holm '
             f'over {_family(made)} of its metric).')
  return Grid(_title(made), ('', 'seeds', *made.metrics), tuple(lines), note)


def _differences(made: comparison_lib.Comparison) -> Grid:
  """Differences to the baseline, with intervals and tests."""
  lines = []
  for row in made.rows:
    for metric in made.metrics:
      if pair := made.pair(row, metric):
        lines.append((row.name, metric, *_difference(pair), ', '.join(
            figures.signed(value, '+.4f')
            for value in made.differences(row, metric).values()
        )))
  return Grid(
      f'{_title(made)}: differences to {made.baseline}',
      ('', 'metric', 'difference', '95% interval', 'p', 'p (Holm)', 'by seed'),
      tuple(lines),
      'Paired by query, means over the seeds. Interval: bootstrap over '
      'queries; p: paired randomisation test, and after Holm over '
      f'{_family(made)} of a metric. Both cover the choice of queries, not '
      'that of seeds: see the differences by seed.' + (
          f' Of fewer than {confidence.LEAST_QUERIES} queries intervals are '
          'too narrow.' if made.queries < confidence.LEAST_QUERIES else ''),
  )


def _difference(pair: significance.Pair) -> tuple[str, ...]:
  low, high = (figures.signed(end, '+.4f') for end in (pair.low, pair.high))
  return (figures.signed(pair.difference, '+.4f'), f'{low} to {high}',
          f'{pair.p:.4f}', f'{pair.p_holm:.4f}')


def _title(made: comparison_lib.Comparison) -> str:
  title = f'{made.dataset}, {made.queries} queries'
  return f'{made.title}: {title}' if made.title else title


def _family(made: comparison_lib.Comparison) -> str:
  count = len(made.rows) - 1
  return f'the {count} comparisons' if count > 1 else 'the only comparison'


def markdown(grid: Grid) -> str:
  """A grid for GitHub and its like."""
  line = lambda cells: f'| {" | ".join(map(tables.escape_markdown, cells))} |'
  rule = '|---' + '|---:' * (len(grid.head) - 1) + '|'
  return '\n'.join([
      f'**{tables.escape_markdown(grid.title)}**', '', line(grid.head), rule,
      *map(line, grid.lines), '', tables.escape_markdown(grid.note), '',
  ])


def latex(grid: Grid) -> str:
  """A grid as a float of LaTeX that needs no package.

  It is set small, so that seven columns fit a page of one column.
  """
  line = lambda cells: '    ' + ' & '.join(map(_latex, cells)) + r' \\'
  return '\n'.join([
      r'\begin{table}', f'  \\caption{{{_latex(grid.title)}}}',
      r'  \centering\scriptsize\setlength{\tabcolsep}{3pt}',
      f'  \\begin{{tabular}}{{l{"r" * (len(grid.head) - 1)}}}', r'    \hline',
      line(grid.head), r'    \hline', *map(line, grid.lines), r'    \hline',
      r'  \end{tabular}', f'  \\par {_latex(grid.note)}', r'\end{table}', '',
  ])


def _latex(text: str) -> str:
  return tables.escape_latex(text).replace('±', r'$\pm$')


def to_html(grid: Grid) -> str:
  """A grid as a table of HTML."""
  row: Callable[[Sequence[str], str], str] = lambda cells, tag: (
      '<tr>' + ''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)
      + '</tr>')
  return '\n'.join([
      f'<h3>{html.escape(grid.title)}</h3>', '<table>', row(grid.head, 'th'),
      *(row(line, 'td') for line in grid.lines), '</table>',
      f'<p class="note">{html.escape(grid.note)}</p>',
  ])


def to_csv(all_of: Sequence[comparison_lib.Comparison]) -> str:
  """Every value of every seed, one a line."""
  text = io.StringIO()
  lines = csv.writer(text, lineterminator='\n')
  lines.writerow(CSV_COLUMNS)
  for made in all_of:
    for row in made.rows:
      for run in row.runs:
        for metric in made.metrics:
          lines.writerow((
              made.title, row.name, run.system,
              '' if run.seed is None else run.seed, run.dataset,
              len(run.values.get(metric, ())) or made.queries, metric,
              repr(run.means[metric]), run.workdir,
          ))
  return text.getvalue()
