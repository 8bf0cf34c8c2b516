"""The training of a reranker: a cross-encoder, on a retriever's top passages.

Zhang and Stratos, "Understanding Hard Negatives in Noise Contrastive
Estimation", 2021, section 6.3.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from neg_contrast import sharding
from neg_contrast.batches import packing, pair_batches
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples
from neg_contrast.evaluation import candidate_scores, first_stage, rankings
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import reranker
from neg_contrast.retrieval import encoding, hits, pair_scorer
from neg_contrast.settings import config as config_lib
from neg_contrast.training import chunking, encoder_run, pooled_run
from neg_contrast.training import step as step_lib


class RerankerTraining(pooled_run.PooledTraining):
  """Trains a cross-encoder on each query's positive and negatives of a pool."""

  def __init__(
      self,
      config: config_lib.Config,
      workdir: pathlib.Path,
      dataset: Callable[[], dataset_lib.Dataset],
      negatives: Any,
      candidates: first_stage.Candidates,
  ):
    """Reads nothing yet.

    Args:
      config: of the run.
      workdir: of its checkpoints and logs.
      dataset: makes the data.
      negatives: give the pool.
      candidates: of the tune queries, that early stopping ranks anew.
    """
    super().__init__(config, workdir, dataset, negatives)
    self._candidates = candidates

  @functools.cached_property
  def model(self) -> reranker.Reranker:
    """What it starts from.

    Raises:
      UserError: there is no such model, or it does not fit the config.
    """
    wanted = self._config.model
    model = model_lib.load_reranker(
        wanted.init, wanted, self._config.seed
    )
    dropout = {key: getattr(wanted, key)
               for key in ('hidden_dropout', 'attention_dropout')
               if getattr(wanted, key) is not None}
    return dataclasses.replace(model, spec=dataclasses.replace(
        model.spec, bert=dataclasses.replace(model.spec.bert, **dropout)
    ))

  @functools.cached_property
  def trained(self) -> reranker.Reranker:
    """What came out: the selected checkpoint."""
    return model_lib.load_reranker_workdir(self.workdir)

  @property
  def identity(self) -> dict[str, Any]:
    """What the trained parameters depend on."""
    return {
        **super().identity,
        'tuned_by': {**self._candidates.identity,
                     'depth': self._config.evaluation.depth},
    }

  def _save_description(self) -> None:
    reranker.save_description(self.model, self.workdir)

  def _params(self):
    return {'reranker': self.model.params}

  @property
  def _module(self):
    return model_lib.make_cross_encoder(self.model.spec, self._config.model)

  def _loss(self, chunk_groups: int) -> step_lib.Loss:
    assert self._pool is not None  # The config sees to that.
    return step_lib.rerank_loss(
        self._module, self._pool.sources,
        chunking.make_chunks(self._config, chunk_groups, self._mesh),
    )

  def _make_batch(self):
    config, dataset, pool = self._config, self._dataset, self._pool
    assert pool is not None
    pairs = examples.make_examples(dataset.prepared, dataset.train_and_tune[0])
    self._warn_of_small_pools(pairs.query_rows)
    queries, passages = candidate_scores.texts_of(dataset, self.model)
    count, quotas = config.negatives.per_query, config.negatives.quotas
    batcher = pair_batches.PairBatcher(
        examples=pairs,
        batch_size=config.data.batch_size,
        groups=config.data.groups,
        row_length=row_length(config, self.model.longest),
        seed=config.seed,
        draw=lambda step, numbers, rows: pool.draw(
            rows, count, config.seed, step, numbers, quotas
        ),
        query_tokens=queries.tokens,
        passage_tokens=encoder_run.passage_tokens(
            passages, np.asarray(pool.halves)
        ),
    )
    return batcher, len(pairs)

  def _tune(self) -> Callable[[Any], dict[str, float]]:
    """Parameters -> metrics of the tune queries' candidates, ranked anew."""
    dataset = self._dataset
    evaluation = rankings.Evaluation(
        self._config.evaluation, dataset, dataset.train_and_tune[1],
        lambda: found,
    )
    found = self._candidates.search(evaluation).found
    self._candidates.release()
    config = self._config
    scorer = pair_scorer.PairScorer(self.model, encoding.EncodingSettings(
        config.model, config.index, config.mesh, config.data.row_length
    ))
    names = tuple(dict.fromkeys(
        ('accuracy@1', *self._config.evaluation.metrics)
    ))

    def measure(params):
      scores = candidate_scores.cross_scores(
          scorer.with_params(sharding.local(params['reranker'])), dataset,
          evaluation.query_rows, found.rows,
      )
      best = hits.best_of(found.rows, scores, dataset.prepared.tie_ranks,
                          found.rows.shape[1])
      return evaluation.score(evaluation.run_of(best), best, names).mean

    return measure


def row_length(config: config_lib.Config, longest: int) -> int:
  """Tokens that a packed row holds in training, where pairs have `longest`."""
  return max(longest, config.data.row_length
             or packing.default_row_length(longest))
