"""The ranking that a reranker gets: BM25's, a run's, or a retriever's."""

import functools
import pathlib
from collections.abc import Callable
from typing import Any

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import evaluations, rankings, runs
from neg_contrast.models import by_name as model_lib
from neg_contrast.retrieval import bm25_search, fused_vectors
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import searched as searched_lib
from neg_contrast.settings import config as config_lib

_RUN_SUFFIXES = ('.trec', '.run', '.txt', '.tsv', '.json', '.gz')


class Candidates:
  """What is ranked anew: BM25's, a run's, or those of a checkpoint."""

  def __init__(
      self,
      config: config_lib.Config,
      dataset: Callable[[], dataset_lib.Dataset],
      folder: pathlib.Path,
  ):
    """Reads nothing yet.

    Args:
      config: of the job.
      dataset: corpus and queries.
      folder: keeps the vectors of a retriever.
    """
    self._config, self._dataset, self._folder = config, dataset, folder
    negatives = config.negatives
    self._names: tuple[str, ...] = (config.candidates,)
    if not config.candidates:
      self._names = {
          'bm25': ('bm25',),
          'model': (negatives.checkpoint or config.checkpoint,),
          'run': negatives.runs,
      }[negatives.strategy]

  def missing(self) -> str | None:
    """What the user has to provide first."""
    if self._runs:
      lacks = map(runs.missing_run, self._runs)
      return next((lack for lack in lacks if lack), None)
    return None if self._is_bm25 else model_lib.missing(self._names[0])

  @functools.cached_property
  def identity(self) -> dict[str, Any]:
    """What they depend on, beside data and split."""
    config = self._config
    if self._is_bm25:
      return {'bm25': {'k1': config.evaluation.bm25_k1,
                       'b': config.evaluation.bm25_b}}
    if self._runs:
      return {'runs': list(map(folders.sha256_file, self._runs))}
    return {
        'embeddings': self._vectors.search_identity,
        'index': evaluations.index_identity(retriever_lib.index_settings(
            config, self._dataset().prepared
        )),
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
    rows, depth = evaluation.query_rows, self._config.evaluation.depth
    if self._is_bm25:
      return searched_lib.Searched(bm25_search.search_bm25(
          self._config.evaluation, self._dataset(), rows, depth
      ))
    if not self._runs:
      return searched_lib.search_dense(
          self._config, self._dataset(), self._vectors, self._folder, rows
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
  def _vectors(self) -> retriever_lib.Vectors:
    config, dataset, name = self._config, self._dataset(), self._names[0]
    if model_lib.is_ensemble(name):
      return fused_vectors.load_vectors(config, dataset, name, self._folder)
    model = model_lib.load_as_it_comes(name, config.seed)
    return embedder_lib.Embedder(
        config, dataset, embedder_lib.make_encoder(config, model), self._folder
    )
