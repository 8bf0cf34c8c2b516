"""Where the sentences of a text are: a light splitter by rules. Pure.

A sentence ends at `.`, `!`, `?` or an ellipsis, with the closing quotes and
brackets and the bracketed references behind it, where white space follows and
then what can begin a sentence: a capital, a digit, a letter without case or a
currency sign, perhaps behind opening quotes and brackets or a bullet. So
`"Why?" asked he.` is one sentence. It also ends at an empty line, and at the
full stops of Chinese, Japanese and Hindi, whatever follows them.

A full stop behind some words ends nothing: titles (`Dr. Who`), abbreviations in
running text (`e.g. This`) or before a number (`No. 5`), the number of an item
(`1. Item`). Behind initials (`J. K. Rowling`, `the U.S. Army`) and behind
abbreviations that may stand last (`Inc.`, `etc.`) it ends a sentence only
before a word that commonly begins one (`in the U.S. The`). Kiss and Strunk
2006 learn such words from text; here they are a list.

Limits: the words are English. No end is seen where the space is missing
(`end.Next`), before a small letter (`iPhones`), at a single line break, or
between an initial and a name (`Plan B. Bob`); `"Why?" John asked` is cut.
"""

import re

_STOP = re.compile(
    r'(?<![.!?\u2026\u061f])(?P<stop>[.!?\u2026\u061f]++)'
    r'[\'"\u2019\u201d\u00bb)\]]*+(?:\[[^\][]{1,24}\])*+'
    r'(?=\s++(?:[\'"\u2018\u201c\u00ab(\[\u00bf\u00a1*\u2022-]\s?)*+'
    r'(?P<next>[^\W_]|[$\u20ac\u00a3\u00a5])(?P<rest>[\w\'\u2019]{0,15}))'
    r'|[\u3002\uff01\uff1f\u0964]++[\u300d\u300f\u201d\uff09]*+'
    r'|\n[^\S\n]*+\n'
)
_LAST_WORD = re.compile(r'(?:[^\W_]|[.\'\u2019])+\Z')
_LONGEST_WORD = 24  # What is longer is cut, and no abbreviation either way.
_BULLETS = re.compile(r'[(\[*\u2022\s-]+')
_NOT_SPACE = re.compile(r'\S')


def word_set(words: str) -> frozenset[str]:
  """Words that are written with spaces between them."""
  return frozenset(words.split())


_TITLES = word_set(
    'adm approx brig ca capt cf cmdr col cpl dr e.g eg fr gen gov hon i.e ie '
    'incl lt maj messrs mlle mm mme mr mrs ms msgr mt prof rep rev sen sgt ss '
    'st ste supt viz vs'
)
_BEFORE_NUMBERS = word_set(
    'apr apt art aug c ch chap dec eq eqs feb fig figs fl jan jul jun mar n no '
    'nos nov nr oct op p par pp sec sect sep sept tab v vol vols'
)
_MAY_STAND_LAST = word_set(
    'al assn ave bldg blvd bros co corp dept dist esq est etc ft inc jr ltd '
    'nat oz ph.d rd sq sr tel univ'
)
_BEGINNERS = word_set(
    'a after all also although an and another are as at because before both '
    'but by can despite did do does during each even every first for from '
    'given had has have having he hence her here his how however i if in '
    'instead is it its just later like many more most much my no nor not now '
    'of on once one only or other others our over she since so some such than '
    'that the their then there therefore these they this those though thus to '
    'today under unlike until upon was we were what when where whether which '
    'while who why with within without yes yet you your'
)


def split(text: str) -> list[tuple[int, int]]:
  """The sentences of a text, in order.

  Returns:
    (start, end) in characters, without white space at either end; only white
    space stands between two of them. None for a blank text.
  """
  spans = []
  start = _skip_space(text, 0)
  for stop in _STOP.finditer(text):
    if stop.end() > start and _ends_sentence(text, start, stop):
      spans.append((start, start + len(text[start : stop.end()].rstrip())))
      start = _skip_space(text, stop.end())
  if start < len(text):
    spans.append((start, len(text.rstrip())))
  return spans


def _skip_space(text: str, at: int) -> int:
  found = _NOT_SPACE.search(text, at)
  return found.start() if found else len(text)


def _ends_sentence(text: str, start: int, stop: re.Match[str]) -> bool:
  """Whether the stop that was found ends the sentence begun at `start`."""
  if stop['stop'] is None:
    return True
  if stop['next'].islower():
    return False
  if stop['stop'] != '.' or stop.end() > stop.end('stop'):
    return True
  first = max(start, stop.start() - _LONGEST_WORD)
  found = _LAST_WORD.search(text, first, stop.start())
  word = found[0].casefold().strip('\'\u2019') if found else ''
  if word in _TITLES or (word in _BEFORE_NUMBERS and stop['next'].isdigit()):
    return False
  if word.isdigit() and _BULLETS.sub('', text[start : stop.start()]) == word:
    return False
  if word in _MAY_STAND_LAST or _is_initials(word):
    return (stop['next'] + stop['rest']).casefold() in _BEGINNERS
  return True


def _is_initials(word: str) -> bool:
  """Whether it is single letters with dots between: `j`, `u.s`."""
  return all(len(part) == 1 and part.isalpha() for part in word.split('.'))
