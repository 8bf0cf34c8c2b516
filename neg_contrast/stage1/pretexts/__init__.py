"""Pairs to train on made of passages alone: no question, no judgement.

One pretext a file; `PRETEXTS` is the table that plans, errors and keys use.
"""

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from neg_contrast.data import records
from neg_contrast.stage1.pretexts import (
  crops,
  inverse_cloze,
  masked_salient_spans,
  neighbours,
  recurring_spans,
  salient_spans,
  spar,
  title,
)
from neg_contrast.stage1.pretexts.pretext import (
  TO_END,
  Candidates,
  Offsets,
  Pair,
  Pretext,
)

PRETEXTS: dict[str, Pretext] = {
    pretext.name: pretext for pretext in (
        inverse_cloze.INVERSE_CLOZE,
        crops.CROPS,
        recurring_spans.RECURRING_SPANS,
        neighbours.NEIGHBOURS,
        title.TITLE,
        masked_salient_spans.MASKED_SALIENT_SPANS,
        salient_spans.SALIENT_SPANS,
        spar.SPAR,
    )
}
"""Name in `config.synthetic.pairs` -> pretext. A new one is a line here."""


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
    kind: one of `PRETEXTS`.
    passages: (row, passage) of a document, in any order; where documents are
      unknown, one passage, which has no recurring spans or neighbours.
    offsets: of the tokenizer that the positives' tokens belong to.
    seed: of all random choices.
    per_passage: pairs that a passage makes at most; a passage has one title,
      two neighbours a sentence, and a hundred crops or spans.

  Returns:
    Different pairs, by the row of the passage whose text or title the query is.
    A passage may make none: one sentence, no title, nothing that recurs. Of a
    pretext that a teacher settles, these are candidates.

  Raises:
    ValueError: an unknown kind.
  """
  return [pair for drawn in draw_candidates(
      kind, passages, offsets, seed, per_passage
  ) for pair in drawn.pairs]


def draw_candidates(
    kind: str,
    passages: Sequence[tuple[int, records.Passage]],
    offsets: Offsets,
    seed: int,
    count: int,
) -> list[Candidates]:
  """The pairs of one document, by passage; arguments as `make_pairs`."""
  if kind not in PRETEXTS:
    known = ', '.join(PRETEXTS)
    raise ValueError(f'no pretext {kind!r}; there are {known}')
  document = sorted(passages, key=lambda pair: pair[0])
  draw = PRETEXTS[kind].prepare(document, offsets)
  drawn: list[Candidates] = []
  for place, (_, passage) in enumerate(document):
    found = draw(place, _generator(seed, kind, passage.id))
    drawn.append(Candidates(
        passage, list(itertools.islice(_distinct(found), count)),
        _generator(seed, f'{kind}, settled', passage.id),
    ))
  return drawn


def settle(
    kind: str,
    candidates: Sequence[Candidates],
    teacher: Any,
    per_passage: int,
) -> Iterator[Pair]:
  """The pairs of passages, where a teacher chooses among what was drawn.

  Args:
    kind: one of `PRETEXTS`.
    candidates: of all passages of any documents, from `draw_candidates`.
    teacher: `pretext.Searcher` or `Scorer`, as the pretext needs; None: it
      needs none.
    per_passage: pairs that a passage makes at most.

  Yields:
    Pairs, in the order of `candidates`.
  """
  choose = PRETEXTS[kind].settle
  if choose is None:
    settled: Sequence[Sequence[Pair]] = [drawn.pairs for drawn in candidates]
  else:
    assert teacher is not None, kind
    settled = choose(candidates, teacher)
  for pairs in settled:
    yield from itertools.islice(pairs, per_passage)


def _generator(seed: int, kind: str, passage_id: str) -> np.random.Generator:
  text = f'{seed}\0{kind}\0{passage_id}'
  key = hashlib.blake2b(text.encode(), digest_size=16).digest()
  return np.random.Generator(np.random.Philox(key=np.frombuffer(key, '<u8')))


def _distinct(pairs: Iterator[Pair]) -> Iterator[Pair]:
  seen = set()
  for pair in pairs:
    if pair not in seen:
      seen.add(pair)
      yield pair


__all__ = [
    'PRETEXTS', 'TO_END', 'Candidates', 'Pair', 'Pretext',
    'draw_candidates', 'make_pairs', 'settle',
]
