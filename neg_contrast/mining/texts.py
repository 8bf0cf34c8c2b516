"""The words of candidates: passages, half passages, and answers in them."""

import dataclasses
from collections.abc import Callable, Sequence

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


def find_answers(
    texts: Callable[[int], records.Passage],
    answers: Sequence[Sequence[str]],
    rows: Int[np.ndarray, 'queries depth'],
    where: Bool[np.ndarray, 'queries depth'],
    rule: str,
) -> Bool[np.ndarray, 'queries depth']:
  """Which candidates hold an answer of their query.

  Each passage is read once.

  Args:
    texts: row -> passage.
    answers: of each query.
    rows: `[queries, depth] int32`.
    where: `[queries, depth] bool`, which to look at; the others are False.
    rule: `string` or `regex`.
  """
  found = np.zeros(rows.shape, bool)
  has_some = np.array([bool(some) for some in answers])
  lines, columns = np.nonzero(where & has_some[:, None])
  order = np.argsort(rows[lines, columns], kind='stable')
  last, text = -1, ''
  for line, column in zip(lines[order], columns[order], strict=True):
    row = int(rows[line, column])
    if row != last:
      last, text = row, texts(row).text
    found[line, column] = answers_lib.has_answer(text, answers[line], rule)
  return found
