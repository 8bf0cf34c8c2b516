"""Columns of the hub's tables, by their usual names or by those asked for."""

import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from neg_contrast import errors
from neg_contrast.data import records
from neg_contrast.data.formats import column_tables, files
from neg_contrast.data.formats import given_pairs as pairs

USUAL: Mapping[str, tuple[str, ...]] = {
    'question': ('question', 'query', 'anchor'),
    'text': ('text', 'passage', 'positive', 'positives', 'context', 'content'),
    'negative': ('negative', 'negatives'),
    'title': ('title',),
    'answer': ('answer', 'answers'),
    'id': ('_id', 'id'),
    'query_id': ('query-id', 'query_id', 'qid'),
    'passage_id': ('corpus-id', 'corpus_id', 'passage_id', 'doc_id', 'pid'),
    'grade': ('score', 'grade', 'relevance', 'label'),
}
"""What a column holds -> names that it is known by."""


def find(
    place: str, path: pathlib.Path, options: Mapping[str, str], *needed: str,
    usual: Mapping[str, tuple[str, ...]] = USUAL,
) -> dict[str, str]:
  """What columns of a file hold -> their names there.

  Args:
    place: of the data set, as the user says it.
    path: the file.
    options: what it holds -> the name that the user gives; empty: none.
    *needed: what some column must hold.
    usual: what it holds -> names that it is known by.

  Raises:
    UserError: a needed one is not known; says which there are.
  """
  names = column_tables.columns(path, 'parquet')
  found = {}
  for holds, known in usual.items():
    asked = options.get(holds)
    if asked and asked.partition('/')[0] in names:
      found[holds] = asked
    elif asked is None and (some := [
        one for one in known if one in names and one not in options.values()
    ]):
      found[holds] = some[0]
  for holds in needed:
    if holds not in found:
      raise errors.UserError(
          f'hf:{place}: {path} has no column {options.get(holds) or holds}; '
          f'its columns are {", ".join(names)}. Say which holds the {holds}: '
          f'hf:{place}{"&" if "?" in place else "?"}{holds}=COLUMN'
      )
  return found


class Row:
  """The values of a row, by what they are.

  Methods raise `Unusable` where a value can't be read.
  """

  def __init__(self, values: dict[str, Any], columns: Mapping[str, str]):
    """Takes values by column, and columns by what they hold."""
    self._values, self._columns = values, columns

  def of(self, holds: str) -> Any:
    """The value of a column; None: there is no such column, or it is null."""
    return self._under(self._columns.get(holds, ''))

  def texts(self, holds: str) -> list[str]:
    """One text or several; blank ones and null are none."""
    return self.texts_under(self._columns.get(holds, ''))

  def need_texts(self, holds: str) -> list[str]:
    """The same of what must be there."""
    texts = self.texts(holds)
    if not texts:
      raise pairs.Unusable(f'column "{self._columns[holds]}" is empty')
    return texts

  def texts_under(self, column: str) -> list[str]:
    """The texts of a column by its name."""
    value = self._under(column)
    values = value if isinstance(value, list) else (
        [] if value is None else [value])
    return [text for text in pairs.as_texts(values, column) if text.strip()]

  def question(self) -> str:
    """The text of the question, which must be there."""
    value, column = self.of('question'), self._columns['question']
    if isinstance(value, str) and value.strip():
      return value
    raise pairs.Unusable(f'column "{column}" is empty' if not value else
                         f'column "{column}" holds {pairs.kind_of(value)}, not '
                         'text')

  def id(self, *holds: str) -> str:
    """The first of some ids that is there; empty: there is none."""
    return next((str(value) for one in holds
                 if (value := self.of(one)) not in (None, '')), '')

  def need_id(self, holds: str) -> str:
    """An id that must be there."""
    name = self.id(holds)
    if not name:
      raise pairs.Unusable(f'column "{self._columns[holds]}" is empty')
    return name

  def grade(self) -> int:
    """1 where there is none."""
    value = self.of('grade')
    if isinstance(value, bool) or (
        isinstance(value, float) and value.is_integer()):
      value = int(value)
    grade = 1 if value is None else files.parse_grade(str(value))
    if grade is None:
      raise pairs.Unusable(f'column "{self._columns["grade"]}" holds '
                           f'{value!r:.40}, not a whole number; ?grade= reads '
                           'none')
    return grade

  def _under(self, column: str) -> Any:
    """The value under `column`, or of `column/inner`."""
    value: Any = self._values
    for key in column.split('/'):
      value = value.get(key) if isinstance(value, dict) else None
    return value


def read(
    path: pathlib.Path, columns: Mapping[str, str],
    make: Callable[[Row, str], pairs.Record], invalid: records.InvalidRecords,
) -> Iterator[pairs.Record]:
  """What `make` makes of each row and where it stands; faults are reported."""
  rows = ((where, Row(values, columns)) for where, values
          in column_tables.rows(path, 'parquet', invalid))
  return pairs.read_each(rows, make, invalid)
