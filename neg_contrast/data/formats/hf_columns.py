"""Columns of the hub's tables, by their usual names or by those asked for."""

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from neg_contrast import errors
from neg_contrast.data import records
from neg_contrast.data.formats import column_tables
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


@dataclasses.dataclass(frozen=True)
class Columns:
  """Those of a file.

  Attributes:
    holds: what a column holds -> its name.
    names: of all.
  """

  holds: Mapping[str, str]
  names: Sequence[str]


def find(
    paths: Iterable[pathlib.Path], options: Mapping[str, str],
    usual: Mapping[str, tuple[str, ...]] = USUAL,
) -> dict[pathlib.Path, Columns]:
  """File -> what its columns hold.

  Args:
    paths: of the files.
    options: what it holds -> the name that the user gives; empty: none.
    usual: what it holds -> names that it is known by.

  Raises:
    UserError: a file can't be read.
  """
  found = {}
  for path in paths:
    names = column_tables.columns(path, 'parquet')
    holds = {}
    for one, known in usual.items():
      asked = options.get(one)
      if asked and asked.partition('/')[0] in names:
        holds[one] = asked
      elif asked is None and (some := column_tables.called(known, [
          name for name in names if name not in options.values()
      ])):
        holds[one] = some[0]
    found[path] = Columns(holds, names)
  return found


def check(
    place: str, found: Mapping[pathlib.Path, Columns],
    options: Mapping[str, str], needed: Iterable[str],
) -> None:
  """Refuses files none of which has a column that is needed, or asked for.

  Args:
    place: of the data set, as the user says it.
    found: by `find`.
    options: as there; empty: none are checked.
    needed: what a column must hold.

  Raises:
    UserError: names it, and the columns that there are.
  """
  path, names = next((path, one.names) for path, one in found.items())
  for holds in dict.fromkeys((*needed, *filter(options.get, options))):
    if not any(holds in one.holds for one in found.values()):
      raise errors.UserError(
          f'hf:{place}: {path} has no column {options.get(holds) or holds}; '
          f'its columns are {", ".join(names)}. Say which holds the {holds}: '
          f'hf:{place}{"&" if "?" in place else "?"}{holds}=COLUMN'
      )


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
    value = self.of(holds)
    if isinstance(value, dict):
      column = self._columns[holds]
      raise pairs.Unusable(
          f'column "{column}" holds {" and ".join(value)}; ?{holds}={column}/'
          f'{next(iter(value), "NAME")} takes one of them, ?{holds}= none')
    return self.texts_under(self._columns.get(holds, ''))

  def need_texts(self, holds: str) -> list[str]:
    """The same of what must be there."""
    texts = self.texts(holds)
    if not texts:
      raise pairs.Unusable(
          f'column "{self._columns.get(holds, holds)}" is empty')
    return texts

  def texts_under(self, column: str) -> list[str]:
    """The texts of a column by its name."""
    return column_tables.texts_of(self._under(column), column)

  def question(self) -> str:
    """The text of the question, which must be there."""
    value = self.of('question')
    column = self._columns.get('question', 'question')
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
      raise pairs.Unusable(
          f'column "{self._columns.get(holds, holds)}" is empty')
    return name

  def grade(self) -> int:
    """1 where there is none."""
    return column_tables.grade_of(
        self.of('grade'), self._columns.get('grade', ''))

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
