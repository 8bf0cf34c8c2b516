"""Early stopping of a dual encoder: retrieval of the tune queries."""

import dataclasses
from collections.abc import Callable
from typing import Any

from neg_contrast import sharding
from neg_contrast.artifacts import artifact
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import rankings
from neg_contrast.models import loading
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import own_passages, search_settings, text_encoder
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.training import run_settings


def make_measure(
    config: run_settings.RunSettings,
    gold: dataset_lib.Dataset,
    model: loading.Model,
    stop_rows: artifact.Artifact | None,
) -> Callable[[Any], dict[str, float]]:
  """Parameters -> metrics on the tune split, over the stop corpus.

  Args:
    config: settings of the run.
    gold: the data with judgements that people made.
    model: what is trained.
    stop_rows: loads as the rows of the stop corpus, when that is searched
      first; None: it never is.
  """
  evaluation = rankings.Evaluation(
      config.evaluation, gold, gold.train_and_tune[1]
  )
  exact = exact_search(config)
  encoder = text_encoder.TextEncoder(model, config.encoding)
  names = evaluation.tuning_metrics()

  def measure(params):
    assert stop_rows is not None
    rows = stop_rows.load()
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


def exact_search(
    config: run_settings.RunSettings,
) -> search_settings.SearchSettings:
  """How a training searches with its model as it is: nothing is missed."""
  return search_settings.SearchSettings(
      dataclasses.replace(config.index, kind='exact'), config.mesh,
      config.evaluation.depth,
  )
