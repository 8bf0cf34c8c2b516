"""Rows of click logs, page by page of results; see `clicks.py`."""

import datetime
import math
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from neg_contrast.data import records
from neg_contrast.data.formats import column_tables, files
from neg_contrast.data.formats import given_pairs as pairs

_FLAGS = {'true': True, '1': True, 'false': False, '0': False}


class Row(NamedTuple):
  """A passage that was shown."""

  query: str
  session: str
  time: float | None
  passage: str
  rank: int
  clicked: bool
  weight: float
  where: str

  @property
  def search(self) -> tuple[str, str, float | None]:
    """What rows of one page of results have alike."""
    return self.query, self.session, self.time


def pages(
    log: pathlib.Path, invalid: records.InvalidRecords
) -> Iterator[list[Row]]:
  """Pages of results of a log, without the rows that can't be read.

  Those of a session with times come last, in the order of their first rows.
  """
  timed: dict[tuple[str, str, float | None], list[Row]] = {}
  follow: list[Row] = []  # Rows of others are a page as they follow each other.
  has_time: dict[str, bool] = {}
  rows = column_tables.rows(log, column_tables.kind_of(log) or '', invalid)
  for row in pairs.read_each(rows, _row, invalid):
    if row.session and has_time.setdefault(
        row.session, row.time is not None) != (row.time is not None):
      invalid.report('broken_record', row.where, 'other rows of session '
                     f'"{row.session}" have a time and this one has none, or '
                     'the other way round')
      continue
    is_timed = bool(row.session) and row.time is not None
    page = timed.setdefault(row.search, []) if is_timed else follow
    before = next((one for one in page if one.rank == row.rank), None)
    is_same = bool(page) and page[0].search == row.search
    if is_same and before and row.time is not None:
      invalid.report('broken_record', row.where,
                     f'rank {row.rank} stands twice on one page of results '
                     f'("{before.passage}" and "{row.passage}" for '
                     f'"{row.query:.40}")')
      continue
    if page and (not is_same or before):
      yield page
      page = follow = []
    page.append(row)
  if follow:
    yield follow
  yield from timed.values()


def _row(values: dict[str, Any], where: str) -> Row:
  """Reads a row.

  Raises:
    Unusable: it can't be read.
  """
  query = values.get('query')
  if not isinstance(query, str) or not query.strip():
    raise pairs.Unusable(f'"query" holds {query!r:.40}, not the words of a '
                         'query')
  rank, clicked = (str(values.get(key)).strip() for key in ('rank', 'clicked'))
  if not rank.isascii() or not rank.isdigit() or not 0 < int(rank[:10]) < 10**9:
    raise pairs.Unusable(f'"rank" holds {values.get("rank")!r:.40}, not a '
                         'whole number from 1')
  if clicked.lower() not in _FLAGS:
    raise pairs.Unusable(f'"clicked" holds {values.get("clicked")!r:.40}, not '
                         'true, false, 1 or 0')
  return Row(
      query.strip(), pairs.get_id(values, 'session'), _time(values),
      pairs.need_id(values, 'passage_id'), int(rank), _FLAGS[clicked.lower()],
      _weight(values), where,
  )


def _weight(values: dict[str, Any]) -> float:
  """The weight of a click, 1 without any.

  Raises:
    Unusable: it is none.
  """
  if values.get('weight', '') == '':
    return 1.0
  weight = files.parse_weight(str(values['weight']))
  if weight is None or not records.is_weight(weight):
    raise pairs.Unusable(f'"weight" holds {values["weight"]!r:.40}, not a '
                         f'number from 0 to {records.MOST_WEIGHT:g}')
  return weight


def _time(values: dict[str, Any]) -> float | None:
  """Seconds; None: there is none.

  Raises:
    Unusable: it is neither a number nor ISO 8601.
  """
  value = values.get('time', '')
  if value is None or value == '':
    return None
  seconds = files.parse_weight(str(value))
  if seconds is None:
    try:
      moment = datetime.datetime.fromisoformat(str(value))
    except ValueError:
      seconds = math.nan
    else:
      zone = moment.tzinfo or datetime.UTC
      seconds = moment.replace(tzinfo=zone).timestamp()
  if not math.isfinite(seconds):
    raise pairs.Unusable(f'"time" holds {value!r:.40}, neither seconds nor a '
                         'moment such as 2024-05-01T09:30:00')
  return seconds
