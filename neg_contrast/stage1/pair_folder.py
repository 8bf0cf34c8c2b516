"""The pairs of stage 1: made of passages, and kept as data to train on."""

import abc
import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import errors, progress
from neg_contrast.artifacts import artifact
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import synthetic_pairs
from neg_contrast.models import given
from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import pretexts, question_shards

_MADE = 2  # Raised when other pairs are made of the same.
_REMEDY = 'Choose another, such as "crops"'


@dataclasses.dataclass(frozen=True)
class Pairs(artifact.Cached):
  """Pairs as data, over passages of the gold data; load as `SyntheticDataset`.

  Attributes:
    data: the gold data.
    config: which pairs, how many, and where they go.
  """

  kind = prepared_lib.QUERIES.kind
  format = prepared_lib.QUERIES.number
  name = 'pairs'
  has_roles = True
  data: dataset_lib.Data
  config: config_lib.SyntheticConfig

  @abc.abstractmethod
  def _files(self, scratch: pathlib.Path) -> list[pathlib.Path]:
    """Files of pairs, see `data/synthetic_pairs.py`; those of `scratch` stay.
    """

  @property
  def _needed(self) -> str:
    """What has to be there for a pair, and the remedy."""
    return f'questions that are not empty. {_REMEDY}'

  @property
  def root(self) -> pathlib.Path:
    """Of the pairs of all corpora."""
    return pathlib.Path(self.config.dir) / 'pairs'

  @property
  def label(self) -> str:
    """Data and pairs."""
    return f'{self.data.load().name}-{self.config.pairs}'

  def describe(self) -> str:
    """Which, and where."""
    return f'{self.config.pairs} pairs of all passages in {self.config.dir}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """The passages."""
    return {'corpus': self.data}

  def settings(self) -> dict[str, Any]:
    """Which pairs."""
    return {'pairs': self.config.pairs, 'made': _MADE}

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Makes them, and stores them as queries and judgements.

    Raises:
      UserError: there are none.
    """
    files = self._files(scratch)
    if not any(path.stat().st_size for path in files):
      raise errors.UserError(
          f'{errors.key("synthetic.pairs")}="{self.config.pairs}": makes no '
          f'pair of {self.data.config.source}; it needs {self._needed}'
      )
    synthetic_pairs.write(self.data.load().prepared, files, scratch, manifest)
    counts = manifest['counts']
    logging.info(
        '%s: %d pairs, %d different queries, %d passages', self.folder,
        counts['judgements'][synthetic_pairs.SPLIT], counts['queries'],
        counts['passages'],
    )

  def read(self) -> dataset_lib.SyntheticDataset:
    """The pairs as data."""
    gold = self.data.load()
    return dataset_lib.SyntheticDataset(
        gold, prepared_lib.Prepared(self.folder, gold.prepared.corpus_folder),
        self.config.pairs,
    )

  def _find_contents(self, role: str) -> dict[str, str] | None:
    """As those of the gold data, whose place they take."""
    if not self.is_made():
      return None
    return dataset_lib.contents_of(self.load().prepared, role)


@dataclasses.dataclass(frozen=True)
class GeneratedPairs(Pairs):
  """Pairs of generated questions and their passages.

  Attributes:
    questions: that are used, of all passages.
  """

  questions: question_shards.ShardedQuestions

  def needs(self) -> dict[str, artifact.Artifact]:
    """Passages and questions."""
    return {**super().needs(), 'questions': self.questions}

  def _files(self, scratch: pathlib.Path) -> list[pathlib.Path]:
    del scratch
    return self.questions.files()


@dataclasses.dataclass(frozen=True)
class PretextPairs(Pairs):
  """Pairs of passages alone.

  Attributes:
    seed: of all random choices.
    tokenizer: cuts passages.
  """

  seed: int
  tokenizer: given.Tokenizer

  def needs(self) -> dict[str, artifact.Artifact]:
    """Passages and tokenizer."""
    return {**super().needs(), 'tokenizer': self.tokenizer}

  def settings(self) -> dict[str, Any]:
    """Which pairs, how many, of what documents."""
    return {
        **super().settings(),
        'per_passage': self.config.per_passage,
        'seed': self.seed,
        'document': self.data.config.document,
    }

  @property
  def _needed(self) -> str:
    pretext = pretexts.PRETEXTS[self.config.pairs]
    other = ('; or, if passages of one document have one title, set '
             f'--{errors.key("data.document")}=title'
             if pretext.needs_documents else '')
    return f'{pretext.needs}. {_REMEDY}{other}'

  def _files(self, scratch: pathlib.Path) -> list[pathlib.Path]:
    path, dataset = scratch / 'pairs.jsonl', self.data.load()
    passages, offsets = dataset.prepared.passages, self.tokenizer.load().offsets
    say = progress.Ticker('making pairs', len(passages))
    done = 0
    with open(path, 'w', encoding='utf-8') as f:
      for rows in _documents(dataset):
        document = {row: passages[row] for row in rows}
        for pair in pretexts.make_pairs(
            self.config.pairs, list(document.items()), offsets, self.seed,
            self.config.per_passage,
        ):
          synthetic_pairs.write_pair(
              f, pair.query, document[pair.row].id,
              (pair.first, pair.end, int(pair.title)),
              document[pair.home].id if pair.home >= 0 else '',
          )
        done += len(rows)
        say(done)
    return [path]


def _documents(dataset: dataset_lib.Dataset) -> Iterator[list[int]]:
  """Rows of each document; a passage of an unknown one stands alone."""
  documents = dataset.documents
  order = np.argsort(documents, kind='stable')
  known = order[np.searchsorted(documents[order], 0):]
  for row in order[:len(order) - len(known)].tolist():
    yield [row]
  borders = np.flatnonzero(np.diff(documents[known])) + 1
  for rows in np.split(known, borders) if len(known) else ():
    yield rows.tolist()
