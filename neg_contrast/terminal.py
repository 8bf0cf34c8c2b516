"""What reaches a terminal: cleaned, coloured where that helps, one live line.

Ids and texts come from files that anybody may have written, and may hold
characters that steer a terminal. `clean` is the one function on the way out:
every `Screen` calls it, and so does every `errors.UserError`.
"""

import contextlib
import os
import re
import shutil
import sys
import threading
import time
import unicodedata
from collections.abc import Iterator
from typing import Any

from absl import logging

# Styles travel as code points that are no characters, never as escapes.
BOLD, DIM, RED, GREEN, YELLOW, PLAIN = '\ufdd0\ufdd1\ufdd2\ufdd3\ufdd4\ufdd5'
_CODES = {BOLD: 1, DIM: 2, RED: 31, GREEN: 32, YELLOW: 33, PLAIN: 0}
_STYLE = re.compile(f'[{BOLD}-{PLAIN}]')
_REPLACED = '\ufffd'
# C0 but tab and newline, C1, marks of direction, surrogates, non-characters,
# tags.
_STEERING = (
    '\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069'
    '\ud800-\udfff\U000e0000-\U000e007f'
)
_BAD = re.compile(f'[{_STEERING}\ufdd0-\ufdef\ufffe\uffff]')
_BAD_BUT_STYLES = re.compile(f'[{_STEERING}\ufdd6-\ufdef\ufffe\uffff]')
_BREAK = re.compile('[\r\x85\u2028\u2029]')
_LONGEST = 4000
_ERASE = '\r\033[K'
_REDRAW_SECONDS = 0.1


def clean(text: str) -> str:
  """As many characters, of which none steers a terminal; tab, newline stay."""
  return _BAD.sub(_REPLACED, _BREAK.sub(' ', text))


def bounded(text: str, longest: int = _LONGEST) -> str:
  """A message with its middle left out where it is longer than `longest`.

  Messages begin with the place and end with the remedy.
  """
  if len(text) <= longest:
    return text
  head, tail = longest * 3 // 4, longest // 5
  left_out = len(text) - head - tail
  return f'{text[:head]} [... {left_out:,} characters ...] {text[-tail:]}'


def styled(text: str, style: str) -> str:
  """A text in one of the styles above, on screens that have any."""
  return f'{style}{clean(text)}{PLAIN}'


def without_styles(text: str) -> str:
  """A text whose styles are dropped."""
  return _STYLE.sub('', text)


def columns(text: str) -> int:
  """Columns that a text takes; wide characters take two."""
  return sum(map(_columns_of, text))


def fit(text: str, width: int) -> str:
  """The beginning of a text that takes at most `width` columns."""
  taken = 0
  for place, character in enumerate(text):
    taken += _columns_of(character)
    if taken > width:
      return text[:place]
  return text


def _columns_of(character: str) -> int:
  if unicodedata.combining(character) or _STYLE.match(character) or (
      unicodedata.category(character) in ('Cf', 'Mn', 'Me')
  ):
    return 0
  return 2 if unicodedata.east_asian_width(character) in 'WF' else 1


def is_steerable(stream: Any) -> bool:
  """Whether a stream is a terminal in which a line can be written again."""
  return stream.isatty() and os.environ.get('TERM', '') not in ('', 'dumb')


def is_coloured(stream: Any) -> bool:
  """Whether a stream shows styles."""
  return is_steerable(stream) and not os.environ.get('NO_COLOR')


