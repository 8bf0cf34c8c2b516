"""Early stopping of a dual encoder: retrieval of the tune queries."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from neg_contrast import sharding
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import rankings
from neg_contrast.models import loading
from neg_contrast.retrieval import (
  bm25_search,
  own_passages,
  search_settings,
  text_encoder,
)
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.training import run_settings

_BM25_DEPTH = 100


def make_measure(
    config: run_settings.RunSettings,
    gold: dataset_lib.Dataset,
    model: loading.Model,
) -> Callable[[Any], dict[str, float]]:
  """Parameters -> metrics on the tune split, over the stop corpus.

  Args:
    config: settings of the run.
    gold: the data with judgements that people made.
    model: what is trained.
  """
  evaluation = rankings.Evaluation(
      config.evaluation, gold, gold.train_and_tune[1]
  )
  rows = stop_corpus(config, gold, evaluation)
  exact = search_settings.SearchSettings(
      dataclasses.replace(config.index, kind='exact'), config.mesh,
      config.evaluation.depth,
  )
  encoder = text_encoder.TextEncoder(model, config.encoding)
  names = evaluation.tuning_metrics()

  def measure(params):
    embedder = embedder_lib.Embedder(
        gold, encoder.with_params(sharding.local(params['encoder'])),
        rows=rows,
    )
    found = own_passages.search_rows(
        retriever_lib.Retriever(exact, gold, embedder, rows=rows), gold,
        evaluation.query_rows, config.evaluation.depth,
    )
    return evaluation.score(evaluation.run_of(found), found, names).mean

  return measure


def stop_corpus(
    config: run_settings.RunSettings,
    dataset: dataset_lib.Dataset,
    evaluation: rankings.Evaluation,
) -> np.ndarray:
  """Passages that early stopping searches, as ascending rows.

  The positives of the tune queries, the BM25 top 100 of each, and
  `evaluation.stop_corpus_passages` random passages; everything, if the corpus
  has no more than that. The corpus is that of the tune queries' worlds.
  """
  among = dataset.prepared.rows_of_worlds(evaluation.query_rows)
  if among is None:
    among = np.arange(len(dataset.prepared.passages), dtype=np.int32)
  count, wanted = len(among), config.evaluation.stop_corpus_passages
  if count <= wanted:
    return among
  judged = evaluation.judgements.passage_rows
  found = bm25_search.search_bm25(
      config.evaluation, dataset, evaluation.query_rows,
      _BM25_DEPTH,
  ).rows
  rng = np.random.default_rng(config.seed)
  drawn = among[rng.choice(count, wanted, replace=False)]
  rows = np.unique(np.concatenate([judged, found[found >= 0], drawn]))
  return rows.astype(np.int32)
