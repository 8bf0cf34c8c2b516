"""Pairs to train on made of passages alone: no question, no judgement. Pure.

Five ways to make a query and its positive:
  inverse_cloze: a sentence finds the passage it was taken out of (Lee et al.
    2019, section 5; Chang et al. 2020, section 3.1).
  crops: of two random pieces of a passage, one finds the other (Izacard et al.
    2022, Contriever, section 3.1).
  recurring_spans: the words around a span find another passage of the document
    that holds the span too (Ram et al. 2022, Spider, section 3).
  neighbours: a sentence finds the next or the previous passage of the document
    (after body first selection, Chang et al. 2020, section 3.1, where a
    sentence of a page's first section finds any passage of the page).
  title: a title finds the text of its passage.
"""

import bisect
import collections
import dataclasses
import hashlib
import itertools
import re
from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np

from neg_contrast.data import records
from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import sentences

TO_END = -1
KEPT_SENTENCES = 0.1
"""Part of the sentences that stay in their passage (Lee et al. 2019)."""
MIN_QUERY_TOKENS = 4
"""Tokens with a letter or digit of a sentence that is a query, and of what is
left of its passage. The papers have no such limit; "He sighed." fits too much.
"""
CROP_PARTS = (0.05, 0.5)
"""Least and greatest length of a crop as a part of the passage's tokens."""
MIN_CROP_TOKENS = 8
"""Of a crop, before it is widened to whole words; shorter passages than two of
these have none. The paper's documents of 256 tokens make at least 12."""
SPAN_WORDS = (2, 10)
"""Least and greatest length of a recurring span."""
WINDOW_WORDS = (5, 30)
"""Least and greatest length of what stands around a recurring span."""
KEPT_SPANS = 0.5
"""Part of the recurring spans that stay in their query."""

Offsets = Callable[[str], Sequence[tuple[int, int]]]
"""Text -> (start, end) in characters of its tokens: `Tokenizer.offsets`."""

