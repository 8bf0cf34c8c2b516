"""Texts and values of a report as people read them. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

EXCERPT = 420
"""Characters of a passage that are shown."""

_VALUE_LENGTH = 400


def excerpt(
    text: str, answers: Sequence[str], length: int = EXCERPT
) -> tuple[tuple[str, bool], ...]:
  """A piece of a text around its first answer.

  Args:
    text: runs of white space become one space.
    answers: marked where they stand as whole words, in any case.
    length: characters of the piece; an answer at its end may make it longer,
      up to twice as long.

  Returns:
    (text, whether it is an answer) pieces; an ellipsis stands for what is left
    out.
  """
  text = ' '.join(text.split())
  words = sorted(
      {' '.join(answer.split()) for answer in answers} - {''}, key=len,
      reverse=True,
  )
  pattern = re.compile(
      r'(?<!\w)(?:' + '|'.join(map(re.escape, words)) + r')(?!\w)', re.I
  ) if words else None
  first = pattern.search(text) if pattern else None
  begin = 0
  if first is not None and first.end() > length:
    begin = max(0, min(first.start() - length // 3, len(text) - length))
    space = text.find(' ', begin, first.start())
    begin = space + 1 if begin and space >= 0 else begin
  end = len(text)
  if end - begin > length:
    end = begin + length
    space = text.rfind(' ', begin + length // 2, end)
    end = end if space < 0 else space
    if first is not None and begin <= first.start() < end < first.end():
      end = min(first.end(), begin + 2 * length)  # Rather than in two.
  pieces, at = [], begin
  for match in pattern.finditer(text, begin, end) if pattern else ():
    pieces += [(text[at:match.start()], False), (match[0], True)]
    at = match.end()
  pieces.append((text[at:end], False))
  if begin:
    pieces.insert(0, ('… ', False))
  if end < len(text):
    pieces.append((' …', False))
  return tuple(piece for piece in pieces if piece[0])


def plain(value: Any) -> str:
  """A json value as people write it."""
  if value is None:
    return 'none'
  if isinstance(value, str):
    return shorten(value, _VALUE_LENGTH) or '–'
  if isinstance(value, Mapping):
    return ', '.join(f'{key} {plain(inner)}' for key, inner in value.items())
  if isinstance(value, (list, tuple)):
    return ', '.join(map(plain, value)) if value else 'none'
  return json.dumps(value)


def percent(part: float, whole: float) -> str:
  """A part in percent, never rounded to all or nothing."""
  if not whole:
    return '–'
  share = 100 * part / whole
  if 0 < share < 0.1:
    return '<0.1%'
  if 99.9 < share < 100:
    return '>99.9%'
  return f'{share:.1f}%'


def shorten(text: str, length: int) -> str:
  """At most `length` characters of a text, its white space folded."""
  text = ' '.join(text.split())
  return text if len(text) <= length else text[:length - 1].rstrip() + '…'
