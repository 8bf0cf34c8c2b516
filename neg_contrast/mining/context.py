"""Context negatives: other passages of the positive's document, or half of it.

Lu et al., section 4.1: "If the document contains only one passage, we split the
passage in half and pick as the context negative the half that does not contain
the span of text that answers the question."

A half passage is no passage of the corpus. It has the row `passages + h`, where
h is its line in a table of (parent row, first token, end token); tokens are
those of the parent's text.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Int

from neg_contrast.data import answers as answers_lib
from neg_contrast.data import examples
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.mining import candidates

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


def middle(text: str, offsets: Sequence[tuple[int, int]]) -> int | None:
  """The token nearest the middle that begins a word, or else the middle one."""
  count = len(offsets)
  if count < 2:
    return None
  begins = [i for i in range(1, count) if text[offsets[i][0] - 1].isspace()]
  return min(begins, key=lambda i: abs(2 * i - count), default=count // 2)


def text_of(
    text: str, offsets: Sequence[tuple[int, int]], span: tuple[int, int]
) -> str:
  """The part of a text that a token span covers."""
  return text[offsets[span[0]][0] : offsets[span[1] - 1][1]]


def by_document(
    documents: Int[np.ndarray, ' passages'],
) -> Callable[[int], Int[np.ndarray, ' members']]:
  """Document number -> its passage rows, ascending."""
  order = np.argsort(documents, kind='stable').astype(np.int32)
  numbers, begins = np.unique(documents[order], return_index=True)
  ends = np.append(begins[1:], len(order))
  place = {int(number): i for i, number in enumerate(numbers)}
  return lambda number: order[begins[place[number]] : ends[place[number]]]


@dataclasses.dataclass(frozen=True)
class ContextMiner:
  """Passages of the same document, nearest to the positive first.

  Attributes:
    documents: `[passages] int32`, number of the document; -1: unknown.
    groups: `[passages] int32`, equal for passages of the same text.
    positives: query row -> passage rows it is trained with.
    known: groups of all known positives, of all queries.
    half: (query row, passage row) -> its negative half, or None.
    depth: of the candidates.
    halves: (parent, first token, end token) of the halves made so far.
  """

  documents: Int[np.ndarray, ' passages']
  groups: Int[np.ndarray, ' passages']
  positives: Callable[[int], Sequence[int]]
  known: examples.Positives
  half: Callable[[int, int], tuple[int, int] | None]
  depth: int
  halves: list[tuple[int, int, int]] = dataclasses.field(default_factory=list)

  @functools.cached_property
  def _members(self) -> Callable[[int], Int[np.ndarray, ' members']]:
    return by_document(self.documents)

  def mine(
      self, queries: Int[np.ndarray, ' queries']
  ) -> candidates.Candidates:
    """The candidates of some queries; a score is minus the distance in rows."""
    found = [self._of_query(int(query)) for query in queries]
    return candidates.listed([rows for rows, _ in found],
                             [scores for _, scores in found], self.depth)

  def _of_query(self, query):
    positives = [row for row in self.positives(query)
                 if self.documents[row] >= 0]
    if not positives:
      return np.zeros(0, np.int32), np.zeros(0, np.float32)
    numbers = dict.fromkeys(int(self.documents[row]) for row in positives)
    rows = np.concatenate([self._members(number) for number in numbers])
    rows = rows[~np.isin(self.groups[rows], self.known[query])]
    if not len(rows):
      return self._halves_of(query, positives)
    distance = np.abs(rows[:, None] - np.array(positives)).min(axis=1)
    order = np.lexsort((rows, distance))
    return rows[order], -distance[order].astype(np.float32)

  def _halves_of(self, query, positives):
    rows = []
    for parent in positives:
      span = self.half(query, parent)
      if span is not None:
        rows.append(len(self.documents) + len(self.halves))
        self.halves.append((parent, *span))
    return np.array(rows, np.int32), np.zeros(len(rows), np.float32)
