"""Cuts the documents of a source into the passages of a new corpus."""

import dataclasses
import json
import pathlib
from collections.abc import Callable
from typing import Any

from absl import logging

from neg_contrast import progress
from neg_contrast.artifacts import artifact, folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import splitting
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.jobs import checks
from neg_contrast.models import by_name as model_lib
from neg_contrast.settings import config as config_lib


def check(config: config_lib.Config) -> None:
  """Refuses a config that does not suit `job=split`."""
  checks.check_source(config)
  if config.data.passage_tokens:
    checks.check_checkpoint(config)


@dataclasses.dataclass(frozen=True)
class Passages(artifact.Named):
  """The passages of all documents, as a BEIR corpus.

  Attributes:
    data: the documents.
    workdir: of the job.
    checkpoint: whose tokenizer counts, where tokens do.
    model: its settings.
    seed: of weights that it lacks.
  """

  kind = 'passages'
  data: dataset_lib.Data
  workdir: pathlib.Path
  checkpoint: str
  model: config_lib.ModelConfig
  seed: int

  @property
  def name(self) -> str:
    """As in plans."""
    return 'passages'

  @property
  def folder(self) -> pathlib.Path:
    """Of the corpus."""
    return self.workdir / 'corpus'

  def describe(self) -> str:
    """The file."""
    return f'{self.folder / "corpus.jsonl"}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """The documents."""
    return {'documents': self.data}

  def settings(self) -> dict[str, Any]:
    """The length of a passage, and what counts it."""
    config = self.data.config
    if not config.passage_tokens:
      return {'words': config.passage_words}
    return {'tokens': config.passage_tokens,
            'tokenizer': self._tokenizer().sha256}

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

  def _tokenizer(self) -> tokenizer_lib.Tokenizer:
    return model_lib.load_checkpoint(
        self.checkpoint, self.model, self.seed
    ).tokenizer

  def _cut(self) -> Callable[[str], list[tuple[int, int]]]:
    """Text -> spans of its passages."""
    config = self.data.config
    if not config.passage_tokens:
      return lambda text: splitting.by_words(text, config.passage_words)
    tokenizer = self._tokenizer()
    return lambda text: splitting.by_tokens(
        text, tokenizer.offsets(text), config.passage_tokens
    )


class SplitJob:
  """`job=split`: documents in, a BEIR corpus of passages out."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._passages = Passages(
        dataset_lib.Data(config.data), workdir, config.checkpoint,
        config.model, config.seed,
    )

  def steps(self) -> list[artifact.Artifact]:
    """The target, which says what it needs."""
    return [self._passages]

  def finish(self) -> None:
    """Says how much there is and how to use it."""
    folder = self._passages.folder
    made = folders.read_json(folder / folders.MANIFEST)['counts']
    print(f'\n{made["documents"]} documents, {made["passages"]} passages, '
          f'{made["blank"]} documents without text\n'
          f'--config.data.source=beir:{folder}')
