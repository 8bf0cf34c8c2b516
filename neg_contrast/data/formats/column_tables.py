"""Tables of named columns: csv, tsv, jsonl, Parquet.

A new kind of table is a class like `_Jsonl` and a line in `KINDS`.
"""

import contextlib
import dataclasses
import itertools
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from neg_contrast import errors
from neg_contrast.data import records
from neg_contrast.data.formats import files, given_pairs

_WHOLE = re.compile(r'(?<=\d)\.0+$')
Rows = Iterator[tuple[str, dict[str, Any]]]
"""(`file:line`, values by column)."""


class Kind(Protocol):
  """How tables of a kind are read."""

  def columns(self, path: pathlib.Path, lines: int) -> list[str]:
    """The names of the columns; of so many lines, if each names its own."""
    ...

  def rows(self, path: pathlib.Path, invalid: records.InvalidRecords) -> Rows:
    """The rows, in their order."""
    ...


@dataclasses.dataclass(frozen=True)
class _Separated:
  """Lines of fields, which may stand between quotes, after a header.

  Attributes:
    delimiter: between fields.
    other: does as well, if the header has that alone: spreadsheets write `;`
      where a comma is the decimal point.
  """

  delimiter: str
  other: str = ''

  def columns(self, path: pathlib.Path, lines: int = 1) -> list[str]:
    """The fields of the first line, without those that are empty."""
    del lines  # One names all.
    return [name for name in self._names(path) if name]

  def _names(self, path: pathlib.Path) -> list[str]:
    """Those of all columns; '' is not read, such as the index of pandas."""
    where, header = self._header(path, self._delimiter_of(path))
    names = [name.strip() for name in header]
    named = [name for name in names if name]
    if (names and not named) or len(set(named)) < len(named):
      raise errors.UserError(
          f'{where}: the first line names the columns, each once; it has '
          f'{names}'
      )
    return names

  def rows(self, path: pathlib.Path, invalid: records.InvalidRecords) -> Rows:
    """Those with as many fields as there are columns."""
    names = self._names(path)
    found = files.quoted_rows(path, invalid, self._delimiter_of(path))
    for where, fields in itertools.islice(found, 1, None):
      if len(fields) == len(names):
        yield where, {name: field for name, field in zip(
            names, fields, strict=True) if name}
      else:
        invalid.report('broken_record', where, f'{len(fields)} fields, where '
                       f'the first line names {len(names)} columns')

  def _delimiter_of(self, path: pathlib.Path) -> str:
    _, header = self._header(path, self.delimiter)
    is_other = self.other and len(header) == 1 and self.other in header[0]
    return self.other if is_other else self.delimiter

  def _header(
      self, path: pathlib.Path, delimiter: str
  ) -> tuple[str, list[str]]:
    found = files.quoted_rows(path, files.unheard(), delimiter)
    return next(found, (f'{path}:1', []))


class _Jsonl:
  """Objects, one a line."""

  def columns(self, path: pathlib.Path, lines: int) -> list[str]:
    """The keys of the first objects, in the order in which they come."""
    rows = [*itertools.islice(self.rows(path, files.unheard()), lines)]
    if not rows:
      raise errors.UserError(
          f'{path}: no line is a json object. Jsonl has one a line: an array, '
          'or a file that is printed over many lines, is made so by jq -c '
          '\'.[]\' FILE or jq -c . FILE'
      )
    return list(dict.fromkeys(name for _, row in rows for name in row))

  def rows(self, path: pathlib.Path, invalid: records.InvalidRecords) -> Rows:
    """The objects."""
    yield from given_pairs.read_each(
        files.json_lines(path, invalid),
        lambda row, where: (where, given_pairs.get_object(row)), invalid,
    )


class _Parquet:
  """Parquet, by pyarrow, which is no requirement."""

  def columns(self, path: pathlib.Path, lines: int) -> list[str]:
    """Those of the schema."""
    del lines
    with _parquet_file(path) as table:
      return list(table.schema_arrow.names)

  def rows(self, path: pathlib.Path, invalid: records.InvalidRecords) -> Rows:
    """Of a group of rows after the other; one is in memory."""
    del invalid  # A Parquet file is whole, or it can't be read.
    number = 0
    with _parquet_file(path) as table:
      for batch in table.iter_batches():
        for row in batch.to_pylist():
          number += 1
          yield f'{path}: row {number}', row


@contextlib.contextmanager
def _parquet_file(path: pathlib.Path) -> Iterator[Any]:
  try:
    from pyarrow import ArrowException, parquet
  except ImportError:
    raise errors.UserError(
        f'{path}: Parquet is read by a package that is not installed; '
        'pip install pyarrow'
    ) from None
  try:
    with parquet.ParquetFile(path) as table:
      yield table
  except (ArrowException, OSError, UnicodeDecodeError) as e:
    raise errors.UserError(
        f'{path}: broken: {e}. Get the file again'
    ) from None


KINDS: Mapping[str, Kind] = {
    'csv': _Separated(',', ';'),
    'tsv': _Separated('\t'),
    'jsonl': _Jsonl(),
    'parquet': _Parquet(),
}
"""Ending of a file's name -> what reads it."""


def kind_of(path: pathlib.Path) -> str | None:
  """The kind that a file's name ends with, `.gz` apart; None: it is no table.
  """
  ending = pathlib.PurePath(files.plain_name(path)).suffix.lower()[1:]
  return ending if ending in KINDS else None


def rows(
    path: pathlib.Path, kind: str, invalid: records.InvalidRecords
) -> Rows:
  """The rows of a table, without those that can't be read.

  Args:
    path: gzipped or not, but for Parquet.
    kind: a key of `KINDS`.
    invalid: hears of rows that can't be read.

  Raises:
    UserError: the file is missing, damaged, or its columns have no names.
  """
  return KINDS[kind].rows(path, invalid)


def columns(path: pathlib.Path, kind: str, lines: int = 1) -> list[str]:
  """The names of a table's columns; raises as `rows`.

  Args:
    path: as for `rows`.
    kind: likewise.
    lines: of jsonl, whose objects may leave keys out, how many are looked at.
  """
  if path.is_dir():
    raise errors.UserError(
        f'{path}: a folder, where a table is wanted. Name its file; documents '
        f'in a folder go with it: {kind}:TABLE?documents=FOLDER'
    )
  if not path.is_file():
    raise errors.UserError(f'{path}: no such file')
  return KINDS[kind].columns(path, lines)


def texts_of(value: Any, column: str) -> list[str]:
  """One text or several; blank ones and null are none.

  Raises:
    Unusable: there is something else.
  """
  values = value if isinstance(value, list) else (
      [] if value is None else [value])
  return [one for one in given_pairs.as_texts(values, column) if one.strip()]


def grade_of(value: Any, column: str) -> int:
  """A grade, 1 where there is none.

  Tables of numbers write whole ones as 1.0 where a cell of the column is empty.

  Raises:
    Unusable: it is no whole number.
  """
  text = '' if value is None or value != value else str(value).strip()
  if isinstance(value, bool):
    text = str(int(value))
  grade = files.parse_grade(_WHOLE.sub('', text)) if text else 1
  if grade is None:
    raise given_pairs.Unusable(
        f'column "{column}" holds {value!r:.40}, not a whole number; ?grade= '
        'reads none')
  return grade


def called(known: Iterable[str], names: Sequence[str]) -> list[str]:
  """The names of columns that are known ones in any case, in their order."""
  return [name for one in known for name in names if name.lower() == one]
