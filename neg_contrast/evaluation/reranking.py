"""Ranking the candidates of a retriever anew, by any model that scores pairs.

The retriever's ranking is evaluated first, as the system `candidates`; its
`run.trec` is what is ranked anew, as the system `reranked`.
"""

import dataclasses
import functools
import hashlib
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from neg_contrast import errors, hosts, progress
from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import tokenized
from neg_contrast.evaluation import (
  evaluations,
  linking,
  metrics,
  rankings,
  runs,
  trec,
)
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import loading, reranker
from neg_contrast.retrieval import (
  bm25_search,
  embeddings,
  encoding,
  fused_vectors,
  hits,
  pair_scorer,
  search_settings,
  text_encoder,
  vector_table,
)
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import searched as searched_lib
from neg_contrast.retrieval import vectors as vectors_lib
from neg_contrast.settings import config as config_lib

CANDIDATES, RERANKED = 'candidates', 'reranked'  # Systems.
FOLDER = 'reranked'  # Of a workdir: scores of pairs.
_RUN_SUFFIXES = ('.trec', '.run', '.txt', '.tsv', '.json', '.gz')
_VECTOR_BYTES = 2**29  # Of passages, in memory.

# `[queries, depth]` passage rows of queries -> their scores, -inf for padding.
Score = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Evaluation(rankings.Evaluation):
  """An evaluation of a ranking that ranks candidates anew.

  Attributes:
    candidates: makes the ranking of these, with rows as `query_rows`.
  """

  candidates: Callable[[], hits.Hits]

  def score(
      self,
      run: trec.Run,
      found: hits.Hits,
      names: tuple[str, ...] | None = None,
  ) -> metrics.Scores:
    """As of any ranking, with the accuracies of `linking.accuracies`."""
    scores = super().score(run, found, names)
    if not self.qrels:
      return scores
    linked = linking.accuracies(
        self.qrels, self.run_of(self.candidates()), run, self.world_names,
        self.config.depth,
    )
    return metrics.Scores(
        {**scores.per_query, **linked.per_query},
        {**scores.mean, **linked.mean},
        {world: {**scores.per_world.get(world, {}), **values}
         for world, values in linked.per_world.items()},
    )


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
    settings = _search_settings(config)
    return {
        'embeddings': self._vectors.search_identity,
        'index': settings.index_identity(self._dataset().prepared),
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
          _search_settings(self._config), self._dataset(), self._vectors,
          self._folder, rows,
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
  def _vectors(self) -> vectors_lib.Vectors:
    config, dataset, name = self._config, self._dataset(), self._names[0]
    if model_lib.is_ensemble(name):
      return fused_vectors.load_vectors(
          _encoding_settings(config), dataset, name, self._folder, config.seed
      )
    model = model_lib.load_as_it_comes(name, config.seed)
    return embedder_lib.Embedder(
        dataset, text_encoder.TextEncoder(model, _encoding_settings(config)),
        self._folder,
    )


class Reranking:
  """Two evaluations of a split: of the candidates, and ranked anew."""

  def __init__(
      self,
      config: config_lib.Config,
      workdir: pathlib.Path,
      dataset: Callable[[], dataset_lib.Dataset],
      judgements: Callable[[], prepared_lib.Judgements],
      split: str,
      candidates: Candidates,
      model: Callable[[], reranker.Reranker | loading.Model],
  ):
    """Reads nothing yet.

    Args:
      config: of the job.
      workdir: of the job.
      dataset: corpus and queries.
      judgements: of the split.
      split: its name.
      candidates: of it.
      model: that ranks them anew: a cross-encoder, or a dual encoder with any
        score function.
    """
    self._config, self._workdir, self._dataset = config, workdir, dataset
    self._judgements, self._split = judgements, split
    self._candidates, self._model_of = candidates, model

  def steps(self) -> list[plan.Step]:
    """Evaluations of the candidates and of the new ranking."""
    config, workdir, split = self._config, self._workdir, self._split
    metrics.check_names(config.evaluation.metrics)
    given = evaluations.evaluation_step(
        CANDIDATES, config.data, workdir, lambda: self._plain, split,
        identity=lambda: self._candidates_identity,
        search=lambda _: self._candidates.search(self._plain),
        share=self._candidates.share,
    )
    return [
        dataclasses.replace(given, missing=self._candidates.missing),
        evaluations.evaluation_step(
            RERANKED, config.data, workdir, lambda: self._evaluation, split,
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
        self._config.evaluation, self._dataset(), self._judgements()
    )

  @functools.cached_property
  def _evaluation(self) -> Evaluation:
    return Evaluation(
        **{field.name: getattr(self._plain, field.name)
           for field in dataclasses.fields(self._plain)},
        candidates=lambda: self._given,
    )

  @property
  def _candidates_identity(self) -> dict[str, Any]:
    return {
        **evaluations.data_identity(self._dataset(), self._config, self._split),
        **self._candidates.identity,
    }

  @functools.cached_property
  def _model(self) -> reranker.Reranker | loading.Model:
    return self._model_of()

  @functools.cached_property
  def _scores_identity(self) -> dict[str, Any]:
    return folders.as_json(embedder_lib.vectors_identity(
        _encoding_settings(self._config), self._dataset(), self._model
    ))

  @functools.cached_property
  def _given(self) -> hits.Hits:
    """What the step before left."""
    path = evaluations.folder_of(
        self._workdir, self._config.data, self._split, CANDIDATES
    ) / 'run.trec'
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
      scores = self._cross_scores(self._model, query_rows, rows)
    else:
      scores = dual_scores(
          self._config, self._dataset(),
          text_encoder.TextEncoder(
              self._model, _encoding_settings(self._config)
          ), query_rows, rows,
      )
    return ranked(self._dataset(), rows, scores)

  def _cross_scores(self, model, query_rows, rows) -> np.ndarray:
    """Scores, kept on disk shard by shard, which processes divide."""
    pairs, is_there = pairs_of(query_rows, rows)
    scorer, dataset = make_scorer(self._config, model), self._dataset()
    texts = texts_of(dataset, model)
    identity = {
        **self._scores_identity,
        'queries': dataset.prepared.manifest['queries_fingerprint'],
        'pairs': hashlib.sha256(pairs.tobytes()).hexdigest(),
    }
    block = scorer.block_rows(*texts, pairs)
    wanted = -(-self._config.index.table_rows // block) * block
    table = embeddings.make_table(
        self._workdir / FOLDER / folders.sha256_json(identity)[:12],
        identity, vector_table.Layout(len(pairs), 1, shard_rows=wanted),
        lambda span, out, on_progress: scorer.score(
            *texts, pairs, span=span, out=out, on_progress=on_progress
        ),
        lambda before: progress.Ticker('reranking', len(pairs), before=before),
    )
    scores = np.full(rows.shape, -np.inf, np.float32)
    scores[is_there] = table[:][:, 0]
    return scores


def make_scorer(
    config: config_lib.Config, model: reranker.Reranker
) -> pair_scorer.PairScorer:
  """The scorer of a cross-encoder, on this process's devices."""
  return pair_scorer.PairScorer(model, _encoding_settings(config))


def _encoding_settings(
    config: config_lib.Config
) -> encoding.EncodingSettings:
  return encoding.EncodingSettings(
      config.model, config.index, config.mesh, config.data.row_length
  )


def _search_settings(
    config: config_lib.Config
) -> search_settings.SearchSettings:
  return search_settings.SearchSettings(
      config.index, config.mesh, config.evaluation.depth
  )


def texts_of(
    dataset: dataset_lib.Dataset, model: reranker.Reranker
) -> tuple[tokenized.TokenizedTexts, tokenized.TokenizedTexts]:
  """Queries and passages as a cross-encoder reads them."""
  return dataset.tokenize(model, 'query'), dataset.tokenize(model, 'passage')


def cross_scores(
    scorer: pair_scorer.PairScorer,
    dataset: dataset_lib.Dataset,
    query_rows: np.ndarray,
    rows: np.ndarray,
) -> np.ndarray:
  """Scores by a cross-encoder, in memory; processes divide them.

  Args:
    scorer: the model at work.
    dataset: corpus and queries.
    query_rows: `[queries] int32`.
    rows: `[queries, depth] int32` passages; -1 pads.

  Returns:
    `[queries, depth] float32`, -inf for padding.
  """
  pairs, is_there = pairs_of(query_rows, rows)
  texts = texts_of(dataset, scorer.model)
  block = scorer.block_rows(*texts, pairs)
  blocks = hosts.share_of(-(-len(pairs) // block))
  span = range(blocks.start * block, min(blocks.stop * block, len(pairs)))
  scores = np.full(rows.shape, -np.inf, np.float32)
  scores[is_there] = hosts.gather(scorer.score(
      *texts, pairs, span=span,
      on_progress=progress.Ticker('reranking', len(pairs)),
  ))[:, 0]
  return scores


def dual_scores(
    config: config_lib.Config,
    dataset: dataset_lib.Dataset,
    encoder: text_encoder.TextEncoder,
    query_rows: np.ndarray,
    rows: np.ndarray,
) -> np.ndarray:
  """Scores by a dual encoder; other arguments as of `cross_scores`.

  Only candidates are encoded, those of some queries at a time.
  """
  query_vecs = embedder_lib.Embedder(dataset, encoder).query_vecs(query_rows)
  scores = np.full(rows.shape, -np.inf, np.float32)
  some = max(1, _VECTOR_BYTES // (4 * encoder.dim * rows.shape[1]))
  for begin in range(0, len(rows), some):
    lines = slice(begin, begin + some)
    wanted = np.unique(rows[lines])
    wanted = wanted[wanted >= 0]
    if not len(wanted):
      continue
    retriever = retriever_lib.Retriever(
        _search_settings(config), dataset,
        embedder_lib.Embedder(dataset, encoder, rows=wanted),
        rows=wanted,
    )
    places = np.where(rows[lines] >= 0, np.searchsorted(wanted, rows[lines]),
                      -1)
    scores[lines] = retriever.score(query_vecs[lines], places)
  return scores


def pairs_of(
    query_rows: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """`[pairs, 2] int32` (query, passage), and where they are in `rows`."""
  is_there = rows >= 0
  lines, _ = np.nonzero(is_there)
  return np.stack([query_rows[lines], rows[is_there]], axis=1), is_there


def ranked(
    dataset: dataset_lib.Dataset, rows: np.ndarray, scores: np.ndarray
) -> hits.Hits:
  """Candidates in the order of their scores.

  Args:
    dataset: the corpus, whose ids break ties.
    rows: `[queries, depth] int32` passages; -1 pads.
    scores: `[queries, depth] float32`, -inf for padding.
  """
  ranks = dataset.prepared.tie_ranks[np.maximum(rows, 0)]
  best = hits.top_k(scores, ranks, rows.shape[1])
  at = np.take_along_axis(rows, np.maximum(best.rows, 0), axis=1)
  return hits.Hits(np.where(best.rows >= 0, at, np.int32(-1)), best.scores)
