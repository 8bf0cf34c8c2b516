"""The lines of a BEIR corpus that documents become when they are cut."""

import dataclasses
import json
import re
from collections.abc import Callable, Iterable
from typing import TextIO
from urllib import parse

from neg_contrast.data import records, splitting
from neg_contrast.data import tokenizer as tokenizer_lib

_SPACE = re.compile(r'[ \t\n\v\f\r]')


def passage_id(document_id: str, number: int) -> str:
  """The id of a document's passage; TREC files end ids at white space."""
  name = _SPACE.sub(lambda found: parse.quote(found[0]), document_id)
  return f'{name}#{number}'


@dataclasses.dataclass(frozen=True)
class Cutter:
  """Finds the passages of a text; can be pickled.

  Attributes:
    words: of a passage, where words count.
    tokens: of a passage, where tokens count.
    tokenizer: counts them; None: words count.
  """

  words: int
  tokens: int
  tokenizer: tokenizer_lib.Tokenizer | None

  def __call__(self, text: str) -> list[tuple[int, int]]:
    """(start, end) in characters of each passage; none for a blank text."""
    if self.tokenizer is None:
      return splitting.by_words(text, self.words)
    return splitting.by_tokens(text, self.tokenizer.offsets(text), self.tokens)


def write(
    f: TextIO, documents: Iterable[records.Passage], cut: Cutter,
    on_progress: Callable[[int], None] | None = None,
) -> dict[str, int]:
  """Writes a line for each passage, in the order of the documents.

  Args:
    f: a file of `corpus.jsonl`.
    documents: to be cut.
    cut: finds the passages of a document.
    on_progress: called with the number of documents done so far.

  Returns:
    The number of `documents`, of `passages`, and of `blank` documents, which
    have none.
  """
  counts = {'documents': 0, 'passages': 0, 'blank': 0}
  for document in documents:
    spans = cut(document.text)
    for number, (start, end) in enumerate(spans, start=1):
      f.write(json.dumps({
          '_id': passage_id(document.id, number),
          'title': document.title,
          'text': document.text[start:end],
          'metadata': {'document_id': document.document_id or document.id},
      }, ensure_ascii=False) + '\n')
    counts['documents'] += 1
    counts['passages'] += len(spans)
    counts['blank'] += not spans
    if on_progress:
      on_progress(counts['documents'])
  return counts
