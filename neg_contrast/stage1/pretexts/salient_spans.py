"""`salient_spans`: the most telling words of a passage find it.

Meng et al. 2022, AugTriever: spans are drawn at random, and the one that fits
its passage best is the query. What is asked how well they fit is the teacher:
BM25, a dual encoder, or the passage's title. Deviations: numbers and lengths of
spans are ours, spans stay inside a sentence, and BM25 counts by word
(`stage1/teachers.py`).
"""

from collections.abc import Sequence

import numpy as np

from neg_contrast.stage1 import sentences
from neg_contrast.stage1.pretexts import pretext, words

SPANS = 16
"""Drawn for a passage."""
SPAN_WORDS = (4, 16)
"""Least and greatest length of a span."""


def _spans(
    document: pretext.Document, offsets: pretext.Offsets
) -> pretext.Draw:
  """Runs of words of a sentence; the positive's title is left out if told."""
  del offsets

  def draw(place, rng):
    row, passage = document[place]
    text = passage.text
    places = [
        [(start + match.start(), start + match.end())
         for match in words.WORD.finditer(text[start:end])]
        for start, end in sentences.split(text)
    ]
    places = [some for some in places if len(some) >= SPAN_WORDS[0]]
    sizes = np.array([len(some) for some in places], float)
    for _ in range(pretext.DRAWS if places else 0):
      some = places[rng.choice(len(places), p=sizes / sizes.sum())]
      most = min(len(some), SPAN_WORDS[1])
      length = int(rng.integers(SPAN_WORDS[0], most + 1))
      first = int(rng.integers(len(some) - length + 1))
      query = words.fold_space(
          text[some[first][0] : some[first + length - 1][1]]
      )
      tells = f' {words.fold(passage.title)} ' in f' {words.fold(query)} '
      yield pretext.Pair(query, row, title=not tells)

  return draw


def _settle(
    candidates: Sequence[pretext.Candidates], teacher: pretext.Scorer
) -> list[list[pretext.Pair]]:
  """The best first; of equal ones the first that was drawn."""
  scores = iter(teacher.score(
      [pair.query for drawn in candidates for pair in drawn.pairs],
      [drawn.passage for drawn in candidates for _ in drawn.pairs],
  ).tolist())
  settled = []
  for drawn in candidates:
    scored = [(next(scores), pair) for pair in drawn.pairs]
    scored = [one for one in scored if one[0] > -np.inf]
    scored.sort(key=_score, reverse=True)
    settled.append([pair for _, pair in scored])
  return settled


def _score(scored: tuple[float, pretext.Pair]) -> float:
  return scored[0]


SALIENT_SPANS = pretext.Pretext(
    'salient_spans', 'passages with a sentence of some words that the teacher '
    'finds salient (synthetic.salience)', _spans, settle=_settle,
    candidates=SPANS,
)
