"""The training of a reranker: a cross-encoder, on a retriever's top passages.

Zhang and Stratos, "Understanding Hard Negatives in Noise Contrastive
Estimation", 2021, section 6.3.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from neg_contrast import losses, sharding
from neg_contrast.artifacts import artifact
from neg_contrast.batches import pair_batches, text_pairs
from neg_contrast.batches import row_length as row_length_lib
from neg_contrast.data import synthetic_pairs
from neg_contrast.evaluation import candidate_scores
from neg_contrast.losses import loss_table, reranker_loss
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import (
  cross_encoder,
  loading,
  model_names,
  projections,
  reranker,
)
from neg_contrast.negatives import halves
from neg_contrast.retrieval import hits, pair_scorer
from neg_contrast.training import chunking, costs, pooled_run, run_settings
from neg_contrast.training import outline as outline_lib


class RerankerTraining(pooled_run.PooledTraining):
  """Trains a cross-encoder on each query's positive and hard negatives."""

  def _save_description(self) -> None:
    reranker.save_description(self.model, self.workdir)

  def _params(self):
    return {'reranker': self.model.params}

  def _loss(self, chunk_groups: int) -> losses.Loss:
    return self._loss_of(self.model.spec, chunk_groups)

  def _loss_of(
      self, spec: cross_encoder.CrossEncoderSpec, chunk_groups: int
  ) -> losses.Loss:
    """What is minimised, for a model of some shape."""
    return reranker_loss.make_loss(
        model_lib.make_cross_encoder(spec, self._config.model, True),
        loss_table.make_of_pairs(self._config.loss),
        self._sources,
        chunking.make_chunks(self._config, chunk_groups, self._mesh),
        loss_table.distillation_of(self._config.loss),
    )

  def outline(self):
    """The step, without weights and data."""
    config, init = self._config, self._config.model.init
    found, text = loading.shape_by_name(init, config.model)
    spec = reranker.spec_of(model_names.here(init), found.transformer)
    longest = text.query_length + text.passage_length - 1
    lengths = outline_lib.lengths_of(config, text)
    batch, stats = self._batcher(longest, **lengths.batcher_arguments(
        has_teacher=bool(config.loss.distil)
    ))(0)
    pairs = text_pairs.pair_lengths(
        np.resize(lengths.queries, len(lengths.passages)), lengths.passages
    )
    params = {'reranker': jax.eval_shape(
        lambda: cross_encoder.init_params(spec, jax.random.key(0))
    )}
    head = 1 + spec.pooler * found.transformer.hidden_size
    return outline_lib.Outline(
        what=outline_lib.describe(init, params),
        params=params,
        loss=functools.partial(self._loss_of, spec),
        batch=batch,
        stats=stats,
        padded_tokens=len(pairs) * longest,
        features=0,
        useful_flops=3 * costs.encoder_flops(
            dataclasses.replace(
                found, projections=(projections.Projection(head),)
            ), pairs
        ),
    )

  def _make_batch(self):
    dataset = self._dataset
    pairs = self._examples(synthetic_pairs.read_cuts(dataset.prepared))
    self._warn_of_small_pools(pairs.query_rows)
    queries, passages = candidate_scores.texts_of(dataset, self.model)
    source = self._source_for(pairs)
    batcher = self._batcher(
        self.model.longest,
        examples=pairs,
        draw=source.draw,
        teacher=self._teacher(),
        augment=self._augment,
        query_tokens=queries.tokens,
        passage_tokens=halves.passage_tokens(
            passages, source.halves
        ),
        start=self.model.start,
    )
    if not self._config.data.row_length:
      batcher = batcher.with_fitted_rows(
          self.model.longest, self.model.spec.transformer.even_row_length,
          run_settings.total_steps(self._config, len(pairs)),
      )
    self.row_lengths = {'pairs': batcher.row_length}
    return batcher, len(pairs)

  def _batcher(self, longest: int, **data: Any) -> pair_batches.PairBatcher:
    """Makes batches of some data, whose pairs have at most `longest` tokens."""
    config = self._config
    return pair_batches.PairBatcher(
        batch_size=config.data.batch_size,
        groups=config.data.groups,
        row_length=max(longest, config.data.row_length
                       or row_length_lib.default(longest)),
        seed=config.seed,
        **data,
    )

  def _tune(self) -> Callable[[Any], dict[str, float]]:
    """Parameters -> metrics of the tune queries' candidates, ranked again.

    The scores are kept: calibration asks for those of the selected step.
    """
    dataset, ranking = self._dataset, self._given.candidates
    evaluation = dataclasses.replace(
        ranking.judged.open(), candidates=self._candidates
    )
    found = self._candidates()
    for need in artifact.closure([ranking]):
      if need.is_large:  # Such as a retriever's weights.
        need.release()
    model = self.model
    scorer = pair_scorer.PairScorer(model, self._config.encoding)
    names = evaluation.tuning_metrics()

    def measure(params):
      scores = candidate_scores.cross_scores(
          scorer.with_model(reranker.with_weights(
              model, sharding.local(params['reranker'])
          )), dataset, evaluation.query_rows, found.rows,
          self.workdir / candidate_scores.FOLDER,
      )
      best = hits.best_of(found.rows, scores, dataset.prepared.tie_ranks,
                          found.rows.shape[1])
      return evaluation.score(evaluation.run_of(best), best, names).mean

    return measure

  def _candidates(self) -> hits.Hits:
    """What a retriever finds for the tune queries."""
    return self._given.candidates.load().found
