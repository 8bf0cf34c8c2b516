"""Files as the readers see them: bytes, lines, rows; broken ones named."""

import csv
import gzip
import hashlib
import io
import itertools
import json
import pathlib
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import ijson

from neg_contrast import errors
from neg_contrast.data import records

_SPLITS = {
    'train': re.compile('train'),
    'dev': re.compile('dev|valid|(?<![a-z])val(?![a-z])'),
    'test': re.compile('test'),
}
_BOM = b'\xef\xbb\xbf'
# Nine digits fit the int32 that grades are stored in.
_GRADE = re.compile(r'[+-]?[0-9]{1,9}')


def open_text(path: pathlib.Path) -> io.BufferedReader:
  """Opens a file for reading bytes, through gzip if it ends in `.gz`.

  Raises:
    UserError: there is no such file.
  """
  if not path.is_file():
    raise errors.UserError(f'{path}: no such file')
  if path.suffix == '.gz':
    return io.BufferedReader(gzip.GzipFile(path, 'rb'))
  return open(path, 'rb')


def plain_or_gzip(path: pathlib.Path) -> pathlib.Path:
  """`path`, or `path.gz` where only that exists."""
  compressed = path.with_name(path.name + '.gz')
  return compressed if not path.exists() and compressed.exists() else path


def plain_name(path: pathlib.Path) -> str:
  """The file's name without `.gz`."""
  return path.name.removesuffix('.gz')


def listing(place: pathlib.Path, *suffixes: str) -> tuple[pathlib.Path, ...]:
  """The files of a folder by name, or `place` itself if it is a file.

  Args:
    place: a file or a folder; neither gives none.
    suffixes: endings wanted in the folder; `.gz` may follow. Of a file that is
      there with and without `.gz`, the one without is taken.
  """
  if place.is_file():
    return (place,)
  found = {
      plain_name(path): plain_or_gzip(path.with_name(plain_name(path)))
      for path in place.glob('*')
      if plain_name(path).endswith(suffixes) and path.is_file()
  }
  return tuple(found[name] for name in sorted(found))


def split_of(path: pathlib.Path) -> str:
  """`train`, `dev` or `test`, whichever a file's name holds, else `all`.

  `val` and `valid` are `dev` too.
  """
  name = path.name.lower()
  return next((split for split, pattern in _SPLITS.items()
               if pattern.search(name)), 'all')


def content_id(*texts: str) -> str:
  """An id for a passage or query that has none: equal texts, equal ids."""
  data = '\0'.join(texts).encode('utf-8', 'surrogatepass')
  return hashlib.sha256(data).hexdigest()[:24]


def unheard() -> records.InvalidRecords:
  """For all readings of a record but the one that reports its faults."""
  return records.InvalidRecords(skip=True)


def numbered_lines(path: pathlib.Path) -> Iterator[tuple[int, str]]:
  """Numbered lines, cut at newline characters only; blank ones are left out.

  Args:
    path: UTF-8, with or without a byte order mark; gzip if it ends in `.gz`.

  Yields:
    (number from 1, line without its end).

  Raises:
    UserError: the file is missing, damaged or not UTF-8.
  """
  with open_text(path) as f:
    number = 0
    try:
      _skip_mark(f)
      for line in f:
        text = line.decode('utf-8').rstrip('\r\n')
        number += 1
        if text.strip(' '):
          yield number, text
    except UnicodeDecodeError as e:
      raise errors.UserError(
          f'{path}:{number + 1}: not UTF-8 ({e.reason}); convert the file'
      ) from None
    except (EOFError, OSError, zlib.error) as e:
      raise errors.UserError(
          f'{path}: broken after line {number}: {e}. Get the file again'
      ) from None


def json_lines(
    path: pathlib.Path, invalid: records.InvalidRecords
) -> Iterator[tuple[str, Any]]:
  """(`file:line`, value) of a jsonl file; lines that are no json are reported.

  Raises:
    UserError: the file is missing, damaged or not UTF-8.
  """
  for number, line in numbered_lines(path):
    where = f'{path}:{number}'
    try:
      value = json.loads(line)
    except json.JSONDecodeError as e:
      if line.isspace():
        continue
      reason = f'{e.msg} at column {e.colno}'
    except RecursionError:
      reason = 'nested too deeply'
    except ValueError:
      reason = 'a number has too many digits'
    else:
      yield where, value
      continue
    invalid.report('broken_record', where, f'not valid json: {reason}')


