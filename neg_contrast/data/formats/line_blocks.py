"""Lines of files: whole files, or blocks of them that are read apart."""

import contextlib
import dataclasses
import gzip
import io
import pathlib
import zlib
from collections.abc import Callable, Iterator

from neg_contrast import errors

_BOM = b'\xef\xbb\xbf'
_GZIP = b'\x1f\x8b'
_BLOCK = 1 << 18  # Bytes: some 350 passages, which take a core 10 ms.


@dataclasses.dataclass(slots=True)
class Block:
  """Some whole lines of a file, which can be read apart from the others.

  Attributes:
    path: of the file.
    first: number of the first line.
    data: the lines with their ends.
    is_last: whether the file ends with them.
    unread: its end, where a row goes on in the next block; set by the reader,
      which leaves it to that.
  """

  path: pathlib.Path
  first: int
  data: bytes
  is_last: bool
  unread: bytes = b''


Lines = pathlib.Path | Block
"""Where lines are read: a whole file, or a block of one."""


def open_text(path: pathlib.Path) -> io.BufferedReader:
  """Opens a file for reading bytes, after a byte order mark if it has one.

  A gzipped file is seen by its first bytes, whatever its name.

  Raises:
    UserError: there is no such file, or it can't be opened.
  """
  if not path.is_file():
    raise errors.UserError(f'{path}: no such file')
  with path.open('rb') as plain:
    is_gzip = plain.read(len(_GZIP)) == _GZIP
  f: io.BufferedReader = (
      io.BufferedReader(gzip.GzipFile(path)) if is_gzip
      else path.open('rb')  # The caller closes it.
  )
  try:
    if f.peek(len(_BOM)).startswith(_BOM):
      f.read(len(_BOM))
  except BaseException:
    f.close()
    raise
  return f


@contextlib.contextmanager
def opened(
    path: pathlib.Path, place: Callable[[], str]
) -> Iterator[io.BufferedReader]:
  """Opens a file; raises as `_reading`, and where it is missing."""
  with _reading(path, place), open_text(path) as f:
    yield f


@contextlib.contextmanager
def _reading(path: pathlib.Path, place: Callable[[], str]) -> Iterator[None]:
  """Says what is wrong with the bytes of a file, and after what place.

  Raises:
    UserError: they are damaged, not to be read, or not UTF-8.
  """
  try:
    yield
  except PermissionError as e:
    raise errors.UserError(f'{path}: {e.strerror}') from None
  except UnicodeDecodeError as e:
    raise errors.UserError(
        f'{path}: not UTF-8 after {place()} ({e.reason}); convert the file'
    ) from None
  except (EOFError, OSError, zlib.error) as e:
    raise errors.UserError(
        f'{path}: broken after {place()}: {e}. Get the file again'
    ) from None


def start_of(path: pathlib.Path, size: int) -> bytes:
  """The first bytes of a file.

  Raises:
    UserError: as `opened`.
  """
  with opened(path, lambda: 'its start') as f:
    return f.read(size)


def read_blocks(path: pathlib.Path) -> Iterator[Block]:
  """A file in blocks of about 256 KiB; one is in memory.

  Raises:
    UserError: the file is missing or damaged.
  """
  number = 1
  with opened(path, lambda: f'line {number - 1}') as f:
    while data := f.read(_BLOCK):
      data += f.readline()
      yield Block(path, number, data, is_last=not f.peek(1))
      number += data.count(b'\n')


def with_unread(unread: bytes, block: Block) -> Block:
  """A block with what was left unread of the one before it, if anything was."""
  if not unread:
    return block
  return Block(block.path, block.first - unread.count(b'\n'),
               unread + block.data, block.is_last)


def numbered_lines(lines: Lines) -> Iterator[tuple[int, str]]:
  """Numbered lines, cut at newline characters only; blank ones are left out.

  Args:
    lines: UTF-8; a file with or without a byte order mark, gzipped or not.

  Yields:
    (number from 1, line without its end).

  Raises:
    UserError: the file is missing, damaged or not UTF-8.
  """
  for number, line in whole_lines(lines):
    text = line.rstrip('\r\n')
    if text.strip(' '):
      yield number, text


def path_of(lines: Lines) -> pathlib.Path:
  """The file that lines are of."""
  return lines.path if isinstance(lines, Block) else lines


def is_start(lines: Lines) -> bool:
  """Whether a file begins with them."""
  return not isinstance(lines, Block) or lines.first == 1


def whole_lines(lines: Lines) -> Iterator[tuple[int, str]]:
  """Numbered lines with their ends, blank ones too."""
  for block in (lines,) if isinstance(lines, Block) else read_blocks(lines):
    number = block.first - 1
    with _reading(block.path, lambda: f'line {number}'):  # noqa: B023
      for line in io.BytesIO(block.data):
        yield number + 1, line.decode('utf-8')
        number += 1
