"""Declares the hybrid of a training: BM25 and the trained model together."""

import dataclasses
import pathlib

from neg_contrast.evaluation import evaluations, judged
from neg_contrast.jobs.common import declared_rankings, settings_of_rooms
from neg_contrast.retrieval import bm25_search, corpus_vectors
from neg_contrast.settings import config as config_lib


def hybrid(
    config: config_lib.Config,
    test: judged.Judged,
    vectors: corpus_vectors.Embeddings,
    workdir: pathlib.Path,
) -> evaluations.Evaluation:
  """BM25 and a single model together, by weights of the tune split."""
  name = 'trained'
  (evaluation,) = declared_rankings.Ensemble(
      dataclasses.replace(
          config.ensemble, members=(name,), runs=(), weights=(), hybrid=True
      ),
      ((name, vectors),), bm25_search.bm25_of(config.evaluation, test.data),
      judged.TuneJudged(test.data, config.evaluation, is_apart=True),
      dataclasses.replace(test, is_apart=True),
      settings_of_rooms.search(config), workdir,
  ).evaluations(['hybrid'])
  return evaluation
