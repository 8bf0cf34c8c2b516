"""Results in the layout of the paper, each beside the paper's own.

A cell is `ours (the paper's, difference)`; the difference is left out where the
two were not measured on the same corpus and queries, and `-` stands for what is
not known.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping
from html import escape

from neg_contrast.evaluation import metrics
from neg_contrast.report import figures
from neg_contrast.report import paper as paper_lib

_LATEX = {
    '\\': r'\textbackslash{}', '~': r'\textasciitilde{}',
    '^': r'\textasciicircum{}', '<': r'\textless{}', '>': r'\textgreater{}',
    '|': r'\textbar{}', '†': r'\dag{}', '‡': r'\ddag{}', '−': '$-$',
    '≤': r'$\leq$', '≥': r'$\geq$',
    **{mark: f'\\{mark}' for mark in '&%$#_{}'},
    # After the end of a row they would be arguments of it.
    **{mark: f'{{{mark}}}' for mark in '[]*'},
}


@dataclasses.dataclass(frozen=True)
class Row:
  """One system.

  Attributes:
    label: its name.
    ours: metric -> percent; what is missing or None is not known.
    paper: the same, as the paper has it.
    size: what ours were measured on; None where there are none.
    comparable: whether that is the corpus and the test set of the paper.
    marks: metric -> mark, such as † where ours is significantly better.
  """

  label: str
  ours: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
  paper: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
  size: paper_lib.Size | None = None
  comparable: bool = False
  marks: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Group:
  """Rows under a heading.

  Attributes:
    title: the heading; empty for none.
    rows: in their order.
  """

  title: str
  rows: tuple[Row, ...]


@dataclasses.dataclass(frozen=True)
class Table:
  """A grid of results on one dataset.

  Attributes:
    title: above it.
    columns: metrics; the best of ours in each is bold.
    groups: of rows.
    paper_size: what the paper measured on; None: it did not.
    legend: mark -> what it means.
  """

  title: str
  columns: tuple[str, ...]
  groups: tuple[Group, ...]
  paper_size: paper_lib.Size | None
  legend: Mapping[str, str] = dataclasses.field(default_factory=dict)

  @property
  def rows(self) -> tuple[Row, ...]:
    """Of all groups."""
    return tuple(row for group in self.groups for row in group.rows)


@dataclasses.dataclass(frozen=True)
class _Style:
  """How a format writes text; templates hold one `%s`."""

  escape: Callable[[str], str]
  bold: str
  raised: str


def markdown(table: Table) -> str:
  """The table for GitHub and its like, with notes below it.

  Raises:
    ValueError: a mark has no legend.
  """
  style = _Style(escape_markdown, '**%s**', '%s')
  line = lambda cells: f'| {" | ".join(cells)} |'
  blank = [''] * len(table.columns)
  lines = [
      style.bold % style.escape(table.title), '',
      line(['', *map(style.escape, table.columns)]),
      '|---|' + '---:|' * len(table.columns),
  ]
  best = _best(table)
  for group in table.groups:
    if group.title:
      lines.append(line([f'*{style.escape(group.title)}*', *blank]))
    lines += [line(_cells(row, best, style)) for row in group.rows]
  for note in _notes(table):
    lines += ['', style.escape(note)]
  return '\n'.join(lines) + '\n'


def latex(table: Table) -> str:
  """The same as a LaTeX float; needs the package booktabs.

  Raises:
    ValueError: a mark has no legend.
  """
  style = _Style(escape_latex, r'\textbf{%s}', r'\textsuperscript{%s}')
  line = lambda cells: f'    {" & ".join(cells)} \\\\'
  span = f'\\multicolumn{{{len(table.columns) + 1}}}{{l}}'
  lines = [
      r'\begin{table}', r'  \centering',
      f'  \\caption{{{style.escape(table.title)}}}',
      f'  \\begin{{tabular}}{{l{"r" * len(table.columns)}}}', r'    \toprule',
      line(['', *map(style.escape, table.columns)]),
  ]
  best = _best(table)
  for group in table.groups:
    lines.append(r'    \midrule')
    if group.title:
      lines.append(line([f'{span}{{\\emph{{{style.escape(group.title)}}}}}']))
    lines += [line(_cells(row, best, style)) for row in group.rows]
  lines += [r'    \bottomrule', r'  \end{tabular}']
  lines += [f'  \\par\\footnotesize {style.escape(note)}'
            for note in _notes(table)]
  return '\n'.join([*lines, r'\end{table}']) + '\n'


def html(table: Table) -> str:
  """The same as HTML.

  Raises:
    ValueError: a mark has no legend.
  """
  style = _Style(escape, '<b>%s</b>', '<sup>%s</sup>')
  row = lambda cells, tag='td': '<tr>' + ''.join(
      f'<{tag}>{cell}</{tag}>' for cell in cells
  ) + '</tr>'
  span = len(table.columns) + 1
  best, lines = _best(table), [
      f'<h3>{escape(table.title)}</h3>', '<table>',
      row(['', *map(escape, table.columns)], 'th'),
  ]
  for group in table.groups:
    if group.title:
      lines.append(f'<tr><th colspan="{span}">{escape(group.title)}</th></tr>')
    lines += [row(_cells(one, best, style)) for one in group.rows]
  lines.append('</table>')
  lines += [f'<p class="note">{escape(note)}</p>' for note in _notes(table)]
  return '\n'.join(lines)


def _best(table: Table) -> dict[str, float | None]:
  """The best of ours in each column; as printed, so that ties are ties."""
  columns = {
      metric: [round(value, 1) for row in table.rows
               if (value := row.ours.get(metric)) is not None]
      for metric in table.columns
  }
  return {metric: metrics.best(metric, values) if values else None
          for metric, values in columns.items()}


def _cells(
    row: Row, best: Mapping[str, float | None], style: _Style
) -> list[str]:
  """The label and a cell for each metric."""
  return [style.escape(row.label),
          *(_cell(row, metric, best[metric], style) for metric in best)]


def _cell(row: Row, metric: str, best: float | None, style: _Style) -> str:
  ours, theirs = row.ours.get(metric), row.paper.get(metric)
  if ours is None and theirs is None:
    return '-'
  shown, beside = '-', '-' if theirs is None else f'{theirs:.1f}'
  if ours is not None:
    rounded = round(ours, 1)
    shown = (style.bold if rounded == best else '%s') % f'{rounded:.1f}'
    if mark := row.marks.get(metric):
      shown += style.raised % style.escape(mark)
    if theirs is not None and row.comparable:
      # Of what is printed, and rounded again: 50.3 - 50.0 is 0.2999.
      change = figures.signed(round(rounded - theirs, 1), '+.1f')
      beside += f', {style.escape(change)}'
  return f'{shown} ({beside})' if row.paper else shown


def _notes(table: Table) -> list[str]:
  """What the cells, the marks and the sizes mean."""
  used = dict.fromkeys(
      mark for row in table.rows for mark in row.marks.values() if mark
  )
  for mark in used:
    if mark not in table.legend:
      raise ValueError(f'the mark {mark!r} has no legend')
  sizes = dict.fromkeys(
      str(row.size) for row in table.rows
      if row.size is not None and not row.comparable
  )
  return [
      'In percent: ours (Lu et al., difference).' if table.paper_size
      else 'In percent.',
      *(f'{mark} {table.legend[mark]}' for mark in used),
      *([f'not comparable: ours {"; ".join(sizes)}; Lu et al. '
         f'{table.paper_size}'] if sizes and table.paper_size else []),
  ]


def escape_markdown(text: str) -> str:
  """Text as it stands in Markdown, on one line."""
  return re.sub(r'([\\`*_\[\]<>|&~$])', r'\\\1', ' '.join(text.split()))


def escape_latex(text: str) -> str:
  """Text as it stands in LaTeX, on one line."""
  return ''.join(_LATEX.get(c, c) for c in ' '.join(text.split()))