class Screen:
  """A stream for people: takes what is written through `clean`.

  Styles become colours where it is a terminal and NO_COLOR is not set, and
  vanish elsewhere. A carriage return at the beginning of what is written makes
  it the live line: so do progress bars of libraries.
  """

  def __init__(self, stream: Any):
    """Takes a stream over, which stays open."""
    self._stream = stream
    self.is_steerable = is_steerable(stream)
    self._is_coloured = is_coloured(stream)
    self.failure: OSError | None = None  # Of a full disk or a closed pipe.

  def write(self, text: str) -> int:
    """Writes lines, above the live line."""
    if text.startswith('\r') and '\n' not in text:
      LIVE.show(text[1:].strip())
    elif text:
      with self._keeping_failure():
        LIVE.write_above(self._stream, self._shown(text), text.endswith('\n'))
    return len(text)

  def flush(self) -> None:
    """Flushes the stream."""
    with self._keeping_failure():
      self._stream.flush()

  def close(self) -> None:
    """Leaves the stream open, which others use."""
    self._stream.flush()

  def write_live(self, text: str) -> None:
    """Writes a line again, cut to the terminal; empty: erases it."""
    width = shutil.get_terminal_size().columns - 1
    line = fit(text.replace('\n', ' ').replace('\t', ' '), width)
    if _STYLE.search(line):
      line += PLAIN  # What ended the style may be cut off.
    self._stream.write(_ERASE + self._shown(line))
    self._stream.flush()

  @contextlib.contextmanager
  def _keeping_failure(self) -> Iterator[None]:
    try:
      yield
    except OSError as e:
      self.failure = e
      raise

  def _shown(self, text: str) -> str:
    text = _BAD_BUT_STYLES.sub(_REPLACED, _BREAK.sub(' ', text))
    text = _STYLE.sub(self._code, text)
    encoding = self._stream.encoding or 'utf-8'
    return text.encode(encoding, 'backslashreplace').decode(encoding)

  def _code(self, mark: re.Match[str]) -> str:
    return f'\033[{_CODES[mark[0]]}m' if self._is_coloured else ''

  def writelines(self, lines: Any) -> None:
    """Writes each."""
    for line in lines:
      self.write(line)

  def __getattr__(self, name: str) -> Any:
    return getattr(self._stream, name)


class _Live:
  """The line that updates in place; there is one at most."""

  def __init__(self):
    self._screen: Screen | None = None
    self._text, self._drawn = '', 0.0
    self._is_within_line = False
    self._lock = threading.RLock()

  def put_on(self, screen: Screen | None) -> None:
    """Shows it on a screen from now on, if that is steerable."""
    self._screen = screen if screen and screen.is_steerable else None

  @property
  def is_on(self) -> bool:
    """Whether there is a terminal for it."""
    return self._screen is not None

  def show(self, text: str) -> None:
    """Shows a text, but not more often than an eye can follow."""
    with self._lock:
      self._text = text
      if time.monotonic() - self._drawn >= _REDRAW_SECONDS:
        self._draw(text)

  def forget(self) -> None:
    """Leaves no live line."""
    with self._lock:
      if self._text:
        self._draw('')
      self._text = ''

  def write_above(self, stream: Any, text: str, ends_line: bool) -> None:
    """Writes to a stream, and the live line again when its line has ended."""
    with self._lock:
      if self._text:
        self._draw('')
      stream.write(text)
      self._is_within_line = not ends_line
      if self._text:
        self._draw(self._text)

  def _draw(self, text: str) -> None:
    if self._screen and not self._is_within_line:
      self._drawn = time.monotonic()
      self._screen.write_live(text)


LIVE = _Live()


@contextlib.contextmanager
def screens() -> Iterator[None]:
  """Standard output and error are screens inside."""
  logging.use_absl_handler()  # It replaces one of the error stream as it is.
  before = sys.stdout, sys.stderr
  out, err = Screen(sys.stdout), Screen(sys.stderr)
  sys.stdout, sys.stderr = out, err
  LIVE.put_on(out)
  try:
    yield
  finally:
    LIVE.forget()
    LIVE.put_on(None)
    sys.stdout, sys.stderr = before


@contextlib.contextmanager
def quiet_libraries() -> Iterator[None]:
  """Drops what C++ code writes to standard error inside, unless it raises.

  libtpu says in several lines that a machine without a TPU has none.
  """
  import tempfile

  sys.stderr.flush()
  with tempfile.TemporaryFile() as said:
    kept = os.dup(2)
    os.dup2(said.fileno(), 2)
    try:
      yield
    except BaseException:
      said.seek(0)
      os.write(kept, said.read())
      raise
    finally:
      os.dup2(kept, 2)
      os.close(kept)
