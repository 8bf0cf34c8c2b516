"""`neighbours`: a sentence finds the next or the previous passage.

After body first selection (Chang et al. 2020, section 3.1), where a sentence of
a page's first section finds any passage of the page.
"""

import collections
import itertools

from neg_contrast.stage1 import sentences
from neg_contrast.stage1.pretexts import pretext, words


def _neighbours(
    document: pretext.Document, offsets: pretext.Offsets
) -> pretext.Draw:
  """Passages without a word, and copies of the query's, are passed over."""
  beside = _nearest_others(document)

  def draw(place, rng):
    text = document[place][1].text
    tokens = offsets(text)
    spoken = words.count_spoken(text, tokens)
    spans = sentences.split(text)
    choices = list(itertools.product(spans, beside.get(place, ())))
    for i in rng.permutation(len(choices)):
      span, row = choices[i]
      first, end = words.tokens_of(span, tokens)
      if spoken[end] - spoken[first] >= pretext.MIN_QUERY_TOKENS:
        yield pretext.Pair(words.fold_space(text[span[0] : span[1]]), row,
                   home=document[place][0])

  return draw


def _nearest_others(document: pretext.Document) -> dict[int, list[int]]:
  """Place -> rows of the nearest passages of another text, to either side."""
  spoken = [place for place, (_, passage) in enumerate(document)
            if words.WORD.search(passage.text)]
  groups = words.groups_of(document)
  beside = collections.defaultdict(list)
  for order in (spoken, spoken[::-1]):
    row = None
    for last, place in itertools.pairwise(order):
      if groups[last] != groups[place]:
        row = document[last][0]
      if row is not None:
        beside[place].append(row)
  return beside


NEIGHBOURS = pretext.Pretext(
    'neighbours', 'documents of several passages', _neighbours,
    needs_documents=True,
)
