"""Pairs of given questions and what a teacher finds with them: SPAR Λ."""

import dataclasses
import functools
import hashlib
import pathlib
from typing import Any

import numpy as np

from neg_contrast import progress
from neg_contrast.artifacts import artifact, kept_parts
from neg_contrast.data import pair_files, synthetic_pairs
from neg_contrast.retrieval import bm25_search
from neg_contrast.stage1 import pair_folder

_FILE = 'pairs.jsonl'


@dataclasses.dataclass(frozen=True)
class QuestionPairs(pair_folder.Pairs):
  """Questions of a split, each with some of BM25's best passages.

  Their judgements are not read: the student learns the teacher. A question is
  searched in its own world.

  Attributes:
    seed: of the choice among passages.
    index: BM25.
  """

  seed: int
  index: bm25_search.Bm25

  def describe(self) -> str:
    """Which, and where."""
    return (f'{self.config.pairs} pairs of the questions of '
            f'{self.data.config.train_split} in {self.config.dir}')

  def needs(self) -> dict[str, artifact.Artifact]:
    """Passages, questions, and the teacher."""
    return {**super().needs(), 'questions': self.data, 'index': self.index}

  def settings(self) -> dict[str, Any]:
    """Which questions, and what is drawn for them."""
    data = self.data.config
    return {
        **super().settings(),
        'per_passage': self.config.per_passage,
        'seed': self.seed,
        'split': data.train_split,
        'tune': [data.tune_split, data.tune_fraction, data.document],
        'depth': self.config.teacher_depth,
    }

  def most(self, passages: int, questions: int) -> int:
    """As many as are drawn for each question."""
    del passages
    return questions * min(self.config.per_passage, self.config.teacher_depth)

  @property
  def _needed(self) -> str:
    return ('questions of data.train_split with a word of the corpus. '
            f'{pair_folder.REMEDY}')

  def prepare(self) -> None:
    """Searches first; all processes divide that, and then the questions."""
    rows, prepared = self._rows(), self.data.load().prepared
    blocks = kept_parts.divide(len(rows), bm25_search.QUERIES_AT_ONCE)
    found = self.index.load().search_rows(rows, self.config.teacher_depth).rows
    say = progress.Ticker('making pairs of questions', len(rows))

    def fill(
        part: int, scratch: pathlib.Path, manifest: dict[str, Any]
    ) -> None:
      del manifest
      some = blocks[part]
      with open(scratch / _FILE, 'w', encoding='utf-8') as f:
        for row, its_rows in zip(
            rows[some].tolist(), found[some], strict=True
        ):
          query = prepared.queries[row]
          rng = _generator(self.seed, query.id)
          drawn = rng.permutation(its_rows[its_rows >= 0])
          for passage in drawn[: self.config.per_passage].tolist():
            synthetic_pairs.write_pair(
                f, query.text, prepared.passages[passage].id
            )
      say(blocks[part].stop)

    self.parts('questions', len(blocks)).make(fill)
    super().prepare()

  def _files(self) -> list[pair_files.File]:
    blocks = kept_parts.divide(
        len(self._rows()), bm25_search.QUERIES_AT_ONCE
    )
    parts = self.parts('questions', len(blocks))
    return [functools.partial(parts.file, number, _FILE)
            for number in range(len(blocks))]

  def _rows(self) -> np.ndarray:
    """`[questions] int32` of the split."""
    judged = self.data.load().train_and_tune[0]
    return np.unique(judged.query_rows).astype(np.int32)


def _generator(seed: int, query_id: str) -> np.random.Generator:
  key = hashlib.blake2b(f'{seed}\0{query_id}'.encode(), digest_size=16).digest()
  return np.random.Generator(np.random.Philox(key=np.frombuffer(key, '<u8')))
