"""Texts as words, in any script.

A word is two or more letters, digits or marks in a row. Han, Kana, Thai, Lao,
Khmer and Burmese have no spaces between words: of a run of these, all pairs of
neighbours are words, as in Lucene's CJKAnalyzer, and a letter by itself is one.
"""

import functools
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable

_WORD = re.compile(r'\w{2,}')
# Characters of scripts with spaces and without marks: such texts take no more
# than the line above.
_PLAIN = re.compile(
    '[\0-\u02ff\u0370-\u0482\u048a-\u0590\u05d0-\u060f\u0620-\u063f'
    '\u0641-\u064a\u0660-\u066f\u0671-\u06d5\u10a0-\u135c\u1e00-\u200c\u200e-\u20cf'
    '\u2100-\u2cee\u2cf2-\u2d7e\u2d80-\u2ddf\u2e00-\u3004\uac00-\ud7a3'
    '\ufb00-\ufb1d\ufb1f-\ufdff\uff00-\uff65\uffa0-\uffff'
    '\U0001f000-\U0001ffff]*'
)
# Points of Hebrew, vowels and the stretch of Arabic, which most texts leave
# out; the joiner of Indic scripts; the dot that a lower-cased I keeps.
_OPTIONAL = re.compile(
    '[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640'
    '\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u200d]'
    '|(?<=i)\u0307'
)
_WITHOUT_SPACES = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x3007),
    (0x3031, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF),
    (0xFF66, 0xFF9F),
)
_PLANES = '\U00020000-\U0003ffff'  # Of Han alone.


def split(text: str) -> list[str]:
  """The words of a text, in its order; repeats count.

  Args:
    text: lower-cased.
  """
  if text.isascii() or _PLAIN.fullmatch(text):
    return _WORD.findall(text)
  text = _OPTIONAL.sub('', unicodedata.normalize('NFC', text))
  run_or_word, letter = _patterns()
  words = []
  for found in run_or_word.finditer(text):
    if found.lastgroup == 'word':
      words.append(found[0])
      continue
    letters = letter.findall(found[0])
    words += map(''.join, itertools.pairwise(letters)) if letters[1:] else (
        letters)
  return words


@functools.cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
  """A run without spaces, or a group `word`; and a letter of such a run."""
  points = range(0x300, 0x1F000)
  marks = _characters(points, lambda kind: kind in ('Mn', 'Mc'))
  joined = _PLANES + _characters(
      itertools.chain(*(range(first, last + 1)
                        for first, last in _WITHOUT_SPACES)),
      lambda kind: kind.startswith('L') or kind == 'Nl')
  letter, other = f'[{joined}][{marks}]*', rf'[^\W{joined}]'
  return (
      re.compile(f'(?:{letter})+|(?P<word>{other}(?:{other}|[{marks}])+)'),
      re.compile(letter),
  )


def _characters(
    points: Iterable[int], is_wanted: Callable[[str], bool]
) -> str:
  """Those of some categories, as a class of a regular expression has them."""
  return ''.join(chr(point) for point in points
                 if is_wanted(unicodedata.category(chr(point))))
