"""The passages that documents are cut into, as a BEIR corpus."""

import dataclasses
import json
import pathlib
from collections.abc import Callable
from typing import Any

from absl import logging

from neg_contrast import progress
from neg_contrast.artifacts import artifact
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import splitting


@dataclasses.dataclass(frozen=True)
class Passages(artifact.Named):
  """The passages of all documents.

  Attributes:
    data: the documents.
    workdir: of the job.
    words: of a passage, where words count.
    tokens: of a passage; 0: words count.
    tokenizer: loads as what counts tokens; None: words count.
  """

  kind = 'passages'
  name = 'passages'
  data: dataset_lib.Data
  workdir: pathlib.Path
  words: int
  tokens: int
  tokenizer: artifact.Artifact | None

  @property
  def folder(self) -> pathlib.Path:
    """Of the corpus."""
    return self.workdir / 'corpus'

  def describe(self) -> str:
    """The file."""
    return f'{self.folder / "corpus.jsonl"}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """The documents, and what counts tokens."""
    if self.tokenizer is None:
      return {'corpus': self.data}
    return {'corpus': self.data, 'tokenizer': self.tokenizer}

  def settings(self) -> dict[str, Any]:
    """The length of a passage."""
    return ({'words': self.words} if self.tokenizer is None else
            {'tokens': self.tokens})

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Cuts all documents."""
    documents, cut = self.data.load().prepared.passages, self._cut()
    say = progress.Ticker('cutting documents', len(documents))
    counts = {'documents': len(documents), 'passages': 0, 'blank': 0}
    manifest |= {'counts': counts, 'source': self.data.config.source}
    with open(scratch / 'corpus.jsonl', 'w', encoding='utf-8') as f:
      for done, document in enumerate(documents, start=1):
        spans = cut(document.text)
        for number, (start, end) in enumerate(spans, start=1):
          f.write(json.dumps({
              '_id': f'{document.id}#{number}',
              'title': document.title,
              'text': document.text[start:end],
              'metadata': {'document_id': document.document_id or document.id},
          }, ensure_ascii=False) + '\n')
        counts['passages'] += len(spans)
        counts['blank'] += not spans
        say(done)
    logging.info('%s: %d passages', self.folder, counts['passages'])

  def _cut(self) -> Callable[[str], list[tuple[int, int]]]:
    """Text -> spans of its passages."""
    if self.tokenizer is None:
      return lambda text: splitting.by_words(text, self.words)
    tokenizer = self.tokenizer.load()
    return lambda text: splitting.by_tokens(
        text, tokenizer.offsets(text), self.tokens
    )