def json_items(
    path: pathlib.Path, invalid: records.InvalidRecords
) -> Iterator[tuple[str, Any]]:
  """The items of a file that holds a json array, or a json value a line.

  One item is in memory at a time.

  Yields:
    (`file: item number`, or `file:line`; value).

  Raises:
    UserError: the file is missing, damaged, not UTF-8, or an array with broken
      json in it.
  """
  if first_character(path) != '[':
    yield from json_lines(path, invalid)
    return
  number = 0
  with open_text(path) as f:
    try:
      _skip_mark(f)
      for number, value in enumerate(ijson.items(f, 'item'), 1):
        yield f'{path}: item {number}', value
    except (ijson.JSONError, EOFError, OSError, zlib.error, ValueError) as e:
      reason = ' '.join(str(e).split())
      raise errors.UserError(
          f'{path}: not valid UTF-8 json after item {number}: {reason:.120}. '
          'Get the file again'
      ) from None


def first_character(path: pathlib.Path) -> str:
  """The first one that is no white space; empty in a file without any.

  Raises:
    UserError: the file is missing or damaged.
  """
  with open_text(path) as f:
    try:
      _skip_mark(f)
      while block := f.read(4096):
        if text := block.lstrip():
          return chr(text[0])
    except (EOFError, OSError, zlib.error) as e:
      raise errors.UserError(
          f'{path}: broken at its start: {e}. Get the file again'
      ) from None
  return ''


def json_rows(
    path: pathlib.Path,
    invalid: records.InvalidRecords,
    problem: Callable[[dict[str, Any]], str],
) -> Iterator[tuple[str, dict[str, Any]]]:
  """The objects of a jsonl file; those that can't be used are reported.

  Args:
    path: a json object a line.
    invalid: where to report.
    problem: what is wrong with an object; empty if nothing is.

  Yields:
    (`file:line`, object).
  """
  for where, row in json_lines(path, invalid):
    if not isinstance(row, dict):
      invalid.report('broken_record', where, 'a json object was expected, '
                     f'found {type(row).__name__}')
    elif fault := problem(row):
      invalid.report('broken_record', where, fault)
    else:
      yield where, row


def quoted_rows(
    path: pathlib.Path, invalid: records.InvalidRecords
) -> Iterator[tuple[str, list[str]]]:
  """Rows of tab-separated fields that may be quoted, as Python's csv reads.

  A field in double quotes may hold tabs, newlines and doubled quotes.

  Yields:
    (`file:line`, fields).
  """
  lines = numbered_lines(path)
  for number, line in lines:
    where = f'{path}:{number}'
    if '"' not in line:
      yield where, line.split('\t')
      continue
    rest = itertools.chain((line,), (f'\n{line}' for _, line in lines))
    try:
      row = next(csv.reader(rest, delimiter='\t'))
    except csv.Error as e:
      invalid.report('broken_record', where, f'{e}; is a quote not closed?')
    else:
      yield where, row


def trec_judgement(line: str) -> tuple[str, str, int] | None:
  """(query id, passage id, grade) of a TREC qrels line; None if it is none.

  Args:
    line: four fields between tabs, or, if ids hold no white space, spaces; the
      second one means nothing.
  """
  fields = line.split('\t')
  if len(fields) != 4:
    fields = line.split()
  if len(fields) != 4:
    return None
  grade = parse_grade(fields[3])
  return None if grade is None else (fields[0], fields[2], grade)


def parse_grade(text: str) -> int | None:
  """A whole number of at most nine digits; None if it is something else."""
  text = text.strip()
  return int(text) if _GRADE.fullmatch(text) else None


def _skip_mark(f: io.BufferedReader) -> None:
  """Skips a byte order mark."""
  if f.peek(len(_BOM)).startswith(_BOM):
    f.read(len(_BOM))