_DRAWS = 100  # Most pairs a passage can have where there is no end of them.
_WORD = re.compile(
    r'[^\W_]+(?:(?:[\'\u2019\u2010-\u2015-]|(?<=\d)[.,](?=\d))[^\W_]+)*'
)
# Thai to Burmese, Khmer, kana, and Chinese characters.
_UNSPACED = re.compile(
    '[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff'
    '\uf900-\ufaff\U00020000-\U0003ffff]'
)
_LOOSE = re.compile(r'\s+(?=[,.;:!?)\]\u2019\u201d])')
_STOP_WORDS = sentences.word_set(
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


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
  """A query and the part of a passage that answers it.

  Attributes:
    query: text, with white space folded; holds a letter or digit.
    row: of the positive's passage.
    first: token of the passage's text that the positive begins with.
    end: token it stops before; `TO_END`: none. Where it is not above `first`,
      the positive is all tokens but those of [end, first).
    title: whether the positive keeps its title.
    home: row of the passage that the query was cut from, which is no negative
      of it; -1: the positive's.
  """

  query: str
  row: int
  first: int = 0
  end: int = TO_END
  title: bool = True
  home: int = -1


def make_pairs(
    kind: str,
    passages: Sequence[tuple[int, records.Passage]],
    offsets: Offsets,
    seed: int,
    per_passage: int = 1,
) -> list[Pair]:
  """The pairs of one document.

  Those of a passage depend on nothing but the arguments `kind` and `seed`, its
  id, and the texts of its document in order of rows. More pairs a passage are
  added to the fewer ones.

  Args:
    kind: one of `config.PRETEXTS`.
    passages: (row, passage) of a document, in any order; where documents are
      unknown, one passage, which has no recurring spans or neighbours.
    offsets: of the tokenizer that the positives' tokens belong to.
    seed: of all random choices.
    per_passage: pairs that a passage makes at most; a passage has one title,
      two neighbours a sentence, and a hundred crops or spans.

  Returns:
    Different pairs, by the row of the passage whose text or title the query is.
    A passage may make none: one sentence, no title, nothing that recurs.

  Raises:
    ValueError: an unknown kind.
  """
  if kind not in config_lib.PRETEXTS:
    known = ', '.join(config_lib.PRETEXTS)
    raise ValueError(f'no pretext {kind!r}; there are {known}')
  document = sorted(passages, key=lambda pair: pair[0])
  draw = _MAKERS[kind](document, offsets)
  pairs: list[Pair] = []
  for place, (_, passage) in enumerate(document):
    found = draw(place, _generator(seed, kind, passage.id))
    pairs.extend(itertools.islice(_distinct(found), per_passage))
  return pairs


_Document = Sequence[tuple[int, records.Passage]]
_Draw = Callable[[int, np.random.Generator], Iterator[Pair]]
"""Pairs of the passage at a place of the document, in random order."""


def _generator(seed: int, kind: str, passage_id: str) -> np.random.Generator:
  text = f'{seed}\0{kind}\0{passage_id}'
  key = hashlib.blake2b(text.encode(), digest_size=16).digest()
  return np.random.Generator(np.random.Philox(key=np.frombuffer(key, '<u8')))


def _inverse_cloze(document: _Document, offsets: Offsets) -> _Draw:
  """Also: a sentence said twice is no query, since it would stay anyway."""

  def draw(place, rng):
    row, passage = document[place]
    tokens = offsets(passage.text)
    spoken = _count_spoken(passage.text, tokens)
    spans = sentences.split(passage.text)
    queries = [_fold_space(passage.text[start:end]) for start, end in spans]
    times = collections.Counter(query.casefold() for query in queries)
    for i in rng.permutation(len(spans)):
      is_kept = rng.random() < KEPT_SENTENCES
      first, end = _tokens_of(spans[i], tokens)
      said = spoken[end] - spoken[first]
      if (min(said, spoken[-1] - said) >= MIN_QUERY_TOKENS
          and times[queries[i].casefold()] == 1):
        yield (Pair(queries[i], row) if is_kept else
               Pair(queries[i], row, first=end, end=first))

  return draw


def _crops(document: _Document, offsets: Offsets) -> _Draw:
  """Crops are widened to whole words, and a crop is not paired with itself.

  The positive keeps its title, as passages do when they are searched, unless
  the query holds all of it: then the title alone would tell.
  """

  def draw(place, rng):
    row, passage = document[place]
    tokens = offsets(passage.text)
    if len(tokens) < 2 * MIN_CROP_TOKENS:
      return
    edges = _edges(passage.text, tokens)
    for _ in range(_DRAWS):
      first, end = _crop(len(tokens), edges, rng)
      positive = _crop(len(tokens), edges, rng)
      texts = [_text_of(passage.text, tokens, span)
               for span in ((first, end), positive)]
      if positive == (first, end) or not all(map(_WORD.search, texts)):
        continue
      tells = f' {_fold(passage.title)} ' in f' {_fold(texts[0])} '
      yield Pair(texts[0], row, *positive, title=not tells)

  return draw


def _recurring_spans(document: _Document, offsets: Offsets) -> _Draw:
  """Windows are counted in words, the span not among them."""
  del offsets
  words = _Words(document)
  spans = _maximal(words, _recurring(words))
  of_passage = collections.defaultdict(list)
  for span in spans:
    for place in dict.fromkeys(words.owners[start] for start in span.starts):
      of_passage[place].append(span)

  def draw(place, rng):
    mine = of_passage[place]
    order = rng.permutation(len(mine)).tolist()
    for i in itertools.islice(itertools.cycle(order), _DRAWS):
      length, starts = mine[i].length, mine[i].starts
      here = [start for start in starts if words.owners[start] == place]
      others = [other for other
                in dict.fromkeys(words.owners[start] for start in starts)
                if words.groups[other] != words.groups[place]]
      start = here[rng.integers(len(here))]
      row = document[others[rng.integers(len(others))]][0]
      window = _window(start, length, words.bounds[place], rng)
      is_kept = rng.random() < KEPT_SPANS
      cuts = [] if is_kept else [(cut, cut + length) for cut in here]
      query = _join(document[place][1].text, words.spans, window, cuts)
      around = window[1] - window[0] - length
      if around >= WINDOW_WORDS[0] and _WORD.search(query):
        yield Pair(query, row, home=document[place][0])

  return draw


def _neighbours(document: _Document, offsets: Offsets) -> _Draw:
  """Passages without a word, and copies of the query's, are passed over."""
  beside = _nearest_others(document)

  def draw(place, rng):
    text = document[place][1].text
    tokens = offsets(text)
    spoken = _count_spoken(text, tokens)
    spans = sentences.split(text)
    choices = list(itertools.product(spans, beside.get(place, ())))
    for i in rng.permutation(len(choices)):
      span, row = choices[i]
      first, end = _tokens_of(span, tokens)
      if spoken[end] - spoken[first] >= MIN_QUERY_TOKENS:
        yield Pair(_fold_space(text[span[0] : span[1]]), row,
                   home=document[place][0])

  return draw


def _title(document: _Document, offsets: Offsets) -> _Draw:
  """A title that is the whole text finds nothing new, and is left out."""
  del offsets

  def draw(place, rng):
    del rng
    row, passage = document[place]
    title, text = _fold(passage.title), _fold(passage.text)
    if title and text and title != text:
      yield Pair(_fold_space(passage.title), row, title=False)

  return draw


_MAKERS: dict[str, Callable[[_Document, Offsets], _Draw]] = {
    'inverse_cloze': _inverse_cloze, 'crops': _crops,
    'recurring_spans': _recurring_spans, 'neighbours': _neighbours,
    'title': _title,
}


def _distinct(pairs: Iterator[Pair]) -> Iterator[Pair]:
  seen = set()
  for pair in pairs:
    if pair not in seen:
      seen.add(pair)
      yield pair


def _fold_space(text: str) -> str:
  return ' '.join(text.split())


def _fold(text: str) -> str:
  """The words of a text, case folded."""
  return ' '.join(_WORD.findall(text.casefold()))


def _groups(document: _Document) -> list[int]:
  """Equal numbers for passages of the same words."""
  numbers: dict[str, int] = {}
  return [numbers.setdefault(_fold(passage.text), len(numbers))
          for _, passage in document]


def _nearest_others(document: _Document) -> dict[int, list[int]]:
  """Place -> rows of the nearest passages of another text, to either side."""
  spoken = [place for place, (_, passage) in enumerate(document)
            if _WORD.search(passage.text)]
  groups = _groups(document)
  beside = collections.defaultdict(list)
  for order in (spoken, spoken[::-1]):
    row = None
    for last, place in itertools.pairwise(order):
      if groups[last] != groups[place]:
        row = document[last][0]
      if row is not None:
        beside[place].append(row)
  return beside


def _count_spoken(
    text: str, tokens: Sequence[tuple[int, int]]
) -> list[int]:
  """How many of the first 0, 1, ... tokens hold a letter or digit."""
  spoken = (any(map(str.isalnum, text[start:end])) for start, end in tokens)
  return list(itertools.accumulate(spoken, initial=0))


def _tokens_of(
    span: tuple[int, int], tokens: Sequence[tuple[int, int]]
) -> tuple[int, int]:
  """The tokens that a span of characters touches, as (first, end)."""
  first = bisect.bisect_right(tokens, span[0], key=lambda token: token[1])
  end = bisect.bisect_left(tokens, span[1], key=lambda token: token[0])
  return first, max(first, end)


def _text_of(
    text: str, tokens: Sequence[tuple[int, int]], span: tuple[int, int]
) -> str:
  """What some tokens stand for, with the marks behind that have no token."""
  ends = len(text) if span[1] == len(tokens) else tokens[span[1]][0]
  return _fold_space(text[tokens[span[0]][0] : ends])


def _edges(text: str, tokens: Sequence[tuple[int, int]]) -> list[int]:
  """Tokens before which a text may be cut, and the number of tokens.

  That is at white space, and beside letters of scripts that write none between
  words. A character of several tokens is never cut.
  """
  inner = []
  for i in range(1, len(tokens)):
    end, start = tokens[i - 1][1], tokens[i][0]
    if end <= start and (
        any(map(str.isspace, text[end : start + 1]))
        or _UNSPACED.search(text[end - 1] + text[start])
    ):
      inner.append(i)
  return [0, *inner, len(tokens)]


def _crop(
    tokens: int, edges: Sequence[int], rng: np.random.Generator
) -> tuple[int, int]:
  """A random span of whole words, as (first, end)."""
  length = max(MIN_CROP_TOKENS, int(rng.uniform(*CROP_PARTS) * tokens))
  first = int(rng.integers(tokens - length + 1))
  return (edges[bisect.bisect_right(edges, first) - 1],
          edges[bisect.bisect_left(edges, first + length)])


class _Words:
  """The words of all passages of a document, one after the other.

  Attributes:
    folded: case folded.
    spans: (start, end) in the characters of its passage.
    owners: place of its passage.
    continues: whether only white space parts it from the next one, in the same
      passage.
    bounds: (first, end) of each passage's words.
    groups: of each passage, as `_groups`.
    titles: of the passages, folded, with a space at either end.
  """

  def __init__(self, document: _Document):
    self.folded: list[str] = []
    self.spans: list[tuple[int, int]] = []
    self.owners: list[int] = []
    self.continues: list[bool] = []
    self.bounds: list[tuple[int, int]] = []
    self.groups = _groups(document)
    self.titles = frozenset(f' {_fold(passage.title)} '
                            for _, passage in document)
    for place, (_, passage) in enumerate(document):
      text, first = passage.text, len(self.folded)
      spans = [match.span() for match in _WORD.finditer(text)]
      self.spans += spans
      self.folded += (text[start:end].casefold() for start, end in spans)
      self.owners += [place] * len(spans)
      self.continues += (text[ours[1] : theirs[0]].isspace()
                         for ours, theirs in itertools.pairwise(spans))
      self.continues += [False] * bool(spans)
      self.bounds.append((first, len(self.folded)))


@dataclasses.dataclass(frozen=True, slots=True)
class _Span:
  """A run of `length` words, and the words it starts at, ascending."""

  length: int
  starts: list[int]


def _recurring(words: _Words) -> list[dict[int, _Span]]:
  """All runs of words that passages of different texts share.

  A run recurs only if both runs that are a word shorter do: each length is
  looked for where the last one was found, so time grows with the words.

  Returns:
    For each length of `SPAN_WORDS`, word -> the run that starts there.
  """
  names: dict[int, Hashable] = dict(enumerate(words.folded))
  levels: list[dict[int, _Span]] = []
  for length in range(2, SPAN_WORDS[1] + 1):
    starts_of = collections.defaultdict(list)
    for start, name in names.items():
      if words.continues[start] and start + 1 in names:
        starts_of[name, names[start + 1]].append(start)
    spans = [_Span(length, starts) for starts in starts_of.values()
             if len({words.groups[words.owners[s]] for s in starts}) > 1]
    levels.append({start: span for span in spans for start in span.starts})
    names = {start: span.starts[0] for start, span in levels[-1].items()}
  return levels[SPAN_WORDS[0] - 2 :]


def _maximal(words: _Words, levels: list[dict[int, _Span]]) -> list[_Span]:
  """Runs that tell something and are not always part of one longer such run."""
  kept: list[_Span] = []
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


def _is_telling(words: _Words, span: _Span) -> bool:
  """Whether neither end is a stop word, a letter is in it, and no title has it.

  Titles are those of the document: all its passages would match.
  """
  folded = words.folded[span.starts[0] : span.starts[0] + span.length]
  run = ' '.join(folded)
  return (folded[0] not in _STOP_WORDS and folded[-1] not in _STOP_WORDS
          and any(map(str.isalpha, run))
          and not any(f' {run} ' in title for title in words.titles))


def _window(
    start: int,
    length: int,
    bounds: tuple[int, int],
    rng: np.random.Generator,
) -> tuple[int, int]:
  """Words around a span and inside its passage, as (first, end)."""
  most = bounds[1] - bounds[0] - length
  around = min(most, int(rng.integers(WINDOW_WORDS[0], WINDOW_WORDS[1] + 1)))
  first = int(rng.integers(
      max(bounds[0], start - around),
      min(start, bounds[1] - length - around) + 1,
  ))
  return first, first + length + around


def _join(
    text: str,
    spans: Sequence[tuple[int, int]],
    window: tuple[int, int],
    cuts: Sequence[tuple[int, int]],
) -> str:
  """The text of the words of a window, without those of the cuts inside it."""
  at, pieces = spans[window[0]][0], []
  for first, end in cuts:
    if window[0] <= first and end <= window[1]:
      pieces.append(text[at : spans[first][0]])
      at = spans[end - 1][1]
  pieces.append(text[at : spans[window[1] - 1][1]])
  query = _fold_space(' '.join(pieces))
  return _LOOSE.sub('', query).lstrip(' ,.;:!?)]') if cuts else query
