"""Runs of words that several passages of a document share."""

import collections
import dataclasses
import itertools
from collections.abc import Hashable

from neg_contrast.stage1 import sentences
from neg_contrast.stage1.pretexts import pretext
from neg_contrast.stage1.pretexts import words as words_lib

SPAN_WORDS = (2, 10)
"""Least and greatest length of a recurring span."""

STOP_WORDS = sentences.word_set(
    'a about above after again against all also although am an and any are as '
    'at be because been before being below between both but by can could did '
    'do does doing down during each every few for from further had has have '
    'having he her here hers herself him himself his how however i if in into '
    'is it its itself just may me might more most must my myself no nor not '
    'now of off on once one only or other our ours ourselves out over own same '
    'shall she should since so some such than that the their theirs them '
    'themselves then there these they this those though through to too under '
    'until up upon us very was we were what when where which while who whom '
    'whose why will with within without would yet you your yours yourself '
    'yourselves'
)


class Words:
  """The words of all passages of a document, one after the other.

  Attributes:
    folded: case folded.
    spans: (start, end) in the characters of its passage.
    owners: place of its passage.
    continues: whether only white space parts it from the next one, in the same
      passage.
    bounds: (first, end) of each passage's words.
    groups: of each passage, as `words.groups_of`.
    titles: of the passages, folded, with a space at either end.
  """

  def __init__(self, document: pretext.Document):
    self.folded: list[str] = []
    self.spans: list[tuple[int, int]] = []
    self.owners: list[int] = []
    self.continues: list[bool] = []
    self.bounds: list[tuple[int, int]] = []
    self.groups = words_lib.groups_of(document)
    self.titles = frozenset(f' {words_lib.fold(passage.title)} '
                            for _, passage in document)
    for place, (_, passage) in enumerate(document):
      text, first = passage.text, len(self.folded)
      spans = [match.span() for match in words_lib.WORD.finditer(text)]
      self.spans += spans
      self.folded += (text[start:end].casefold() for start, end in spans)
      self.owners += [place] * len(spans)
      self.continues += (text[ours[1] : theirs[0]].isspace()
                         for ours, theirs in itertools.pairwise(spans))
      self.continues += [False] * bool(spans)
      self.bounds.append((first, len(self.folded)))


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
  """A run of `length` words, and the words it starts at, ascending."""

  length: int
  starts: list[int]


def recurring(words: Words) -> list[dict[int, Span]]:
  """All runs of words that passages of different texts share.

  A run recurs only if both runs that are a word shorter do: each length is
  looked for where the last one was found, so time grows with the words.

  Returns:
    For each length of `SPAN_WORDS`, word -> the run that starts there.
  """
  names: dict[int, Hashable] = dict(enumerate(words.folded))
  levels: list[dict[int, Span]] = []
  for length in range(2, SPAN_WORDS[1] + 1):
    starts_of = collections.defaultdict(list)
    for start, name in names.items():
      if words.continues[start] and start + 1 in names:
        starts_of[name, names[start + 1]].append(start)
    spans = [Span(length, starts) for starts in starts_of.values()
             if len({words.groups[words.owners[s]] for s in starts}) > 1]
    levels.append({start: span for span in spans for start in span.starts})
    names = {start: span.starts[0] for start, span in levels[-1].items()}
  return levels[SPAN_WORDS[0] - 2 :]


def maximal(words: Words, levels: list[dict[int, Span]]) -> list[Span]:
  """Runs that tell something and are not always part of one longer such run."""
  kept: list[Span] = []
  covered = set()
  for level in reversed(levels):
    for start, span in level.items():
      if start != span.starts[0] or not _is_telling(words, span):
        continue
      if (start, span.length) not in covered:
        kept.append(span)
      for shorter in levels[: span.length - SPAN_WORDS[0]]:
        for at in range(start, start + span.length):
          part = shorter.get(at)
          if part is not None and at + part.length <= start + span.length and (
              len(part.starts) == len(span.starts)):
            covered.add((part.starts[0], part.length))
  return kept


def _is_telling(words: Words, span: Span) -> bool:
  """Whether neither end is a stop word, a letter is in it, and no title has it.

  Titles are those of the document: all its passages would match.
  """
  folded = words.folded[span.starts[0] : span.starts[0] + span.length]
  run = ' '.join(folded)
  return (folded[0] not in STOP_WORDS and folded[-1] not in STOP_WORDS
          and any(map(str.isalpha, run))
          and not any(f' {run} ' in title for title in words.titles))
