"""Words and tokens of passages, as all pretexts see them."""

import bisect
import itertools
import re
from collections.abc import Sequence

from neg_contrast.stage1.pretexts import pretext

WORD = re.compile(
    r'[^\W_]+(?:(?:[\'\u2019\u2010-\u2015-]|(?<=\d)[.,](?=\d))[^\W_]+)*'
)
"""Letters and digits, with apostrophes, hyphens and decimal marks inside."""


def fold_space(text: str) -> str:
  """A text with single spaces for white space."""
  return ' '.join(text.split())


def fold(text: str) -> str:
  """The words of a text, case folded."""
  return ' '.join(WORD.findall(text.casefold()))


def groups_of(document: pretext.Document) -> list[int]:
  """Equal numbers for passages of the same words."""
  numbers: dict[str, int] = {}
  return [numbers.setdefault(fold(passage.text), len(numbers))
          for _, passage in document]


def count_spoken(
    text: str, tokens: Sequence[tuple[int, int]]
) -> list[int]:
  """How many of the first 0, 1, ... tokens hold a letter or digit."""
  spoken = (any(map(str.isalnum, text[start:end])) for start, end in tokens)
  return list(itertools.accumulate(spoken, initial=0))


def tokens_of(
    span: tuple[int, int], tokens: Sequence[tuple[int, int]]
) -> tuple[int, int]:
  """The tokens that a span of characters touches, as (first, end)."""
  first = bisect.bisect_right(tokens, span[0], key=lambda token: token[1])
  end = bisect.bisect_left(tokens, span[1], key=lambda token: token[0])
  return first, max(first, end)


def text_of(
    text: str, tokens: Sequence[tuple[int, int]], span: tuple[int, int]
) -> str:
  """What some tokens stand for, with the marks behind that have no token."""
  ends = len(text) if span[1] == len(tokens) else tokens[span[1]][0]
  return fold_space(text[tokens[span[0]][0] : ends])
