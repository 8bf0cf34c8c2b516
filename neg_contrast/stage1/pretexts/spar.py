"""`spar`: a sentence finds what BM25 finds with it.

Chen et al. 2021, SPAR, section 3: the student Λ learns to imitate a lexical
teacher, by contrastive learning with the teacher's best passages as positives.
Deviations: one positive is drawn of them for a query (there: all are used, in
turn), and negatives are those of the training, not the teacher's next ranks.
"""

from collections.abc import Sequence

from neg_contrast.stage1 import sentences
from neg_contrast.stage1.pretexts import pretext, words


def _sentences(
    document: pretext.Document, offsets: pretext.Offsets
) -> pretext.Draw:
  """Sentences, each with the passage it is of."""

  def draw(place, rng):
    row, passage = document[place]
    tokens = offsets(passage.text)
    spoken = words.count_spoken(passage.text, tokens)
    spans = sentences.split(passage.text)
    for i in rng.permutation(len(spans)):
      first, end = words.tokens_of(spans[i], tokens)
      if spoken[end] - spoken[first] >= pretext.MIN_QUERY_TOKENS:
        start, stop = spans[i]
        yield pretext.Pair(words.fold_space(passage.text[start:stop]), row)

  return draw


def _settle(
    candidates: Sequence[pretext.Candidates], teacher: pretext.Searcher
) -> list[list[pretext.Pair]]:
  """Draws the positive of each sentence uniformly from what is found.

  The sentence's own passage is one of these, if it is found; if not, it is
  known to hold the query.
  """
  found = iter(teacher.search(
      [pair.query for drawn in candidates for pair in drawn.pairs]
  ))
  settled: list[list[pretext.Pair]] = []
  for drawn in candidates:
    settled.append([])
    for pair in drawn.pairs:
      rows = next(found)
      rows = rows[rows >= 0]
      if len(rows):
        row = int(rows[drawn.rng.integers(len(rows))])
        home = -1 if row == pair.row else pair.row
        settled[-1].append(pretext.Pair(pair.query, row, home=home))
  return settled


SPAR = pretext.Pretext(
    'spar', 'passages with a sentence that BM25 finds something with',
    _sentences, settle=_settle,
)
