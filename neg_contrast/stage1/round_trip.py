"""Keeps the questions that a retriever finds the passage of."""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import hosts, progress
from neg_contrast.artifacts import artifact, checksums, folders
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import synthetic_pairs
from neg_contrast.retrieval import bm25_search, corpus_index
from neg_contrast.stage1 import question_shards
from neg_contrast.stage1 import questions as questions_lib

_QUESTIONS_AT_ONCE = 65536  # Of a search that reads the whole corpus.


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
    index = self.index
    if isinstance(index, corpus_index.CorpusIndex) and index.is_on_mesh:
      self._make_together(index)
      return
    written, kept = self.questions.shards, self.shards
    prepared = self.questions.data.load().prepared

    def make(shard: int) -> None:
      pairs, own = _read(written.pairs_of(shard), prepared)
      found = index.load().search(
          [pair['query'] for pair in pairs], self.rank
      ).rows if pairs else np.zeros((0, self.rank), int)
      self._write(shard, pairs, own, found)
      say(shard + 1)

    say = progress.Ticker('filtering shards of questions', len(kept))
    kept.make_missing(make)

  def _make_together(self, index: corpus_index.CorpusIndex) -> None:
    """The same, where a search reads the corpus once: for many shards."""
    written, kept, config = (
        self.questions.shards, self.shards, self.questions.config
    )
    prepared, retriever = self.questions.data.load().prepared, index.load()

    def encode(pairs: Sequence[dict[str, Any]]) -> np.ndarray:
      texts = [pair['query'] for pair in pairs] or ['']
      encoder = retriever.vectors.encoder
      return encoder.encode_queries(texts)[: len(pairs)]

    at_once = max(1, _QUESTIONS_AT_ONCE // (
        config.per_passage * config.shard_passages
    ))
    say = progress.Ticker('filtering shards of questions', len(kept))
    for first in range(0, len(kept), at_once):
      group = range(first, min(first + at_once, len(kept)))
      made = list(map(kept.is_made, group))
      if hosts.on_first(functools.partial(all, made)):
        continue
      pairs, own = zip(*(
          _read(written.pairs_of(shard), prepared) for shard in group
      ), strict=True)
      query_vecs = [encode(pairs[number])
                    for number in hosts.share_of(len(group))]
      found = retriever.search_vecs(
          hosts.gather(np.concatenate(query_vecs or [encode([])])), self.rank
      ).rows

      def write(group=group, pairs=pairs, own=own, found=found) -> None:
        ends = np.cumsum(list(map(len, pairs)))
        for shard, *values in zip(
            group, pairs, own, np.split(found, ends[:-1]), strict=True
        ):
          if not self.shards.is_made(shard):  # Another program may read it.
            self._write(shard, *values)

      hosts.on_first(write)
      say(group.stop)

  def _write(
      self, shard: int, pairs: Sequence[dict[str, Any]], own: np.ndarray,
      found: np.ndarray,
  ) -> None:
    """Keeps the pairs whose passage was found; one of its group is the same.

    Args:
      shard: number of it.
      pairs: all that were written.
      own: `[pairs] int`, rows of their passages.
      found: `[pairs, rank] int`, rows of what the search found.
    """
    groups = self.questions.data.load().prepared.passage_groups
    is_found = (
        (found >= 0) & (groups[found] == groups[own][:, None])
    ).any(axis=1)
    count = int(is_found.sum())
    with self.shards.writing(
        shard, {'identity': self.identity, 'kept': count}
    ) as f:
      for pair, is_kept in zip(pairs, is_found, strict=True):
        if is_kept:
          synthetic_pairs.write_pair(f, pair['query'], pair['passage_id'])
    logging.info('round trip: kept %d of %d questions of shard %d', count,
                 len(pairs), shard)


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
