"""Cuts the documents of a source into the passages of a new corpus."""

import functools
import json
import pathlib
from collections.abc import Callable
from typing import Any

from absl import logging

from neg_contrast import progress
from neg_contrast.artifacts import folders, plan
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


class SplitJob:
  """`job=split`: documents in, a BEIR corpus of passages out."""

  def __init__(self, config: config_lib.Config, workdir: pathlib.Path):
    """Reads nothing yet."""
    self._config, self._folder = config, workdir / 'corpus'

  def steps(self) -> list[plan.Step]:
    """The plan."""
    return [
        dataset_lib.preparation_step(self._config.data, lambda: self._dataset),
        plan.Step(
            'passages', f'{self._folder / "corpus.jsonl"}', self._is_written,
            self._write,
        ),
    ]

  def finish(self) -> None:
    """Says what came out and how to use it."""
    made = folders.read_json(self._folder / folders.MANIFEST)['counts']
    print(f'\n{made["documents"]} documents, {made["passages"]} passages, '
          f'{made["blank"]} documents without text\n'
          f'--config.data.source=beir:{self._folder}')

  @functools.cached_property
  def _dataset(self) -> dataset_lib.Dataset:
    return dataset_lib.Dataset(self._config.data)

  @functools.cached_property
  def _tokenizer(self) -> tokenizer_lib.Tokenizer | None:
    if not self._config.data.passage_tokens:
      return None
    config = self._config
    return model_lib.load_checkpoint(
        config.checkpoint, config.model, config.seed
    ).tokenizer

  @property
  def _identity(self) -> dict[str, Any]:
    data, tokenizer = self._config.data, self._tokenizer
    return {
        'corpus': self._dataset.prepared.manifest['corpus_fingerprint'],
        'cut': {'words': data.passage_words} if tokenizer is None else {
            'tokens': data.passage_tokens, 'tokenizer': tokenizer.sha256,
        },
    }

  def _is_written(self) -> bool:
    manifest = folders.read_manifest(self._folder)
    return manifest is not None and manifest['identity'] == self._identity

  def _write(self) -> None:
    documents, cut = self._dataset.prepared.passages, self._cut()
    say = progress.Ticker('cutting documents', len(documents))
    counts = {'documents': len(documents), 'passages': 0, 'blank': 0}
    manifest = {'identity': self._identity, 'counts': counts,
                'source': self._config.data.source}
    with (
        folders.writing(self._folder, manifest) as scratch,
        open(scratch / 'corpus.jsonl', 'w', encoding='utf-8') as f,
    ):
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
    logging.info('%s: %d passages', self._folder, counts['passages'])

  def _cut(self) -> Callable[[str], list[tuple[int, int]]]:
    """Text -> spans of its passages."""
    data, tokenizer = self._config.data, self._tokenizer
    if tokenizer is None:
      return lambda text: splitting.by_words(text, data.passage_words)
    return lambda text: splitting.by_tokens(
        text, tokenizer.offsets(text), data.passage_tokens
    )
