"""HTML of tables and marked texts for notebooks; everything is escaped. Pure.

No scripts, no styles of a page: a notebook gives its own to tables.
"""

import html
from collections.abc import Iterable, Sequence

_AROUND = 200  # Characters shown before and after a marked part.
_LONGEST = 400  # Characters of a text without one.


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    caption: str = '',
    numbers: Sequence[int] = (),
) -> str:
  """A table.

  Args:
    columns: plain texts.
    rows: cells, HTML from `text`, `marked` or `number`.
    caption: plain text; empty: none.
    numbers: columns, from 0, that stand to the right.
  """
  style = [' style="text-align:right"' if place in numbers else
           ' style="text-align:left"' for place in range(len(columns))]
  head = ''.join(f'<th{one}>{text(name)}</th>'
                 for one, name in zip(style, columns, strict=True))
  body = ''.join(
      '<tr>' + ''.join(f'<td{one}>{cell}</td>' for one, cell in
                       zip(style, cells, strict=True)) + '</tr>'
      for cells in rows
  )
  title = f'<caption>{text(caption)}</caption>' if caption else ''
  return (f'<table>{title}<thead><tr>{head}</tr></thead>'
          f'<tbody>{body}</tbody></table>')


def text(value: str, longest: int | None = None) -> str:
  """A text, escaped, without characters that are not printed.

  Args:
    value: of anybody.
    longest: characters to show; None: all.
  """
  if longest is not None and len(value) > longest:
    value = value[:longest] + ' …'
  return html.escape(_printable(value), quote=True)


def marked(value: str, start: int, end: int) -> str:
  """A text with a part marked, and what stands around it.

  Args:
    value: of anybody.
    start: of the part, in characters.
    end: of the part; `start`: there is none, and the text's beginning is shown.
  """
  if end <= start:
    return text(value, _LONGEST)
  first, last = max(0, start - _AROUND), min(len(value), end + _AROUND)
  return ''.join((
      '… ' if first else '', text(value[first:start]),
      f'<mark>{text(value[start:end])}</mark>', text(value[end:last]),
      ' …' if last < len(value) else '',
  ))


def number(value: float, digits: int = 4) -> str:
  """A number with so many digits behind the point."""
  return f'{value:.{digits}f}'


def _printable(value: str) -> str:
  """As many characters; those that are not printed become spaces."""
  return ''.join(c if c.isprintable() else ' ' for c in value)
