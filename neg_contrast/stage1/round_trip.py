"""Keeps the questions that a retriever finds the passage of."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import progress
from neg_contrast.artifacts import checksums, folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import synthetic_pairs
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import loading
from neg_contrast.retrieval import bm25_search, model_search
from neg_contrast.settings import config as config_lib
from neg_contrast.stage1 import question_shards


class RoundTrip:
  """The filter of `synthetic.round_trip_rank`, by BM25 or a checkpoint."""

  def __init__(
      self,
      settings: config_lib.SyntheticConfig,
      evaluation: config_lib.EvaluationConfig,
      dataset: Callable[[], dataset_lib.Dataset],
      search: model_search.ModelSearch,
  ):
    """Reads nothing yet.

    Args:
      settings: the rank, and the checkpoint if BM25 does not decide.
      evaluation: of BM25.
      dataset: makes the data whose passages are asked about.
      search: by a model, to the depth of the rank.
    """
    self._settings, self._evaluation = settings, evaluation
    self._dataset, self._search = dataset, search

  @property
  def by(self) -> str:
    """The retriever in words."""
    return self._settings.round_trip_checkpoint or 'BM25'

  def missing(self) -> str | None:
    """What the user has to provide first."""
    checkpoint = self._settings.round_trip_checkpoint
    return model_lib.missing(checkpoint) if checkpoint else None

  @functools.cached_property
  def identity(self) -> dict[str, Any]:
    """What decides which questions are kept."""
    settings, evaluation = self._settings, self._evaluation
    by: dict[str, Any] = {'k1': evaluation.bm25_k1, 'b': evaluation.bm25_b}
    if settings.round_trip_checkpoint:
      by = {**self._search.embeddings_identity(self._model),
            'index': self._search.index_identity()}
    return {'rank': settings.round_trip_rank, 'by': by}

  @functools.cached_property
  def _model(self) -> loading.Model:
    return self._search.load(self._settings.round_trip_checkpoint)

  def shards(self, written: question_shards.Shards) -> question_shards.Shards:
    """Where the kept questions of some shards go."""
    code = folders.sha256_json(self.identity)[:12]
    return question_shards.Shards(
        written.folder.with_name(f'{written.folder.name}-round-trip-{code}'),
        len(self._dataset().prepared.passages), self._settings.shard_passages,
    )

  def filter(
      self, written: question_shards.Shards, identity: dict[str, Any]
  ) -> None:
    """Makes the shards of kept questions that are missing.

    Args:
      written: all questions.
      identity: what these depend on.
    """
    kept, prepared = self.shards(written), self._dataset().prepared
    rank = self._settings.round_trip_rank
    searcher: Any = (
        self._search.retriever(self._model)
        if self._settings.round_trip_checkpoint else
        bm25_search.index_bm25(self._evaluation, self._dataset())
    )
    there = lambda: sum(map(kept.is_made, range(len(kept))))
    on_progress = progress.Ticker(
        'filtering shards of questions', len(kept), before=there()
    )

    def make(shard: int) -> None:
      path = written.file(shard)
      pairs = list(synthetic_pairs.read_pairs([path]))
      own = [prepared.passage_ids.row_of(pair['passage_id']) for pair in pairs]
      if None in own:
        name = pairs[own.index(None)]['passage_id']
        raise checksums.damaged(path, f'passage "{name}" is not in the corpus')
      found = searcher.search(
          [pair['query'] for pair in pairs], rank
      ).rows if pairs else np.zeros((0, rank), int)
      groups = prepared.passage_groups
      hit = ((found >= 0) & (
          groups[found] == groups[np.array(own, int)][:, None]
      )).any(axis=1)
      count = int(hit.sum())
      manifest = {'identity': {**identity, 'filter': self.identity},
                  'kept': count}
      with kept.writing(shard, manifest) as f:
        for pair, is_found in zip(pairs, hit, strict=True):
          if is_found:
            synthetic_pairs.write_pair(f, pair['query'], pair['passage_id'])
      logging.info('round trip: kept %d of %d questions of shard %d', count,
                   len(pairs), shard)
      on_progress(there())

    kept.make_missing(make)
