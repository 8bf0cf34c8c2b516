"""The training of a dual encoder: of the job itself, or of a miner it needs."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np
from jax.sharding import Mesh

from neg_contrast import errors, losses, sharding
from neg_contrast.batches import batcher as batcher_lib
from neg_contrast.batches import query_batches
from neg_contrast.batches import row_length as row_length_lib
from neg_contrast.bias import labels
from neg_contrast.bias import meter as meter_lib
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples, synthetic_pairs
from neg_contrast.losses import dual_encoder_loss, loss_table
from neg_contrast.models import (
  adapted,
  attention,
  dual_encoder,
  loading,
  text_spec,
)
from neg_contrast.models import by_name as model_lib
from neg_contrast.negatives import halves as halves_lib
from neg_contrast.negatives import sampling, sources
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import text_encoder
from neg_contrast.settings import config as config_lib
from neg_contrast.training import (
  chunking,
  encoder_tuning,
  featured_run,
  passage_table,
  run_settings,
  solved,
)
from neg_contrast.training import outline as outline_lib
from neg_contrast.training import state as state_lib


class DualEncoderTraining(featured_run.FeaturedTraining):
  """Trains a dual encoder on pairs, with or without hard negatives."""

  def _save_description(self) -> None:
    config, params = self._config, self._params()
    loading.save_description(self.model, self.workdir, adapted.describe(
        run_settings.adapters_of(config, params), config.model, config.seed,
        self.workdir,
    ))

  def _params(self):
    return self._with_scale(self.model.params)

  def _with_scale(self, towers: Any) -> dict[str, Any]:
    loss = self._config.loss
    return state_lib.dual_encoder_params(
        towers, loss.scale if loss.learn_scale else None
    )

  def _loss(self, chunk_groups: int) -> losses.Loss:
    return self._loss_of(self.model.spec, chunk_groups)

  def _loss_of(
      self, spec: dual_encoder.EncoderSpec, chunk_groups: int
  ) -> losses.Loss:
    """What is minimised, for a tower of some shape."""
    config = self._config
    return dual_encoder_loss.make_loss(
        loss_table.check(config.loss, held_by(
            config.negatives, config.loss, spec.score.is_dot
        )),
        make_encoder(spec, config, self._mesh), config.loss.scale,
        self._sources, chunking.make_chunks(config, chunk_groups, self._mesh),
        config.model.freeze, matryoshka_dims(config.loss, spec),
    )

  def outline(self):
    """The step, without weights and data."""
    config = self._config
    if sources.in_steps(config.negatives):
      raise errors.UserError(
          f'{errors.key("negatives.sources")}={config.negatives.sources}: '
          'a step takes the memory of all passages, which --compile_only does '
          'not know; leave that flag out'
      )
    spec, text = loading.shape_by_name(config.model.init, config.model)
    lengths = outline_lib.lengths_of(config, text)
    batch, stats = self._batcher(
        text, **lengths.batcher_arguments(
            config.loss.adjusted, bool(config.loss.distil), spec.side_features
        ),
        draw_shared=lengths.draw_shared,
        passage_groups=np.arange(len(lengths.passages), dtype=np.int32),
    )(0)
    params = jax.eval_shape(self._with_scale, loading.shape_of(spec))
    adapters = run_settings.adapters_of(config, params)
    chosen = attention.choose(
        spec.transformer, config.model.attention, config.data.row_length,
        config.model.dtype, self._mesh, is_training=True,
    )
    return outline_lib.Outline(
        what=outline_lib.describe(config.model.init, params)
             + adapters.describe(params['encoder']) + f', attention {chosen}',
        params=params,
        loss=functools.partial(self._loss_of, spec),
        batch=batch,
        stats=stats,
        padded_tokens=(len(lengths.queries) * text.query_length
                       + len(lengths.passages) * text.passage_length),
        features=spec.features('passage'),
        useful_flops=lengths.useful_flops(
            spec, adapters.trained_part(params['encoder']), config.negatives
        ),
        local_layers=spec.transformer.local_share,
    )

  def _chunk_groups(self, steps, make_batch):
    config = self._config
    if self._refresh_steps:  # What they draw from may not be made yet.
      make_batch = batcher_lib.with_any_negatives(
          make_batch,
          config.loss.adjusted and sources.knows_chances(config.negatives),
      )
    chunk_groups = super()._chunk_groups(steps, make_batch)
    chunks = chunking.make_chunks(config, chunk_groups, self._mesh)
    if chunks is not None:
      chunking.log_memory(config, chunks, self.model.spec.features('passage'))
    return chunk_groups

  def _make_batch(self):
    batcher = fitted(self.make_unfitted(), self._config, self.model)
    self.row_lengths = batcher.row_lengths
    return batcher, len(batcher.examples)

  def make_unfitted(self) -> batcher_lib.Batcher:
    """Makes batches of the examples, in rows of no special length."""
    dataset = self._dataset
    pairs = self._examples(synthetic_pairs.read_cuts(dataset.prepared))
    self._warn_of_small_pools(pairs.query_rows)
    self._source = self._source_for(pairs)
    halves = self._source.halves
    return self._batcher(
        self.model.text,
        **self._table(),
        examples=pairs,
        draw=self._source.draw,
        draw_shared=self._draw_shared(pairs),
        query_tokens=dataset.tokenize(self.model, 'query').tokens,
        passage_tokens=halves_lib.passage_tokens(
            dataset.tokenize(self.model, 'passage'), halves
        ),
        passage_groups=dataset.prepared.passage_groups,
        own_passages=dataset.own_passages,
        parents=np.array(halves[:, 0]),
        held=functools.partial(sharding.held, mesh=self._mesh),
        teacher=self._teacher(), augment=self._augment,
        order=self._order(pairs),
    )

  def _table(self) -> dict[str, Any]:
    """What batches take where steps search all passages; else nothing."""
    if self._source is None or not self._source.in_steps:
      return {}
    return {
        'kind': query_batches.QueryBatcher,
        'negatives': 0,
        'found': self._config.negatives.per_query,
        'hidden': self._source.excluded,
        'table': passage_table.make_table(
            self._embed(self.model.params, None),
            self._dataset.prepared.passage_groups, self._mesh,
            np.dtype(ml_dtypes.bfloat16 if self._config.index.embedding_dtype
                     == 'bfloat16' else np.float32),
        ),
    }

  def _batcher(
      self, text: text_spec.TextSpec,
      kind: type[batcher_lib.Batcher] = batcher_lib.Batcher, **data: Any,
  ) -> batcher_lib.Batcher:
    """Makes batches of some data, as the settings say."""
    config = self._config
    return kind(**{
        'batch_size': config.data.batch_size,
        'negatives': config.negatives.per_query,
        'groups': config.data.groups,
        'row_lengths': row_lengths(config, text),
        'seed': config.seed,
        'mask_known_positives': config.loss.mask_known_positives,
        'shared': config.negatives.shared_corpus,
        'queue_steps': config.negatives.queue // config.data.batch_size,
        **data,
    })

  def _draw_shared(self, pairs: examples.Examples) -> batcher_lib.DrawShared:
    """Draws from the worlds of the queries."""
    config, prepared = self._config, self._dataset.prepared
    among = prepared.rows_of_worlds(pairs.query_rows)
    return sources.make_shared(
        config.negatives, config.seed,
        len(prepared.passages) if among is None else among,
    )

  @property
  def _features(self):
    return self.model.spec.features('passage')

  def _remedy(self, examples):
    return solved.remedy_of(
        self._config.negatives, self._sources, self._refresh_steps,
        examples / self._config.data.batch_size,
    )

  @functools.cached_property
  def _encoder(self) -> text_encoder.TextEncoder:
    return text_encoder.TextEncoder(self.model, self._config.encoding)

  def _embed(self, params, rows):
    return embedder_lib.Embedder(
        self._dataset, self._encoder.with_params(params), rows=rows
    )

  def _retriever(self, params, moment, folder, rows):
    encoder = self._encoder.with_params(
        sharding.local(params['encoder']), f'{moment.run}-{moment.step}'
    )
    return retriever_lib.Retriever(
        encoder_tuning.exact_search(self._config), self._dataset,
        embedder_lib.Embedder(self._dataset, encoder, folder, rows), rows=rows,
    )

  def _tune(self):
    return encoder_tuning.make_measure(
        self._config, self._dataset.gold, self.model, self._given.stop_rows
    )

  def _meter(self):
    if not self._config.nce.log_steps:
      return super()._meter()
    return _bias_measure(self._config, self._dataset.gold, self.model)


def _bias_measure(
    config: run_settings.RunSettings,
    gold: dataset_lib.Dataset,
    model: loading.Model,
) -> Callable[[Any], dict[str, Any]]:
  """Parameters -> what `BiasMeter` measures on the tune split."""
  space = labels.choose_labels(
      config.nce, config.evaluation, config.seed, gold,
      gold.train_and_tune[1],
      'the tune split (data.tune_split or data.tune_fraction)',
  )
  meter = meter_lib.BiasMeter(
      config.nce, config.loss.scale, gold, model, space, config.model,
      config.data.row_length,
  )
  key = sampling.draw_key(config.seed, 0)  # The same draws every time.
  return lambda params: meter.measure(sharding.local(params), key)


def make_encoder(
    spec: dual_encoder.EncoderSpec,
    config: run_settings.RunSettings,
    mesh: Mesh,
) -> dual_encoder.Encoder:
  """The encoder module as training uses it.

  Args:
    spec: of a tower.
    config: settings of the run.
    mesh: where it runs.

  Raises:
    UserError: `config.model.attention` can't work with that.
  """
  return model_lib.make_module(
      spec, config.model, config.data.row_length, mesh, is_training=True
  )


def held_by(
    negatives: config_lib.NegativesConfig, loss: config_lib.LossConfig,
    is_dot: bool,
) -> tuple[str, ...]:
  """What every batch holds of what losses may need.

  Args:
    negatives: the sources.
    loss: whether it asks for chances.
    is_dot: whether each text has one vector.
  """
  knows = loss.adjusted and sources.knows_chances(negatives)
  return (
      *[dual_encoder_loss.ONE_VECTOR] * is_dot,
      *[dual_encoder_loss.HARD_NEGATIVES] * bool(negatives.per_query),
      *[dual_encoder_loss.LOG_PROPOSAL] * (
          knows and bool(negatives.per_query)),
      *[dual_encoder_loss.TEACHER] * bool(
          negatives.judge or negatives.pool),
  )


def matryoshka_dims(
    loss: config_lib.LossConfig, spec: dual_encoder.EncoderSpec
) -> tuple[int, ...]:
  """The widths of `loss.matryoshka`.

  Raises:
    UserError: a text has several vectors, or one is no wider.
  """
  dims = loss.matryoshka
  if not dims:
    return ()
  if not spec.score.is_dot:
    raise loss.error('matryoshka', 'is of one vector of each text, and '
                     'model.score gives several; leave it out')
  if dims[-1] >= spec.dim:
    raise loss.error('matryoshka', 'names widths below that of the vectors, '
                     f'which is {spec.dim} and is always trained')
  return dims


def fitted(
    batcher: batcher_lib.Batcher,
    config: run_settings.RunSettings,
    model: loading.Model,
) -> batcher_lib.Batcher:
  """Makes the same batches in rows that suit the data.

  Args:
    batcher: of a training.
    config: settings of the run; may set the length of rows.
    model: what is trained.
  """
  if config.data.row_length:
    return batcher
  return batcher.with_fitted_rows(
      longest(config, model.text), model.spec.transformer.even_row_length,
      run_settings.total_steps(config, len(batcher.examples)),
  )


def row_lengths(
    config: run_settings.RunSettings, text: text_spec.TextSpec
) -> dict[str, int]:
  """Tokens a packed row holds, by tower, where nothing is known of the data."""
  return {
      tower: max(length, config.data.row_length
                 or row_length_lib.default(length))
      for tower, length in longest(config, text).items()
  }


def longest(
    config: run_settings.RunSettings, text: text_spec.TextSpec
) -> dict[str, int]:
  """Tokens a sequence may have, by tower."""
  lengths = {'query': text.query_length, 'passage': text.passage_length}
  return {'shared': max(lengths.values())} if config.model.shared else lengths
