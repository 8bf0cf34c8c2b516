"""Evaluations of models over one corpus, beside BM25."""

import functools
import pathlib
from collections.abc import Callable

from neg_contrast.artifacts import plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import evaluations, rankings
from neg_contrast.models import loading
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import encoding as encoding_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import search_settings, text_encoder
from neg_contrast.retrieval import searched as searched_lib
from neg_contrast.settings import config as config_lib


class ModelEvaluations:
  """Steps that evaluate the models of a job, each on any split."""

  def __init__(
      self,
      data: config_lib.DataConfig,
      settings: config_lib.EvaluationConfig,
      encoding: encoding_lib.EncodingSettings,
      search: search_settings.SearchSettings,
      workdir: pathlib.Path,
      dataset: Callable[[], dataset_lib.Dataset],
  ):
    """Reads nothing yet.

    Args:
      data: names the data set and its splits.
      settings: metrics and depth.
      encoding: how the models compute.
      search: how passages are searched.
      workdir: gets the evaluations, and keeps embeddings and indexes.
      dataset: makes corpus, queries and judgements.
    """
    self._data, self._settings, self._search = data, settings, search
    self._encoding, self._workdir, self._dataset = encoding, workdir, dataset

  def bm25_step(self, split: str) -> plan.Step:
    """Evaluates BM25."""
    return evaluations.bm25_step(
        self._data, self._settings, self._workdir, self._dataset,
        functools.partial(self._ranking, split), split,
    )

  def step(
      self, system: str, model: Callable[[], loading.Model], split: str
  ) -> plan.Step:
    """Evaluates a model.

    Args:
      system: its name in `metrics.json`.
      model: loads it; not called before the step is looked at.
      split: name of the judgements.
    """
    vectors = lambda: self._vectors_of(model())
    return evaluations.evaluation_step(
        system, self._data, self._workdir,
        functools.partial(self._ranking, split), split,
        identity=lambda: evaluations.dense_identity(
            self._dataset(), self._settings, split,
            vectors().search_identity, self._search,
        ),
        search=lambda rows: searched_lib.search_dense(
            self._search, self._dataset(), vectors(),
            self._workdir / retriever_lib.FOLDER, rows,
        ),
        share=lambda: vectors().passage_vecs,
    )

  @functools.cache  # noqa: B019 - it lives as long as its job.
  def _ranking(self, split: str) -> rankings.Evaluation:
    dataset = self._dataset()
    judgements = (
        dataset.splits.test if split == self._data.test_split
        else dataset.prepared.judgements(split)
    )
    return rankings.Evaluation(self._settings, dataset, judgements)

  def _vectors_of(self, model: loading.Model) -> embedder_lib.Embedder:
    return embedder_lib.Embedder(
        self._dataset(), text_encoder.TextEncoder(model, self._encoding),
        self._workdir / retriever_lib.FOLDER,
    )
