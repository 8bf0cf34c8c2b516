"""`recurring_spans`: a span's context finds another passage that has it.

The words around a span find another passage of the document that holds the span
too (Ram et al. 2022, Spider, section 3).
"""

import collections
import itertools
import re
from collections.abc import Sequence

import numpy as np

from neg_contrast.stage1.pretexts import pretext, spans, words

WINDOW_WORDS = (5, 30)
"""Least and greatest length of what stands around a recurring span."""
KEPT_SPANS = 0.5
"""Part of the recurring spans that stay in their query."""

_LOOSE = re.compile(r'\s+(?=[,.;:!?)\]\u2019\u201d])')


def _recurring_spans(
    document: pretext.Document, offsets: pretext.Offsets
) -> pretext.Draw:
  """Windows are counted in words, the span not among them."""
  del offsets
  said = spans.Words(document)
  of_passage = collections.defaultdict(list)
  for span in spans.maximal(said, spans.recurring(said)):
    for place in dict.fromkeys(said.owners[start] for start in span.starts):
      of_passage[place].append(span)

  def draw(place, rng):
    mine = of_passage[place]
    order = rng.permutation(len(mine)).tolist()
    for i in itertools.islice(itertools.cycle(order), pretext.DRAWS):
      length, starts = mine[i].length, mine[i].starts
      here = [start for start in starts if said.owners[start] == place]
      others = [other for other
                in dict.fromkeys(said.owners[start] for start in starts)
                if said.groups[other] != said.groups[place]]
      start = here[rng.integers(len(here))]
      row = document[others[rng.integers(len(others))]][0]
      window = _window(start, length, said.bounds[place], rng)
      is_kept = rng.random() < KEPT_SPANS
      cuts = [] if is_kept else [(cut, cut + length) for cut in here]
      query = _join(document[place][1].text, said.spans, window, cuts)
      around = window[1] - window[0] - length
      if around >= WINDOW_WORDS[0] and words.WORD.search(query):
        yield pretext.Pair(query, row, home=document[place][0])

  return draw


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
  query = words.fold_space(' '.join(pieces))
  return _LOOSE.sub('', query).lstrip(' ,.;:!?)]') if cuts else query


RECURRING_SPANS = pretext.Pretext(
    'recurring_spans', 'documents of several passages', _recurring_spans,
    needs_documents=True,
)
