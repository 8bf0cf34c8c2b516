"""`masked_salient_spans`: a sentence without a name or date finds its passage.

After salient span masking (Guu et al. 2020, REALM, section 3.4), where a reader
fills the mask with the help of the passage that was retrieved. Deviations:
spans come from the rules of `salient.py`, a span has one mask however many
tokens it is, and the positive is the sentence's own passage, which REALM's
reader never sees: without a reader there is no other to learn from.
"""

import collections
import re
from collections.abc import Sequence

from neg_contrast.stage1 import sentences
from neg_contrast.stage1.pretexts import pretext, salient, words

MASKS = '[MASK]', '<mask>'
"""Of BERT's and RoBERTa's tokenizers; the one is used that is one token."""

_LOOSE = re.compile(r'\s+(?=[,.;:!?)\]\u2019\u201d])')


def _masked_salient_spans(
    document: pretext.Document, offsets: pretext.Offsets
) -> pretext.Draw:
  """Of a tokenizer without a mask, the span is left out.

  Spans that a sentence has twice are passed over: one would stay.
  """
  mask = next((mask for mask in MASKS
               if list(offsets(mask)) == [(0, len(mask))]), '')

  def draw(place, rng):
    row, passage = document[place]
    tokens = offsets(passage.text)
    spoken = words.count_spoken(passage.text, tokens)
    choices = [
        (sentence, (sentence[0] + span[0], sentence[0] + span[1]))
        for sentence in sentences.split(passage.text)
        for span in _single(passage.text[slice(*sentence)])
    ]
    for i in rng.permutation(len(choices)):
      sentence, span = choices[i]
      left = _count(spoken, tokens, sentence) - _count(spoken, tokens, span)
      if left >= pretext.MIN_QUERY_TOKENS:
        text = passage.text
        yield pretext.Pair(_join(
            text[sentence[0] : span[0]], mask, text[span[1] : sentence[1]]
        ), row)

  return draw


def _single(sentence: str) -> list[tuple[int, int]]:
  found = salient.find(sentence)
  folded = words.fold(sentence).split()
  times = collections.Counter(folded)
  runs = f' {" ".join(folded)} '
  kept = []
  for span in found:
    said = words.fold(sentence[slice(*span)])
    count = times[said] if ' ' not in said else runs.count(f' {said} ')
    if count == 1:
      kept.append(span)
  return kept


def _count(
    spoken: Sequence[int], tokens: Sequence[tuple[int, int]],
    span: tuple[int, int],
) -> int:
  first, end = words.tokens_of(span, tokens)
  return spoken[end] - spoken[first]


def _join(before: str, mask: str, behind: str) -> str:
  query = words.fold_space(f'{before} {mask} {behind}')
  return _LOOSE.sub('', query).lstrip(' ,.;:!?)]')


MASKED_SALIENT_SPANS = pretext.Pretext(
    'masked_salient_spans', 'passages with names, dates or numbers',
    _masked_salient_spans,
)
