"""Salient spans of a sentence: dates, numbers and names, by rules.

REALM takes named entities from a tagger and dates from a regular expression
(Guu et al. 2020, section 3.4). Here is no tagger. A span is, in this order:

1. a date: a month with its day or its year (`5 May 1821`, `March 4, 1789`,
   `June 1944`);
2. a number: digits with separators inside (`1,200`, `3.5`), with a currency
   sign before or a percent sign behind; one digit alone is none;
3. a name: words that begin with a capital, one after the other. Initials, and
   small words such as `of` or `von` between two of them, belong to it
   (`J. K. Rowling`, `Bank of England`). Stop words at its ends do not
   (`The Rhine`: `Rhine`).

The first word of a sentence is written with a capital anyway: alone it is no
name. Spans do not overlap: what comes earlier in this list wins.

Limits: months and small words are English or parts of European names. Scripts
without capitals have dates and numbers alone. In a title in capitals all words
are one name.
"""

import itertools
import re

from neg_contrast.stage1 import sentences
from neg_contrast.stage1.pretexts import spans, words

_MONTH = (
    r'(?:Jan(?:uary|\.)?|Feb(?:ruary|\.)?|Mar(?:ch|\.)?|Apr(?:il|\.)?|May|'
    r'June?|July?|Aug(?:ust|\.)?|Sept?(?:ember|\.)?|Oct(?:ober|\.)?|'
    r'Nov(?:ember|\.)?|Dec(?:ember|\.)?)'
)
_DAY = r'\d{1,2}(?:st|nd|rd|th)?'
_DATE = re.compile(
    rf'(?<!\w)(?:{_DAY}\s+{_MONTH}(?:,?\s+\d{{4}})?|'
    rf'{_MONTH}\s+(?:{_DAY},?\s+\d{{4}}|\d{{4}}|{_DAY}))(?!\w)'
)
_NUMBER = re.compile(
    r'(?<![\w.,])[$\u20ac\u00a3\u00a5]?\d(?:[\d.,]*\d)%?(?!\w)'
)
_SMALL_WORDS = sentences.word_set('al da de del der di du la le of the van von')
_GAP = re.compile(r'\s+')
_INITIAL_GAP = re.compile(r'\.\s*')


def find(sentence: str) -> list[tuple[int, int]]:
  """The salient spans of a sentence.

  Args:
    sentence: text that begins with the first word of a sentence.

  Returns:
    (start, end) in characters, ascending; they do not overlap.
  """
  found: list[tuple[int, int]] = []
  for candidates in (
      [match.span() for match in _DATE.finditer(sentence)],
      [match.span() for match in _NUMBER.finditer(sentence)],
      _names(sentence),
  ):
    found += [span for span in candidates
              if all(span[1] <= one[0] or one[1] <= span[0] for one in found)]
  return sorted(found)


def _names(sentence: str) -> list[tuple[int, int]]:
  places = [match.span() for match in words.WORD.finditer(sentence)]
  said = [sentence[start:end] for start, end in places]
  names = []
  for first, end in _runs(sentence, places, said):
    while first < end and said[first].casefold() in spans.STOP_WORDS:
      first += 1
    while first < end and said[end - 1].casefold() in spans.STOP_WORDS:
      end -= 1
    is_first_word = (first, end) == (0, 1)
    if first < end and not is_first_word and (
        max(map(len, said[first:end])) > 1
    ):
      names.append((places[first][0], places[end - 1][1]))
  return names


def _runs(
    sentence: str, places: list[tuple[int, int]], said: list[str]
) -> list[tuple[int, int]]:
  """Runs of words with capitals, small words inside included: (first, end)."""
  runs: list[tuple[int, int]] = []
  joined = [_is_joined(sentence[ours[1] : theirs[0]], word)
            for (ours, theirs), word in zip(
                itertools.pairwise(places), said, strict=False)]
  for at, word in enumerate(said):
    if not word[0].isupper():
      continue
    first = runs[-1][0] if runs else at
    inner = range(runs[-1][1], at) if runs else range(0)
    if runs and all(said[i] in _SMALL_WORDS for i in inner) and (
        all(joined[runs[-1][1] - 1 : at])
    ):
      runs[-1] = first, at + 1
    else:
      runs.append((at, at + 1))
  return runs


def _is_joined(gap: str, word: str) -> bool:
  """Whether a word and the next are one name by what stands between."""
  is_initial = len(word) == 1 and word.isupper()
  return _GAP.fullmatch(gap) is not None or (
      is_initial and _INITIAL_GAP.fullmatch(gap) is not None
  )
