"""The pairs of stage 1: made of passages, and kept as data to train on."""

import functools
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import errors, progress
from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import synthetic_pairs
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.models import by_name as model_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import pretexts
from neg_contrast.stage1 import questions as questions_lib

_FORMAT = 1  # Of the folder.


class Synthetic:
  """Makes the pairs that `config.synthetic.pairs` names."""

  def __init__(
      self,
      settings: config_lib.SyntheticConfig,
      data: config_lib.DataConfig,
      model_init: str,
      seed: int,
      dataset: Callable[[], dataset_lib.Dataset],
      questions: questions_lib.Questions | None = None,
  ):
    """Reads nothing yet.

    Args:
      settings: which pairs, and how many.
      data: the source's name, and what makes a document.
      model_init: whose tokenizer cuts passages.
      seed: of all random choices.
      dataset: makes the data whose passages are used.
      questions: generated ones; None for pairs that need no generator.
    """
    self._settings, self._data, self._seed = settings, data, seed
    self._model_init = model_init
    self._gold, self._questions = dataset, questions

  def steps(self) -> list[plan.Step]:
    """What has to be there before there are pairs."""
    kind, root = self._settings.pairs, self._settings.dir
    steps = [] if self._questions is None else self._questions.steps()
    return [*steps, plan.Step(
        'pairs', f'{kind} pairs of all passages in {root}', self.is_made,
        self._make, opens_rest=True,
    )]

  @functools.cached_property
  def dataset(self) -> dataset_lib.Dataset:
    """The pairs as data, over the passages of the gold data."""
    gold = self._gold()
    return dataset_lib.SyntheticDataset(
        gold,
        prepared_lib.Prepared(self._folder, gold.prepared.corpus_folder),
        self._settings.pairs,
    )

  def is_made(self) -> bool:
    """Whether the pairs are there."""
    if self._questions is not None and not self._questions.is_made():
      return False
    return folders.read_manifest(self._folder) is not None

  @functools.cached_property
  def _identity(self) -> dict[str, Any]:
    settings = self._settings
    base = self._gold().prepared.manifest
    own = self._questions.identity if self._questions is not None else {
        'per_passage': settings.per_passage,
        'seed': self._seed,
        'document': self._data.document,
        'tokenizer': self._tokenizer.sha256,
    }
    return {
        'format': [_FORMAT, prepared_lib.FORMAT],
        'corpus': base['corpus_fingerprint'], 'pairs': settings.pairs, **own,
    }

  @property
  def _folder(self) -> pathlib.Path:
    code = folders.sha256_json(self._identity)[:12]
    name = f'{self._gold().name}-{self._settings.pairs}-{code}'
    return pathlib.Path(self._settings.dir) / 'pairs' / name

  @functools.cached_property
  def _tokenizer(self) -> tokenizer_lib.Tokenizer:
    return model_lib.load_tokenizer(self._model_init)

  def _make(self) -> None:
    with folders.only_one(self._folder):
      if not self.is_made():  # Not made while waiting.
        self._write()

  def _write(self) -> None:
    manifest: dict[str, Any] = {'identity': self._identity}
    with folders.writing(self._folder, manifest,
                         format=prepared_lib.QUERIES) as scratch:
      if self._questions is not None:
        files = self._questions.files()
      else:
        files = [scratch / 'pairs.jsonl']
        self._write_pretext(files[0])
      if not any(path.stat().st_size for path in files):
        raise errors.UserError(self._nothing())
      synthetic_pairs.write(self._gold().prepared, files, scratch, manifest)
    counts = manifest['counts']
    logging.info(
        '%s: %d pairs, %d different queries, %d passages', self._folder,
        counts['judgements'][synthetic_pairs.SPLIT], counts['queries'],
        counts['passages'],
    )

  def _nothing(self) -> str:
    kind, source = self._settings.pairs, self._data.source
    pretext = pretexts.PRETEXTS.get(kind)
    needs = 'questions that are not empty' if pretext is None else pretext.needs
    other = ('; or, if passages of one document have one title, set '
             '--config.data.document=title'
             if pretext is not None and pretext.needs_documents else '')
    return (f'config.synthetic.pairs="{kind}": makes no pair of {source}; it '
            f'needs {needs}. Choose another, such as "crops"{other}')

  def _write_pretext(self, path: pathlib.Path) -> None:
    passages = self._gold().prepared.passages
    say = progress.Ticker('making pairs', len(passages))
    done = 0
    with open(path, 'w', encoding='utf-8') as f:
      for rows in self._documents():
        document = {row: passages[row] for row in rows}
        for pair in pretexts.make_pairs(
            self._settings.pairs, list(document.items()),
            self._tokenizer.offsets, self._seed,
            self._settings.per_passage,
        ):
          synthetic_pairs.write_pair(
              f, pair.query, document[pair.row].id,
              (pair.first, pair.end, int(pair.title)),
              document[pair.home].id if pair.home >= 0 else '',
          )
        done += len(rows)
        say(done)

  def _documents(self) -> Iterator[list[int]]:
    """Rows of each document; a passage of an unknown one stands alone."""
    documents = self._gold().documents
    order = np.argsort(documents, kind='stable')
    known = order[np.searchsorted(documents[order], 0):]
    for row in order[:len(order) - len(known)].tolist():
      yield [row]
    borders = np.flatnonzero(np.diff(documents[known])) + 1
    for rows in np.split(known, borders) if len(known) else ():
      yield rows.tolist()
