"""The pairs of stage 1: made of passages, and kept as data to train on."""

import abc
import dataclasses
import functools
import pathlib
from typing import Any

from absl import logging

from neg_contrast import errors
from neg_contrast.artifacts import artifact, folders, places
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import pair_files, pair_writer, synthetic_pairs
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import question_shards

_MADE = 2
"""Raised when other pairs are made of the same.

Up to revision 8c5490c a folder also held `pairs.jsonl`, which nothing reads
once the folder is whole; so neither this nor the format was raised for that.
"""
REMEDY = 'Choose another, such as "crops"'


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
  is_divided = True
  data: dataset_lib.Data
  config: config_lib.SyntheticConfig

  @abc.abstractmethod
  def _files(self) -> list[pair_files.File]:
    """Files of pairs, see `data/synthetic_pairs.py`."""

  @property
  def _needed(self) -> str:
    """What has to be there for a pair, and the remedy."""
    return f'questions that are not empty. {REMEDY}'

  @property
  def root(self) -> pathlib.Path:
    """Of the pairs of all corpora."""
    return places.path(self.config.dir) / 'pairs'

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

  def most(self, passages: int, questions: int) -> int:
    """How many pairs there will be at most, as far as is known before.

    Args:
      passages: of the corpus.
      questions: of the training split.
    """
    del questions
    return self.config.per_passage * passages

  def count(self) -> int | None:
    """How many pairs there are; None: they are not made."""
    made = folders.read_manifest(self.folder) if self.is_made() else None
    return None if made is None else (
        made['counts']['judgements'][synthetic_pairs.SPLIT])

  def prepare(self) -> None:
    """Reads all pairs, and writes their queries, in parts.

    Raises:
      UserError: there are none.
    """
    if not self._writer.prepare():
      raise errors.UserError(
          f'{errors.key("synthetic.pairs")}="{self.config.pairs}": makes no '
          f'pair of {self.data.config.source}; it needs {self._needed}'
      )

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Stores them as queries and judgements."""
    self._writer.write(scratch, manifest)
    counts = manifest['counts']
    logging.info(
        '%s: %d pairs, %d different queries, %d passages', self.folder,
        counts['judgements'][synthetic_pairs.SPLIT], counts['queries'],
        counts['passages'],
    )

  @property
  def _writer(self) -> pair_writer.PairWriter:
    return pair_writer.PairWriter(
        self.data.load().prepared, self._files(), self.parts
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
    return dataset_lib.contents_of(self.load(), role)


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

  def _files(self) -> list[pair_files.File]:
    shards = self.questions.shards
    return [functools.partial(shards.pairs_of, number)
            for number in range(len(shards))]
