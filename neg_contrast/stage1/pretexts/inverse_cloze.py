"""`inverse_cloze`: a sentence finds the passage it was taken out of.

Lee et al. 2019, section 5; Chang et al. 2020, section 3.1.
"""

import collections

from neg_contrast.stage1 import sentences
from neg_contrast.stage1.pretexts import pretext, words

KEPT_SENTENCES = 0.1
"""Part of the sentences that stay in their passage (Lee et al. 2019)."""


def _inverse_cloze(
    document: pretext.Document, offsets: pretext.Offsets
) -> pretext.Draw:
  """Also: a sentence said twice is no query, since it would stay anyway."""

  def draw(place, rng):
    row, passage = document[place]
    tokens = offsets(passage.text)
    spoken = words.count_spoken(passage.text, tokens)
    spans = sentences.split(passage.text)
    queries = [words.fold_space(passage.text[start:end])
               for start, end in spans]
    times = collections.Counter(query.casefold() for query in queries)
    for i in rng.permutation(len(spans)):
      is_kept = rng.random() < KEPT_SENTENCES
      first, end = words.tokens_of(spans[i], tokens)
      said = spoken[end] - spoken[first]
      if (min(said, spoken[-1] - said) >= pretext.MIN_QUERY_TOKENS
          and times[queries[i].casefold()] == 1):
        yield (pretext.Pair(queries[i], row) if is_kept else
               pretext.Pair(queries[i], row, first=end, end=first))

  return draw


INVERSE_CLOZE = pretext.Pretext(
    'inverse_cloze', 'passages of several sentences', _inverse_cloze
)
