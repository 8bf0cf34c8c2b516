"""The ranking that a reranker gets: BM25's, a run's, or a retriever's."""

import functools
import pathlib
from collections.abc import Callable
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import rankings, runs
from neg_contrast.models import by_name as model_lib
from neg_contrast.retrieval import (
  bm25_search,
  embedder,
  encoding,
  fused_vectors,
  search_settings,
  text_encoder,
  vectors,
)
from neg_contrast.retrieval import searched as searched_lib
from neg_contrast.settings import config as config_lib

_RUN_SUFFIXES = ('.trec', '.run', '.txt', '.tsv', '.json', '.gz')


class Candidates:
  """What is ranked anew: BM25's, a run's, or those of a checkpoint."""

  def __init__(
      self,
      names: tuple[str, ...],
      evaluation: config_lib.EvaluationConfig,
      encoding_settings: encoding.EncodingSettings,
      search: search_settings.SearchSettings,
      seed: int,
      dataset: Callable[[], dataset_lib.Dataset],
      folder: pathlib.Path,
  ):
    """Reads nothing yet.

    Args:
      names: `bm25`, a checkpoint, or run files of different queries.
      evaluation: depth, and settings of BM25.
      encoding_settings: how a checkpoint encodes.
      search: how its vectors are searched.
      seed: of parameters that a checkpoint does not have.
      dataset: corpus and queries.
      folder: keeps the vectors of a retriever.
    """
    self._names, self._evaluation = names, evaluation
    self._encoding, self._search = encoding_settings, search
    self._seed, self._dataset, self._folder = seed, dataset, folder

  def missing(self) -> str | None:
    """What the user has to provide first."""
    if self._runs:
      lacks = map(runs.missing_run, self._runs)
      return next((lack for lack in lacks if lack), None)
    return None if self._is_bm25 else model_lib.missing(self._names[0])

  @functools.cached_property
  def identity(self) -> dict[str, Any]:
    """What they depend on, beside data and split."""
    if self._is_bm25:
      return {'bm25': {'k1': self._evaluation.bm25_k1,
                       'b': self._evaluation.bm25_b}}
    if self._runs:
      return {'runs': list(map(folders.sha256_file, self._runs))}
    return {
        'embeddings': self._vectors.search_identity,
        'index': self._search.index_identity(self._dataset().prepared),
    }

  def share(self) -> None:
    """The part that several processes divide."""
    if not (self._runs or self._is_bm25):
      _ = self._vectors.passage_vecs

  def search(self, evaluation: rankings.Evaluation) -> searched_lib.Searched:
    """The candidates of a split.

    Raises:
      UserError: a run does not fit the corpus and the split.
    """
    rows, depth = evaluation.query_rows, self._evaluation.depth
    if self._is_bm25:
      return searched_lib.Searched(bm25_search.search_bm25(
          self._evaluation, self._dataset(), rows, depth
      ))
    if not self._runs:
      return searched_lib.search_dense(
          self._search, self._dataset(), self._vectors, self._folder, rows
      )
    try:
      return searched_lib.Searched(
          evaluation.hits_of(runs.read_runs(self._runs))
      )
    except errors.UserError as e:
      raise errors.UserError(f'{", ".join(self._names)}: {e}') from None

  def release(self) -> None:
    """Lets go of a retriever's weights; they are read again when asked for."""
    vars(self).pop('_vectors', None)

  @property
  def _is_bm25(self) -> bool:
    return self._names == ('bm25',)

  @property
  def _runs(self) -> list[pathlib.Path]:
    paths = list(map(pathlib.Path, self._names))
    are_runs = not self._is_bm25 and (
        len(paths) > 1 or paths[0].is_file()
        or (paths[0].suffix in _RUN_SUFFIXES and not paths[0].is_dir())
    )
    return paths if are_runs else []

  @functools.cached_property
  def _vectors(self) -> vectors.Vectors:
    dataset, name = self._dataset(), self._names[0]
    if model_lib.is_ensemble(name):
      return fused_vectors.load_vectors(
          self._encoding, dataset, name, self._folder, self._seed
      )
    model = model_lib.load_as_it_comes(name, self._seed)
    return embedder.Embedder(
        dataset, text_encoder.TextEncoder(model, self._encoding), self._folder
    )
