"""Columns of a user's table, by their usual names or by those asked for."""

import dataclasses
import pathlib
from collections.abc import Container, Iterable, Mapping
from typing import Any

from neg_contrast import errors
from neg_contrast.data.formats import column_tables
from neg_contrast.data.formats import given_pairs as pairs

USUAL: Mapping[str, tuple[str, ...]] = {
    'question': ('question', 'query'),
    'document': ('document', 'document_id', 'doc_id', 'passage_id', 'file',
                 'filename', 'path'),
    'text': ('text', 'passage', 'positive', 'content', 'body', 'answer'),
    'title': ('title',),
    'answer': ('answer', 'answers'),
    'grade': ('grade', 'score', 'label', 'relevance'),
    'weight': ('weight',),
    'split': ('split',),
    'id': ('id', '_id', 'document', 'document_id', 'doc_id'),
}
"""What a column holds -> names that it is known by, the option's own first."""
OF_DOCUMENTS = ('id', 'title', 'text')
"""What a table of documents holds."""
OPTIONAL = ('title', 'answer', 'grade', 'weight', 'split')
"""What rows may leave out."""
_TEST_SHARE = 0.2
_LINES = 10_000  # Of jsonl, whose keys are looked at: a part of a second.


@dataclasses.dataclass(frozen=True)
class Options:
  """What stands after the ? of a place.

  Attributes:
    documents: a folder or table; empty: rows hold their texts.
    test: share of the questions that become the split `test`, where no column
      names splits.
    columns: what it holds -> name, as far as the user says; empty: none.
  """

  documents: str = ''
  test: float = _TEST_SHARE
  columns: Mapping[str, str] = dataclasses.field(default_factory=dict)


def parse(spec: str, asked: str) -> Options:
  """The options after the ?.

  Raises:
    UserError: one is not known.
  """
  documents, test, columns = '', _TEST_SHARE, {}
  for one in filter(None, asked.split('&')):
    key, equals, value = one.partition('=')
    if key == 'documents':
      documents = value
    elif key == 'test':
      try:
        test = float(value)
      except ValueError:
        test = -1
      if not 0 <= test < 1:
        raise errors.UserError(f'{spec}: test={value} is a share of the '
                               'questions, from 0 to below 1')
    elif key in USUAL and equals:
      columns[key] = value
    else:
      raise errors.UserError(
          f'{spec}: "{one}" is none of documents=PLACE, test=SHARE, '
          + ', '.join(f'{name}=COLUMN' for name in USUAL)
      )
  return Options(documents, test, columns)


def find(
    path: pathlib.Path, kind: str, asked: Mapping[str, str],
    wanted: Container[str] = USUAL,
) -> dict[str, str]:
  """What columns of a table hold -> their names there.

  Usual names of the first line go before those that only later ones have. The
  column of the passages holds no answers, unless it is asked for.

  Args:
    path: the table.
    kind: of it, see `column_tables.KINDS`.
    asked: what it holds -> the name that the user gives; empty: none.
    wanted: what it holds, as far as it is read.

  Raises:
    UserError: it has no column that is asked for.
  """
  first = column_tables.columns(path, kind)
  names = column_tables.columns(path, kind, _LINES)
  columns: dict[str, str] = {}
  for holds, known in USUAL.items():
    if holds not in wanted:
      continue
    name = asked.get(holds)
    taken = (columns.get('text'),) if holds == 'answer' else ()
    if name in names:
      columns[holds] = name
    elif name:
      raise errors.UserError(
          f'{path}: no column "{name}"; its columns are {", ".join(names)}'
      )
    elif name != '' and (found := [
        one for some in (first, names)
        for one in column_tables.called(known, some) if one not in taken]):
      columns[holds] = found[0]
  return columns


def check_late(
    row: Mapping[str, Any], columns: Mapping[str, str],
    asked: Mapping[str, str], optional: Iterable[str] = OPTIONAL,
) -> None:
  """Refuses a row with a key that would be taken for nothing.

  Args:
    row: values by column.
    columns: as `find` found them.
    asked: as there.
    optional: what is read of a row if it is there.

  Raises:
    Unusable: it has a usual name of what no column holds.
  """
  for holds in optional:
    if holds in columns or holds in asked:
      continue
    late = next((key for key in row if key.lower() in USUAL[holds]
                 and key not in columns.values()), None)
    if late is not None:
      raise pairs.Unusable(
          f'key "{late}" is in none of the first {_LINES:,} lines, by which '
          'columns are known; give it to one of them, null where it has none, '
          f'or read none by ?{holds}=')


def given(
    row: Mapping[str, Any], columns: Mapping[str, str], holds: str
) -> Any:
  """The value of a column; None: there is no such column, or it is empty."""
  value = row.get(columns.get(holds, ''))
  return None if isinstance(value, str) and not value.strip() else value
