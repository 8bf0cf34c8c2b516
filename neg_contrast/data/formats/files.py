"""Files as the readers see them: bytes, lines, rows; broken ones named."""

import collections
import csv
import hashlib
import itertools
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from neg_contrast import errors
from neg_contrast.data import records
from neg_contrast.data.formats import json_reader, line_blocks

_SPLITS = {
    'train': ('train', 'training'),
    'dev': ('dev', 'val', 'valid', 'validation'),
    'test': ('test',),
}
# Nine digits fit the int32 that grades are stored in.
_GRADE = re.compile(r'[+-]?[0-9]{1,9}')
_OPENINGS = ('{', '[', '[{')  # Lines of json that people read.
_START = 1 << 16  # Bytes that tell what a json file holds.
# Of a row between quotes: a quote that is not closed swallows no more.
_MOST_LINES = 1000
csv.field_size_limit(1 << 24)


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
  """`train`, `dev` or `test`, whichever word a file's name holds, else `all`.

  Words are what stands between other characters than letters; `training`,
  `val`, `valid` and `validation` are known too.
  """
  words = set(re.split('[^a-z]+', plain_name(path).lower()))
  return next((split for split, names in _SPLITS.items()
               if words.intersection(names)), 'all')


def content_id(*texts: str) -> str:
  """An id for a passage or query that has none: equal texts, equal ids."""
  data = '\0'.join(texts).encode('utf-8', 'surrogatepass')
  return hashlib.sha256(data).hexdigest()[:24]


def place_of_id(name: str) -> float:
  """From 0 to 1, by a hash: what is below a share is set apart to test on.

  It stays the same when others are added.

  Args:
    name: of a query, such as its `content_id`.
  """
  digest = hashlib.sha256(name.encode('utf-8', 'surrogatepass')).digest()
  return int.from_bytes(digest[:8]) / 2**64


def unheard() -> records.InvalidRecords:
  """For all readings of a record but the one that reports its faults."""
  return records.InvalidRecords(skip=True)


def json_lines(
    lines: line_blocks.Lines, invalid: records.InvalidRecords
) -> Iterator[tuple[str, Any]]:
  """(`file:line`, value) of jsonl; lines that are no json are reported.

  Raises:
    UserError: the file is missing, damaged or not UTF-8.
  """
  path = line_blocks.path_of(lines)
  for number, line in line_blocks.numbered_lines(lines):
    where = f'{path}:{number}'
    try:
      value = json_reader.DECODER.decode(line)
    except json.JSONDecodeError as e:
      if line.isspace():
        continue
      reason = f'{e.msg} at column {e.colno}'
      if line.strip() in _OPENINGS:
        reason += ('; a record is a line of its own, and this looks like json '
                   'over many lines, which `jq -c` joins')
    except RecursionError:
      reason = 'nested too deeply'
    else:
      yield where, value
      continue
    invalid.report('broken_record', where, f'not valid json: {reason}')


def is_json_array(path: pathlib.Path) -> bool:
  """Whether a file holds a json array, and not a json value a line.

  Raises:
    UserError: the file is missing or damaged.
  """
  return line_blocks.start_of(path, _START).lstrip().startswith(b'[')


def json_items(
    lines: line_blocks.Lines, invalid: records.InvalidRecords
) -> Iterator[tuple[str, Any]]:
  """The items of a file that holds a json array, or a json value a line.

  One item is in memory at a time.

  Yields:
    (`file: item number`, or `file:line`; value).

  Raises:
    UserError: the file is missing, damaged, not UTF-8, or an array with broken
      json in it.
  """
  if isinstance(lines, pathlib.Path) and is_json_array(lines):
    yield from array_items(lines)
  else:
    yield from json_lines(lines, invalid)


def array_items(
    path: pathlib.Path, key: str = ''
) -> Iterator[tuple[str, Any]]:
  """(`file: item number`, item) of a json array; one is in memory at a time.

  Args:
    path: the array alone, or an object with it.
    key: of the array in the object.

  Raises:
    UserError: the file is missing, damaged, or not UTF-8 json of that form.
  """
  number = 0
  with line_blocks.opened(path, lambda: f'item {number}') as f:
    try:
      for number, value in enumerate(json_reader.JsonReader(f).items(key), 1):
        yield f'{path}: item {number}', value
    except (json.JSONDecodeError, RecursionError) as e:
      reason = getattr(e, 'msg', 'nested too deeply')
      raise errors.UserError(
          f'{path}: not valid json after item {number}: {reason}. Get the file '
          'again'
      ) from None


def quoted_rows(
    lines: line_blocks.Lines, invalid: records.InvalidRecords,
    delimiter: str = '\t',
) -> Iterator[tuple[str, list[str]]]:
  """Rows of separated fields that may be quoted, as Python's csv reads.

  A field in double quotes may hold delimiters, newlines and doubled quotes.
  After a row that can't be read, the line after its first one is the next row.
  A row that goes on in the next block is left unread.

  Yields:
    (`file:line`, fields).
  """
  source = line_blocks.whole_lines(lines)
  waiting: collections.deque[tuple[int, str]] = collections.deque()

  def take() -> Iterator[tuple[int, str]]:
    while one := waiting.popleft() if waiting else next(source, None):
      yield one

  path = line_blocks.path_of(lines)
  for number, line in take():
    where, plain = f'{path}:{number}', line.rstrip('\r\n')
    if not plain.strip(' '):
      continue
    if not plain.startswith('"') and f'{delimiter}"' not in plain:
      yield where, plain.split(delimiter)
      continue
    taken = [(number, line)]
    has_ended = False

    def row(taken=taken) -> Iterator[str]:
      nonlocal has_ended
      yield taken[0][1]
      for one in itertools.islice(take(), _MOST_LINES):
        taken.append(one)
        yield one[1]
      has_ended = len(taken) <= _MOST_LINES

    try:
      fields = next(csv.reader(row(), delimiter=delimiter, strict=True))
    except csv.Error as e:
      if (has_ended and isinstance(lines, line_blocks.Block)
          and not lines.is_last):
        lines.unread = ''.join(text for _, text in taken).encode()
        return
      waiting.extendleft(reversed(taken[1:]))
      invalid.report('broken_record', where, f'{e} (is a quote not closed?)')
    else:
      yield where, fields


def parse_weight(text: str) -> float | None:
  """A number, also one that is no `records.is_weight`; None: it is none."""
  try:
    return None if is_of_python(text) else float(text)
  except ValueError:
    return None


def is_of_python(text: str) -> bool:
  """Whether Python alone would read it as a number: 1_000, or ١."""
  return '_' in text or not text.isascii()


def parse_grade(text: str) -> int | None:
  """A whole number of at most nine digits; None if it is something else."""
  text = text.strip()
  return int(text) if _GRADE.fullmatch(text) else None
