"""Half passages: negatives of questions whose document has no other passage.

Lu et al., section 4.1: "If the document contains only one passage, we split the
passage in half and pick as the context negative the half that does not contain
the span of text that answers the question."

A half passage is no passage of the corpus. It has the row `passages + h`, where
h is its line in a table of (parent row, first token, end token); tokens are
those of the parent's text.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Int

from neg_contrast.batches import batcher
from neg_contrast.data import answers as answers_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import tokenized
from neg_contrast.data import tokenizer as tokenizer_lib

Score = Callable[[str, Sequence[str]], Sequence[float]]
"""(query, texts) -> BM25 score of each."""


@dataclasses.dataclass(frozen=True)
class HalfMaker:
  """Halves passages and says which half is the negative one.

  Attributes:
    tokenizer: of the model; halves have equally many of its tokens, as far as
      words stay whole.
    score: BM25 of texts against a query.
    answer_rule: `string` or `regex`.
  """

  tokenizer: tokenizer_lib.Tokenizer
  score: Score
  answer_rule: str = 'string'

  def negative_half(
      self, query: str, answers: Sequence[str], text: str
  ) -> tuple[int, int] | None:
    """The half without the answer, as (first token, end token).

    Where both halves, neither, or no answer is known: the one with the lower
    BM25 score against the query, and of equal ones the second.

    Returns:
      None if the text has less than two tokens.
    """
    offsets = self.tokenizer.offsets(text)
    cut = middle(text, offsets)
    if cut is None:
      return None
    spans = (0, cut), (cut, len(offsets))
    texts = [text_of(text, offsets, span) for span in spans]
    first, second = (
        answers_lib.has_answer(half, answers, self.answer_rule)
        for half in texts
    )
    if first == second:
      scores = self.score(query, texts)
      return spans[0] if scores[0] < scores[1] else spans[1]
    return spans[1] if first else spans[0]

  def negative_halves(
      self,
      prepared: prepared_lib.Prepared,
      query_rows: Int[np.ndarray, ' pairs'],
      positive_rows: Int[np.ndarray, ' pairs'],
  ) -> Int[np.ndarray, 'pairs 3']:
    """The negative half of the positive of each pair.

    Args:
      prepared: has queries and passages.
      query_rows: `[pairs] int32`.
      positive_rows: `[pairs] int32`, passage rows.

    Returns:
      `[pairs, 3] int32`: parent row, first token, end token; -1: the text has
      less than two tokens.
    """
    halves = np.full((len(query_rows), 3), -1, np.int32)
    for half, query_row, row in zip(halves, query_rows, positive_rows,
                                    strict=True):
      query = prepared.queries[int(query_row)]
      span = self.negative_half(
          query.text, query.answers, prepared.passages[int(row)].text
      )
      if span is not None:
        half[:] = row, *span
    return halves


def middle(text: str, offsets: Sequence[tuple[int, int]]) -> int | None:
  """The token nearest the middle that begins a word, or else the middle one."""
  count = len(offsets)
  if count < 2:
    return None
  # A byte-level tokenizer may have the space before a word in its token.
  begins = [i for i, (start, _) in enumerate(offsets) if i
            and any(map(str.isspace, text[start - 1 : start + 1]))]
  return min(begins, key=lambda i: abs(2 * i - count), default=count // 2)


def text_of(
    text: str, offsets: Sequence[tuple[int, int]], span: tuple[int, int]
) -> str:
  """The part of a text that a token span covers."""
  return text[offsets[span[0]][0] : offsets[span[1] - 1][1]]


def passage_tokens(
    passages: tokenized.TokenizedTexts, halves: np.ndarray
) -> batcher.CutTokens:
  """Token ids by row and cut.

  Args:
    passages: of the corpus.
    halves: `[halves, 3] int32`, what rows beyond the corpus are: parent row,
      first and end token.
  """
  count = len(passages.store)

  def tokens(rows, cuts):
    is_half = rows >= count
    if is_half.any():
      parts = halves[rows[is_half] - count]
      rows, cuts = rows.copy(), cuts.copy()
      rows[is_half], cuts[is_half, :2] = parts[:, 0], parts[:, 1:]
    return passages.tokens(rows, cuts)

  return tokens
