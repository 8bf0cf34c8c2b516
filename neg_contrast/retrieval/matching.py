"""Which parts of a passage can be shown as the one that matches. Pure."""

import re
from collections.abc import Iterator

_WINDOW_WORDS = 40
_LEAST_WORDS = 4
_WORD = re.compile(r'\S+')
# After a stop with closing quotes or brackets, or at an empty line.
_SENTENCE_END = re.compile(
    r'''[.!?]["'”’)\]]*(?=\s)|[。！？]|(?<=\S)(?=\s*\n\s*\n)'''
)


def parts(text: str) -> list[tuple[int, int]]:
  """Cuts a passage into sentences, and long ones into windows.

  Args:
    text: of the passage.

  Returns:
    (start, end) in characters, in order and without overlap; no part begins or
    ends with white space. Sentences of less than 4 words go with the next one,
    and no part has more than 40 words, as far as words are between spaces. A
    blank text has no parts.
  """
  found: list[tuple[int, int]] = []
  begin = 0
  for end in _ends(text):
    words = list(_WORD.finditer(text, begin, end))
    if len(words) < _LEAST_WORDS and end < len(text):
      continue  # Too short to stand alone: an abbreviation, a number.
    begin = end
    pieces = -(-len(words) // _WINDOW_WORDS)
    for piece in range(pieces):
      first = len(words) * piece // pieces
      last = len(words) * (piece + 1) // pieces - 1
      found.append((words[first].start(), words[last].end()))
  return found


def _ends(text: str) -> Iterator[int]:
  yield from (match.end() for match in _SENTENCE_END.finditer(text))
  yield len(text)
