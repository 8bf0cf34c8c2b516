"""A large json text, read one value at a time."""

import io
import json
import re
from collections.abc import Iterator
from typing import Any

_BLOCK = 1 << 16
_SPACE = re.compile(r'[ \t\r\n]*')
_LONGEST = 16  # Characters of a json token that has no end of its own.
# Python's int takes no more digits from a text.
_MOST_DIGITS = 4300
DECODER = json.JSONDecoder(
    parse_int=lambda text: int(text) if len(text) < _MOST_DIGITS else text,
    parse_constant=lambda _: None,  # NaN, as pandas writes what is missing.
)


class JsonReader:
  """Reads a json text part by part; what waits is never more than one value."""

  def __init__(self, f: io.BufferedReader):
    """Takes over a file of UTF-8."""
    self._f = io.TextIOWrapper(f, 'utf-8', newline='')
    self._text, self._at = '', 0

  def items(self, key: str) -> Iterator[Any]:
    """The items of the array, or of that under a key, and then the end."""
    if key:
      for _ in self._parts('{', '}'):
        name = self._value()
        self._take(':')
        if name == key and self._peek() == '[':
          yield from self._items()
        else:
          self._value()
    else:
      yield from self._items()
    if self._peek():
      raise json.JSONDecodeError('Extra data', self._text, self._at)

  def _items(self) -> Iterator[Any]:
    for _ in self._parts('[', ']'):
      yield self._value()

  def _parts(self, start: str, end: str) -> Iterator[None]:
    """Stops before each part of an array or object."""
    self._take(start)
    if self._peek() == end:
      self._take(end)
      return
    while True:
      yield
      if self._take(f',{end}') == end:
        return

  def _take(self, marks: str) -> str:
    """The next mark."""
    mark = self._peek()
    if not mark or mark not in marks:
      raise json.JSONDecodeError(f'Expecting {" or ".join(marks)}', self._text,
                                 self._at)
    self._at += 1
    return mark

  def _peek(self) -> str:
    """The next character that is no white space; empty at the end."""
    while True:
      found = _SPACE.match(self._text, self._at)
      self._at = found.end() if found else self._at
      if self._at < len(self._text):
        return self._text[self._at]
      if not self._more():
        return ''

  def _value(self) -> Any:
    """The next value."""
    self._peek()
    while True:
      sure = len(self._text) - _LONGEST
      try:
        value, end = DECODER.raw_decode(self._text, self._at)
      except json.JSONDecodeError as e:
        is_cut = e.msg.startswith('Unterminated') or e.pos > sure
        if not (is_cut and self._more()):
          raise
      else:
        if end < sure or not self._more():  # A number may go on.
          self._at = end
          return value

  def _more(self) -> bool:
    """Reads on, as much as waits already: a long value takes linear time."""
    rest = self._text[self._at:]
    new = self._f.read(max(_BLOCK, len(rest)))
    if new:
      self._text, self._at = rest + new, 0
    return bool(new)
