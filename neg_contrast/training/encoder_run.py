"""The training of a dual encoder: of the job itself, or of a miner it needs."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from neg_contrast import errors, sharding
from neg_contrast.batches import batcher as batcher_lib
from neg_contrast.batches import packing
from neg_contrast.bias import meter as meter_lib
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples, synthetic_pairs, tokenized
from neg_contrast.evaluation import rankings
from neg_contrast.losses import gradient_cache
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import dual_encoder, loading, text_spec
from neg_contrast.negatives import drawing, sampled, sampling
from neg_contrast.retrieval import (
  bm25_search,
  encoding,
  search_settings,
  text_encoder,
)
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib
from neg_contrast.training import chunking, pooled_run
from neg_contrast.training import state as state_lib
from neg_contrast.training import step as step_lib

_BM25_DEPTH_OF_STOP_CORPUS = 100


class DualEncoderTraining(pooled_run.PooledTraining):
  """Trains a dual encoder on pairs, with or without hard negatives."""

  def __init__(
      self,
      config: config_lib.Config,
      workdir: pathlib.Path,
      dataset: Callable[[], dataset_lib.Dataset],
      negatives: Any = None,
  ):
    """Reads nothing yet; arguments as of any training with a pool."""
    super().__init__(config, workdir, dataset, negatives)
    self._sampled: sampled.SampledNegatives | None = None

  @functools.cached_property
  def model(self) -> loading.Model:
    """What it starts from.

    Raises:
      UserError: there is no such model, or it does not fit the config.
    """
    wanted = self._config.model
    model = model_lib.load_checkpoint(
        wanted.init, wanted, self._config.seed
    )
    if model.spec.shared != wanted.shared:
      raise errors.UserError(
          f'config.model.shared={wanted.shared}: {wanted.init} was trained '
          f'with {model.spec.shared}; set the same'
      )
    dropout = {key: getattr(wanted, key)
               for key in ('hidden_dropout', 'attention_dropout')
               if getattr(wanted, key) is not None}
    return dataclasses.replace(model, spec=dataclasses.replace(
        model.spec, bert=dataclasses.replace(model.spec.bert, **dropout)
    ))

  @functools.cached_property
  def trained(self) -> loading.Model:
    """What came out: the selected checkpoint."""
    return model_lib.load_workdir(self.workdir)

  @property
  def _sources(self) -> tuple[str, ...]:
    """Names of the sources of hard negatives, by number."""
    if self._config.negatives.strategy == 'corpus':
      return ('corpus',)
    if self._config.negatives.strategy == 'sampled':
      return sampled.SOURCES
    return () if self._pool is None else self._pool.sources

  def _save_description(self) -> None:
    loading.save_description(self.model, self.workdir)

  def _params(self):
    scale = self._config.loss.scale if self._config.loss.learn_scale else None
    return state_lib.dual_encoder_params(self.model.params, scale)

  def _loss(self, chunk_groups: int) -> step_lib.Loss:
    return make_loss(
        self.model.spec, self._config, self._sources,
        self._mesh,
        chunking.make_chunks(self._config, chunk_groups, self._mesh),
    )

  def _chunk_groups(self, *arguments):
    chunk_groups = super()._chunk_groups(*arguments)
    chunks = chunking.make_chunks(self._config, chunk_groups, self._mesh)
    if chunks is not None:
      chunking.log_memory(
          self._config, chunks, self.model.spec.features('passage')
      )
    return chunk_groups

  def _make_batch(self):
    config, dataset, text = self._config, self._dataset, self.model.text
    pairs = examples.make_examples(
        dataset.prepared, dataset.train_and_tune[0],
        synthetic_pairs.read_cuts(dataset.prepared),
    )
    self._warn_of_small_pools(pairs.query_rows)
    halves = (np.zeros((0, 3), np.int32) if self._pool is None
              else self._pool.halves)
    batcher = batcher_lib.Batcher(
        examples=pairs,
        batch_size=config.data.batch_size,
        negatives=config.negatives.per_query,
        groups=config.data.groups,
        row_lengths=row_lengths(config, text),
        seed=config.seed,
        draw=self._draw(pairs),
        query_tokens=dataset.tokenize(self.model, 'query').tokens,
        passage_tokens=passage_tokens(
            dataset.tokenize(self.model, 'passage'), halves
        ),
        passage_groups=dataset.prepared.passage_groups,
        parents=np.array(halves[:, 0]),
        mask_known_positives=config.loss.mask_known_positives,
        held=functools.partial(sharding.held, mesh=self._mesh),
    )
    return batcher, len(pairs)

  @property
  def _refresh_steps(self):
    return 0 if self._sampled is None else self._sampled.steps

  def _refresh(self, params, step):
    if self._sampled is not None:
      self._sampled.refresh(params, step)

  def _draw(self, pairs: examples.Examples) -> batcher_lib.Draw:
    config, prepared = self._config.negatives, self._dataset.prepared
    count, seed, pool = config.per_query, self._config.seed, self._pool
    if config.strategy == 'corpus':
      among = prepared.rows_of_worlds(pairs.query_rows)
      return lambda step, numbers, queries: drawing.draw_from_corpus(
          len(prepared.passages), prepared.passage_groups,
          pairs.positive_groups[queries], count, seed, step, numbers,
          among,
      )
    if config.strategy == 'sampled':
      self._sampled = sampled.SampledNegatives(
          self._config, self._dataset, pairs, self.model, self.workdir
      )
      return self._sampled.draw
    if pool is None:
      return lambda step, numbers, queries: batcher_lib.Drawn(
          *np.full((2, len(queries), 0), -1, np.int32)
      )
    return lambda step, numbers, queries: pool.draw(
        queries, count, seed, step, numbers, config.quotas
    )

  def _tune(self):
    """Parameters -> metrics on the tune split, over the stop corpus."""
    gold = self._dataset.gold
    evaluation = rankings.Evaluation(
        self._config.evaluation, gold, gold.train_and_tune[1]
    )
    config = self._config
    encoder = text_encoder.TextEncoder(self.model, encoding.EncodingSettings(
        config.model, config.index, config.mesh, config.data.row_length
    ))
    rows = stop_corpus(config, gold, evaluation)
    exact = search_settings.SearchSettings(
        dataclasses.replace(config.index, kind='exact'), config.mesh,
        config.evaluation.depth,
    )
    names = dict.fromkeys(('accuracy@1', *self._config.evaluation.metrics))

    def measure(params):
      embedder = embedder_lib.Embedder(
          gold, encoder.with_params(sharding.local(params['encoder'])),
          rows=rows,
      )
      found = retriever_lib.Retriever(
          exact, gold, embedder, rows=rows
      ).search_rows(evaluation.query_rows, self._config.evaluation.depth)
      return evaluation.score(
          evaluation.run_of(found), found, tuple(names)
      ).mean

    return measure

  def _meter(self):
    if not self._config.nce.log_steps:
      return super()._meter()
    config, gold = self._config, self._dataset.gold
    space = meter_lib.choose_labels(
        config, gold, gold.train_and_tune[1],
        'the tune split (data.tune_split or data.tune_fraction)',
    )
    meter = meter_lib.BiasMeter(config, gold, self.model, space)
    key = sampling.draw_key(config.seed, 0)  # The same draws every time.
    return lambda params: meter.measure(sharding.local(params), key)


def make_loss(
    spec: dual_encoder.EncoderSpec,
    config: config_lib.Config,
    sources: Sequence[str],
    mesh: Mesh,
    chunks: gradient_cache.Chunks | None = None,
) -> step_lib.Loss:
  """What training minimises.

  Args:
    spec: of a tower.
    config: of the run.
    sources: names of the sources of hard negatives, by number.
    mesh: where it runs.
    chunks: that a batch is encoded in; None: at once.

  Raises:
    UserError: `config.model.attention` can't work with that.
  """
  encoder = model_lib.make_module(
      spec, config.model, config.data.row_length, mesh, is_training=True
  )
  if config.loss.candidates == 'own':
    return step_lib.nce_loss(encoder, config.loss.scale, sources, chunks)
  return step_lib.contrastive_loss(
      encoder, config.loss.scale, sources, config.loss.bidirectional, chunks
  )


def row_lengths(
    config: config_lib.Config, text: text_spec.TextSpec
) -> dict[str, int]:
  """Tokens a packed row holds, by tower."""
  longest = {'query': text.query_length, 'passage': text.passage_length}
  if config.model.shared:
    longest = {'shared': max(longest.values())}
  return {
      tower: max(length, config.data.row_length
                 or packing.default_row_length(length))
      for tower, length in longest.items()
  }


def stop_corpus(
    config: config_lib.Config,
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
      _BM25_DEPTH_OF_STOP_CORPUS,
  ).rows
  rng = np.random.default_rng(config.seed)
  drawn = among[rng.choice(count, wanted, replace=False)]
  rows = np.unique(np.concatenate([judged, found[found >= 0], drawn]))
  return rows.astype(np.int32)


def passage_tokens(
    passages: tokenized.TokenizedTexts, halves: np.ndarray
) -> batcher_lib.CutTokens:
  """Token ids by row and cut.

  Args:
    passages: of the corpus.
    halves: `[halves, 3] int32`, what rows beyond the corpus are: parent row,
      first and end token.
  """
  count = len(passages.store)

  def tokens(rows, cuts):
    is_half = rows >= count
    if is_half.any():
      parts = halves[rows[is_half] - count]
      rows, cuts = rows.copy(), cuts.copy()
      rows[is_half], cuts[is_half, :2] = parts[:, 0], parts[:, 1:]
    return passages.tokens(rows, cuts)

  return tokens
