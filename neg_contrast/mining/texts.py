"""The words of candidates: passages, half passages, and answers in them."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Int

from neg_contrast.data import answers as answers_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import records
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.negatives import halves as halves_lib


@dataclasses.dataclass(frozen=True)
class Texts:
  """Passages by row, half passages too.

  Attributes:
    passages: of the corpus.
    halves: `[halves, 3] int32`, see `negatives/halves.py`.
    tokenizer: that the halves were cut with; asked for only if there are any.
  """

  passages: prepared_lib.Records[records.Passage]
  halves: Int[np.ndarray, 'halves 3']
  tokenizer: Callable[[], tokenizer_lib.Tokenizer]

  def __call__(self, row: int) -> records.Passage:
    """A passage; the id of a half tells which tokens of its parent it has."""
    if row < len(self.passages):
      return self.passages[row]
    parent, begin, end = map(int, self.halves[row - len(self.passages)])
    whole = self.passages[parent]
    offsets = self.tokenizer().offsets(whole.text)
    return records.Passage(
        f'{whole.id}[{begin}:{end}]', whole.title,
        halves_lib.text_of(whole.text, offsets, (begin, end)),
        whole.document_id,
    )

  def some(
      self, rows: Int[np.ndarray, ' some']
  ) -> Iterator[records.Passage]:
    """Passages of ascending rows, many read at once: a ninth of the time."""
    whole = np.searchsorted(rows, len(self.passages))
    yield from self.passages.some(rows[:whole])
    yield from map(self, rows[whole:].tolist())


def find_answers(
    texts: Callable[[np.ndarray], Iterable[records.Passage]],
    answers: Sequence[Sequence[str]],
    rows: Int[np.ndarray, 'queries depth'],
    where: Bool[np.ndarray, 'queries depth'],
    rule: str,
) -> Bool[np.ndarray, 'queries depth']:
  """Which candidates hold an answer of their query.

  Each passage is read once.

  Args:
    texts: ascending rows, none twice -> passages.
    answers: of each query.
    rows: `[queries, depth] int32`.
    where: `[queries, depth] bool`, which to look at; the others are False.
    rule: `string` or `regex`.
  """
  found = np.zeros(rows.shape, bool)
  has_some = np.array([bool(some) for some in answers])
  lines, columns = np.nonzero(where & has_some[:, None])
  different, number = np.unique(rows[lines, columns], return_inverse=True)
  order = np.argsort(number, kind='stable')
  ends = np.cumsum(np.bincount(number, minlength=len(different)))
  begin = 0
  for passage, end in zip(texts(different), ends.tolist(), strict=True):
    for place in order[begin:end]:
      line, column = lines[place], columns[place]
      found[line, column] = answers_lib.has_answer(
          passage.text, answers[line], rule
      )
    begin = end
  return found
