"""Files as the readers see them: bytes, lines, rows; broken ones named."""

import gzip
import io
import json
import pathlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from neg_contrast import errors
from neg_contrast.data import records

_SPLITS = ('train', 'dev', 'test')


def open_text(path: pathlib.Path) -> io.BufferedIOBase:
  """Opens a file for reading bytes, through gzip if it ends in `.gz`.

  Raises:
    UserError: there is no such file.
  """
  if not path.is_file():
    raise errors.UserError(f'{path}: no such file')
  if path.suffix == '.gz':
    return gzip.GzipFile(path, 'rb')
  return open(path, 'rb')


def plain_or_gzip(path: pathlib.Path) -> pathlib.Path:
  """`path`, or `path.gz` where only that exists."""
  compressed = path.with_name(path.name + '.gz')
  return compressed if not path.exists() and compressed.exists() else path


def split_of(path: pathlib.Path) -> str:
  """`train`, `dev` or `test`, whichever a file's name holds, else `all`."""
  name = path.name.lower()
  return next((split for split in _SPLITS if split in name), 'all')


def numbered_lines(path: pathlib.Path) -> Iterator[tuple[int, str]]:
  """Numbered lines, cut at newline characters only; blank ones are left out.

  Args:
    path: UTF-8, gzip if it ends in `.gz`.

  Yields:
    (number from 1, line without its end).

  Raises:
    UserError: the file is missing, damaged or not UTF-8.
  """
  with open_text(path) as f:
    number = 0
    try:
      for line in f:
        text = line.decode('utf-8').rstrip('\r\n')
        number += 1
        if text:
          yield number, text
    except UnicodeDecodeError as e:
      raise errors.UserError(
          f'{path}:{number + 1}: not UTF-8 ({e.reason}); convert the file'
      ) from None
    except (EOFError, OSError, zlib.error) as e:
      raise errors.UserError(
          f'{path}: broken after line {number}: {e}. Get the file again'
      ) from None


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
  for number, line in numbered_lines(path):
    where = f'{path}:{number}'
    try:
      row = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as e:
      reason = (f'{e.msg} at column {e.colno}'
                if isinstance(e, json.JSONDecodeError) else 'nested too deeply')
      invalid.report('broken_record', where, f'not valid json: {reason}')
      continue
    if not isinstance(row, dict):
      invalid.report('broken_record', where, 'a json object was expected, '
                     f'found {type(row).__name__}')
    elif problem(row):
      invalid.report('broken_record', where, problem(row))
    else:
      yield where, row
