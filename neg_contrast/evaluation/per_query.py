"""What one system reached on each query: a table for error analysis.

Tab-separated with a header line, a query a line, for pandas, spreadsheets and
`cut`. Fields that hold a double quote are quoted and double it, as Python's csv
writes and all of these read.
"""

import csv
import dataclasses
import math
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence

from neg_contrast import errors
from neg_contrast.artifacts import atomic
from neg_contrast.data.formats import line_blocks
from neg_contrast.evaluation import metrics as metrics_lib

COLUMNS = (
    'query_id', 'query', 'first_positive_rank', 'first_passage_id',
    'first_passage_is_positive', 'answers',
)
"""Those before the metrics."""

_BREAKS = re.compile('[\t\n\r]')

FILE = 'per_query.tsv'
"""Its name in the folder of an evaluation."""


@dataclasses.dataclass(frozen=True)
class Result:
  """A line of the table.

  Attributes:
    query_id: unique in the table.
    query: its text.
    first_positive_rank: from 1; None if no positive was found.
    first_passage_id: of the best passage; empty if none was found.
    first_passage_is_positive: whether that one is.
    answers: empty where none are known.
    metrics: metric -> value; one that was not measured on it is left out.
  """

  query_id: str
  query: str
  first_positive_rank: int | None
  first_passage_id: str
  first_passage_is_positive: bool
  answers: tuple[str, ...]
  metrics: Mapping[str, float]


def write(
    path: pathlib.Path, rows: Iterable[Result], metrics: Sequence[str]
) -> None:
  """Writes the table atomically, query by query, values so that they read back.

  Tabs and line breaks in texts become spaces.

  Args:
    path: the file to write, gzip if it ends in .gz.
    rows: in the order of the lines.
    metrics: the last columns.

  Raises:
    UserError: an id holds a tab or a line break.
    ValueError: a line has other metrics, or a value is not finite.
  """
  with atomic.writing(path) as f:
    lines = csv.writer(f, delimiter='\t', lineterminator='\n')
    lines.writerow((*COLUMNS, *metrics))
    for row in rows:
      lines.writerow(_fields(row, metrics))


def _fields(row: Result, metrics: Sequence[str]) -> tuple[str, ...]:
  """The fields of a line."""
  rank, values = row.first_positive_rank, row.metrics
  if not values.keys() <= set(metrics):
    raise ValueError(f'query {row.query_id!r} has other metrics')
  if not all(map(math.isfinite, values.values())):
    raise ValueError(f'query {row.query_id!r}: not all of {values} are finite')
  return (
      _checked('query', row.query_id),
      _BREAKS.sub(' ', row.query),
      '' if rank is None else str(rank),
      _checked('passage', row.first_passage_id),
      str(int(row.first_passage_is_positive)),
      _BREAKS.sub(' ', ' | '.join(row.answers)),
      # The shortest text that reads back as itself.
      *(repr(float(values[name])) if name in values else ''
        for name in metrics),
  )


def _checked(kind: str, name: str) -> str:
  if _BREAKS.search(name):
    raise errors.UserError(
        f'{kind} id {name!r} holds a tab or a line break, which a table cannot '
        'hold: rename it'
    )
  return name


def read(path: pathlib.Path) -> dict[str, dict[str, float]]:
  """Reads the values of a table.

  Returns:
    Metric -> query id -> value, in the order of the file; queries that it was
    not measured on are left out. A metric that is a mean over worlds has no
    value of a query: its column is that of the same mean over queries, and is
    called so (`micro_unnormalized_accuracy`).

  Raises:
    UserError: there is no such table, or a line is damaged: file, line, column.
  """
  values: dict[str, dict[str, float]] | None = None
  seen: set[str] = set()
  for number, line in line_blocks.numbered_lines(path):
    where = f'{path}:{number}'
    fields = _split(line, where)
    if values is None:
      values = _header(fields, where)
      continue
    if len(fields) != len(COLUMNS) + len(values):
      raise errors.UserError(
          f'{where}: {len(fields)} fields under a header of '
          f'{len(COLUMNS) + len(values)}'
      )
    query, texts = fields[0], fields[len(COLUMNS):]
    if query in seen:
      raise errors.UserError(f'{where}: query {query!r} occurs twice')
    seen.add(query)
    for (metric, by_query), text in zip(values.items(), texts, strict=True):
      if text:
        by_query[query] = _number(text, f'{where}: {metric}')
  if values is None:
    raise errors.UserError(f'{path}: empty, without even a header')
  return values


def _split(line: str, where: str) -> list[str]:
  try:
    return next(csv.reader([line], delimiter='\t', strict=True))
  except csv.Error as e:
    raise errors.UserError(f'{where}: {e} (is a quote not closed?)') from None


def _header(fields: list[str], where: str) -> dict[str, dict[str, float]]:
  """An empty dict for each metric."""
  metrics = fields[len(COLUMNS):]
  if tuple(fields[:len(COLUMNS)]) != COLUMNS:
    raise errors.UserError(
        f'{where}: the header does not begin with {", ".join(COLUMNS)}: no '
        'table of queries'
    )
  if len(set(metrics)) < len(metrics):
    raise errors.UserError(f'{where}: a metric has two columns')
  return {metrics_lib.of_queries(metric): {} for metric in metrics}


def _number(text: str, where: str) -> float:
  try:
    value = float(text)
  except ValueError:
    value = math.nan
  if not math.isfinite(value):
    raise errors.UserError(f'{where}: {text!r} is no finite number')
  return value
