"""Files of lines in pieces, which are read by different workers.

A piece holds the lines that begin in a range of bytes; a gzipped file is one
piece. A row may go on over the end of a piece, as a quoted field of a table
does. Its reader finds that out; then the piece and the next become one.
"""

import dataclasses
import functools
import gzip
import io
import itertools
import pathlib
from collections.abc import Iterator, Sequence

from neg_contrast.artifacts import places
from neg_contrast.data.formats import line_blocks

PIECE_BYTES = 1 << 26
"""A worker reads 100,000 passages in some 5 s."""

_AT_ONCE = 1 << 18


@dataclasses.dataclass(frozen=True)
class Piece:
  """Some lines of a file.

  Attributes:
    path: of the file.
    begin: first byte; a line that begins before it is not of this piece.
    end: byte after the last; a line that begins before it is of this piece.
  """

  path: pathlib.Path
  begin: int
  end: int


def divide(
    paths: Sequence[pathlib.Path], size: int = PIECE_BYTES
) -> list[Piece]:
  """Files in pieces, in order.

  Args:
    paths: of the files.
    size: of a piece in bytes.

  Raises:
    UserError: a file is missing.
  """
  pieces = []
  for path in map(places.in_ranges, paths):
    with line_blocks.open_text(path) as f:
      is_whole = isinstance(f.raw, gzip.GzipFile)
    length = path.stat().st_size
    step = max(1, length) if is_whole else size
    pieces += [Piece(path, begin, min(begin + step, length))
               for begin in range(0, max(1, length), step)]
  return pieces


def joined(
    pieces: Sequence[Piece], goes_on: Sequence[bool]
) -> tuple[list[Piece], list[int]]:
  """Pieces whose last row goes on, made one with the next.

  Args:
    pieces: in order.
    goes_on: whether the last row of each goes on in the next piece.

  Returns:
    (all pieces, numbers of the old ones that stayed, -1 for the new ones).
  """
  whole: list[Piece] = []
  old: list[int] = []
  is_open = False
  for number, (piece, is_unread) in enumerate(
      zip(pieces, goes_on, strict=True)
  ):
    if is_open and whole[-1].path == piece.path:
      whole[-1] = Piece(piece.path, whole[-1].begin, piece.end)
      old[-1] = -1
    else:
      whole.append(piece)
      old.append(number)
    is_open = is_unread
  return whole, old


def count_lines(piece: Piece) -> int:
  """Number of line ends in a piece."""
  return sum(data.count(b'\n') for data, _ in _read(piece))


def first_lines(
    pieces: Sequence[Piece], counts: Sequence[int]
) -> list[int]:
  """The number of the first line of each piece, from 1 in each file."""
  numbers = []
  for _, group in itertools.groupby(
      zip(pieces, counts, strict=True), lambda one: one[0].path
  ):
    ends = itertools.accumulate((count for _, count in group), initial=1)
    numbers += list(ends)[:-1]
  return numbers


def blocks(piece: Piece, first: int) -> Iterator[line_blocks.Block]:
  """The lines of a piece, as `line_blocks.read_blocks` gives those of a file.

  Args:
    piece: to be read.
    first: number of its first line.

  Raises:
    UserError: the file is missing or damaged.
  """
  for data, is_last in _read(piece):
    yield line_blocks.Block(piece.path, first, data, is_last)
    first += data.count(b'\n')


def _read(piece: Piece) -> Iterator[tuple[bytes, bool]]:
  """Whole lines of a piece, and whether the file ends with them."""
  is_start = piece.begin == 0
  with line_blocks.opened(
      piece.path, functools.partial(str, f'byte {piece.begin}')
  ) as f:
    is_gzip = isinstance(f.raw, gzip.GzipFile)
    if not is_start:
      f.seek(piece.begin - 1)
      f.readline()  # Of the piece before, unless a line ends there.
    while is_start or is_gzip or f.tell() < piece.end:
      is_start = False  # A byte order mark may be longer than the piece.
      data = f.read(_room(f, piece, is_gzip)) + f.readline()
      if not data:
        return
      yield data, not f.peek(1)


def _room(f: io.BufferedReader, piece: Piece, is_gzip: bool) -> int:
  """Bytes to read at once: no line that begins after the end of the piece.

  One less than are left: the line that holds the last byte is read to its end.
  """
  if is_gzip:
    return _AT_ONCE
  return max(0, min(_AT_ONCE, piece.end - f.tell() - 1))
