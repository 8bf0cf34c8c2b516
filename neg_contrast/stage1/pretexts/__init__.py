"""Pairs to train on made of passages alone: no question, no judgement.

One pretext a file; `PRETEXTS` is the table that plans, errors and keys use.
"""

import hashlib
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from neg_contrast.data import records
from neg_contrast.stage1.pretexts import (
  crops,
  inverse_cloze,
  neighbours,
  recurring_spans,
  title,
)
from neg_contrast.stage1.pretexts.pretext import TO_END, Offsets, Pair, Pretext

PRETEXTS: dict[str, Pretext] = {
    pretext.name: pretext for pretext in (
        inverse_cloze.INVERSE_CLOZE,
        crops.CROPS,
        recurring_spans.RECURRING_SPANS,
        neighbours.NEIGHBOURS,
        title.TITLE,
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
    A passage may make none: one sentence, no title, nothing that recurs.

  Raises:
    ValueError: an unknown kind.
  """
  if kind not in PRETEXTS:
    known = ', '.join(PRETEXTS)
    raise ValueError(f'no pretext {kind!r}; there are {known}')
  document = sorted(passages, key=lambda pair: pair[0])
  draw = PRETEXTS[kind].prepare(document, offsets)
  pairs: list[Pair] = []
  for place, (_, passage) in enumerate(document):
    found = draw(place, _generator(seed, kind, passage.id))
    pairs.extend(itertools.islice(_distinct(found), per_passage))
  return pairs


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


__all__ = ['PRETEXTS', 'TO_END', 'Pair', 'Pretext', 'make_pairs']
