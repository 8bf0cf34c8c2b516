"""Keeps the questions that a retriever finds the passage of."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import progress
from neg_contrast.artifacts import artifact, checksums, folders
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import synthetic_pairs
from neg_contrast.retrieval import bm25_search, corpus_index
from neg_contrast.stage1 import question_shards
from neg_contrast.stage1 import questions as questions_lib


@dataclasses.dataclass(frozen=True)
class RoundTrip(question_shards.ShardedQuestions):
  """Questions whose passage is among the first that a search finds.

  Attributes:
    questions: all of them.
    rank: of the passage, at most.
    index: of the corpus, by which it is searched.
    by: what searches, in words.
  """

  kind = 'round trip'
  name = 'round trip'
  questions: questions_lib.Questions
  rank: int
  index: bm25_search.Bm25 | corpus_index.CorpusIndex
  by: str = 'BM25'

  def describe(self) -> str:
    """Which are kept."""
    return (f'questions that {self.by} finds the passage of in the top '
            f'{self.rank}')

  def needs(self) -> dict[str, artifact.Artifact]:
    """The questions, and what finds passages."""
    return {'questions': self.questions, 'index': self.index}

  def settings(self) -> dict[str, Any]:
    """The rank."""
    return {'rank': self.rank}

  @property
  def shards(self) -> question_shards.Shards:
    """Where they lie; what they are made from is made."""
    code = folders.sha256_json(self.identity)[:12]
    return self.questions.shards.beside(f'round-trip-{code}')

  @property
  def written(self) -> questions_lib.Questions:
    """All questions."""
    return self.questions

  def counts(self) -> dict[str, float]:
    """Those of the questions, and how many are left: `round_trip`."""
    shards = self.shards
    return {**self.questions.counts(), 'round_trip': sum(
        shards.manifest(number)['kept'] for number in range(len(shards))
    )}

  def build(self) -> None:
    """Makes the shards of kept questions that are missing."""
    written, kept, identity = self.questions.shards, self.shards, self.identity
    prepared = self.questions.data.load().prepared
    done = len(kept.made())  # Counted here from now on, not looked up.
    on_progress = progress.Ticker(
        'filtering shards of questions', len(kept), before=done
    )

    def make(shard: int) -> None:
      nonlocal done
      pairs, own = _read(written.file(shard), prepared)
      hit = self._is_found(pairs, prepared.passage_groups, own)
      count = int(hit.sum())
      with kept.writing(shard, {'identity': identity, 'kept': count}) as f:
        for pair, is_found in zip(pairs, hit, strict=True):
          if is_found:
            synthetic_pairs.write_pair(f, pair['query'], pair['passage_id'])
      logging.info('round trip: kept %d of %d questions of shard %d', count,
                   len(pairs), shard)
      done += 1
      on_progress(done)

    kept.make_missing(make)

  def _is_found(
      self, pairs: Sequence[dict[str, Any]], groups: np.ndarray, own: np.ndarray
  ) -> np.ndarray:
    """`[pairs] bool`; passages of one group are the same."""
    found = self.index.load().search(
        [pair['query'] for pair in pairs], self.rank
    ).rows if pairs else np.zeros((0, self.rank), int)
    return ((found >= 0) & (groups[found] == groups[own][:, None])).any(axis=1)


def _read(
    path: pathlib.Path, prepared: prepared_lib.Prepared
) -> tuple[list[dict[str, Any]], np.ndarray]:
  """The pairs of a shard, and `[pairs] int`: rows of their passages.

  Raises:
    UserError: a passage is not in the corpus.
  """
  pairs = list(synthetic_pairs.read_pairs([path]))
  own = [prepared.passage_ids.row_of(pair['passage_id']) for pair in pairs]
  if None in own:
    name = pairs[own.index(None)]['passage_id']
    raise checksums.damaged(path, f'passage "{name}" is not in the corpus')
  return pairs, np.array(own, int)
