"""Ranking the candidates of a retriever anew, by any model that scores pairs.

The retriever's ranking is evaluated first, as the system `candidates`; its
`run.trec` is what is ranked anew, as the system `reranked`.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.evaluation import (
  candidate_scores,
  evaluations,
  first_stage,
  metrics,
  rankings,
)
from neg_contrast.models import loading, reranker
from neg_contrast.retrieval import (
  embedder,
  encoding,
  hits,
  pair_scorer,
  search_settings,
  text_encoder,
)
from neg_contrast.retrieval import searched as searched_lib
from neg_contrast.settings import config as config_lib

CANDIDATES, RERANKED = 'candidates', 'reranked'  # Systems.
FOLDER = 'reranked'  # Of a workdir: scores of pairs.


class Reranking:
  """Two evaluations of a split: of the candidates, and ranked anew."""

  def __init__(
      self,
      data: config_lib.DataConfig,
      evaluation: config_lib.EvaluationConfig,
      encoding_settings: encoding.EncodingSettings,
      search: search_settings.SearchSettings,
      workdir: pathlib.Path,
      dataset: Callable[[], dataset_lib.Dataset],
      judgements: Callable[[], prepared_lib.Judgements],
      split: str,
      candidates: first_stage.Candidates,
      model: Callable[[], reranker.Reranker | loading.Model],
  ):
    """Reads nothing yet.

    Args:
      data: names the data set.
      evaluation: metrics and depth.
      encoding_settings: how the model encodes texts or pairs.
      search: how a dual encoder's vectors are scored.
      workdir: of the job.
      dataset: corpus and queries.
      judgements: of the split.
      split: its name.
      candidates: of it.
      model: that ranks them anew: a cross-encoder, or a dual encoder with any
        score function.
    """
    self._data, self._settings = data, evaluation
    self._encoding, self._search = encoding_settings, search
    self._workdir, self._dataset = workdir, dataset
    self._judgements, self._split = judgements, split
    self._candidates, self._model_of = candidates, model

  def steps(self) -> list[plan.Step]:
    """Evaluations of the candidates and of the new ranking."""
    data, workdir, split = self._data, self._workdir, self._split
    metrics.check_names(self._settings.metrics)
    given = evaluations.evaluation_step(
        CANDIDATES, data, workdir, lambda: self._plain, split,
        identity=lambda: self._candidates_identity,
        search=lambda _: self._candidates.search(self._plain),
        share=self._candidates.share,
    )
    return [
        dataclasses.replace(given, missing=self._candidates.missing),
        evaluations.evaluation_step(
            RERANKED, data, workdir, lambda: self._evaluation, split,
            identity=lambda: {
                'candidates': self._candidates_identity,
                'reranker': self._scores_identity,
            },
            search=lambda _: searched_lib.Searched(self._reranked),
            share=lambda: self._reranked,
        ),
    ]

  @functools.cached_property
  def _plain(self) -> rankings.Evaluation:
    return rankings.Evaluation(
        self._settings, self._dataset(), self._judgements()
    )

  @functools.cached_property
  def _evaluation(self) -> rankings.Evaluation:
    return dataclasses.replace(self._plain, candidates=lambda: self._given)

  @property
  def _candidates_identity(self) -> dict[str, Any]:
    return {
        **evaluations.data_identity(
            self._dataset(), self._settings, self._split
        ),
        **self._candidates.identity,
    }

  @functools.cached_property
  def _model(self) -> reranker.Reranker | loading.Model:
    return self._model_of()

  @functools.cached_property
  def _scores_identity(self) -> dict[str, Any]:
    return folders.as_json(embedder.vectors_identity(
        self._encoding, self._dataset(), self._model
    ))

  @functools.cached_property
  def _given(self) -> hits.Hits:
    """What the step before left."""
    folder = evaluations.folder_of(
        self._workdir, self._data, self._split, CANDIDATES
    )
    evaluations.read_manifest(folder)  # Whole, or an error.
    path = folder / 'run.trec'
    if not path.exists():
      raise errors.UserError(
          f'{path}: the candidates could not be written, as an id holds white '
          'space; rename it'
      )
    return self._plain.read(path)

  @functools.cached_property
  def _reranked(self) -> hits.Hits:
    query_rows, rows = self._evaluation.query_rows, self._given.rows
    if isinstance(self._model, reranker.Reranker):
      scores = candidate_scores.kept_scores(
          pair_scorer.PairScorer(self._model, self._encoding),
          self._dataset(), query_rows, rows, self._workdir / FOLDER,
          self._scores_identity, self._encoding.index.table_rows,
      )
    else:
      scores = candidate_scores.dual_scores(
          self._search, self._dataset(),
          text_encoder.TextEncoder(self._model, self._encoding), query_rows,
          rows,
      )
    return hits.best_of(rows, scores, self._dataset().prepared.tie_ranks,
                        rows.shape[1])
