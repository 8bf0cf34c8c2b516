"""A loss of the scores of a cross-encoder. Pure."""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from neg_contrast import losses
from neg_contrast.losses import (
  candidate_loss,
  candidate_softmax,
  contrast,
  gradient_cache,
  own_candidates,
  weighted,
)
from neg_contrast.losses import distillation as distillation_lib
from neg_contrast.models import cross_encoder


def make_loss(
    module: cross_encoder.CrossEncoder,
    loss: candidate_loss.CandidateLoss,
    sources: Sequence[str] = (),
    chunks: gradient_cache.Chunks | None = None,
    distillation: distillation_lib.Distillation | None = None,
) -> losses.Loss:
  """The mean of a loss over queries, each against candidates of its own.

  By `softmax` it is hard-negative NCE (Zhang and Stratos, equation 11), by
  `bce` each pair is judged by itself (Nogueira and Cho, "Passage Re-ranking
  with BERT", 2019, equation 1). Scores have no scale: the score layer learns
  its own. Where examples have weights, it is a weighted mean (`weighted.mean`).
  Dropout keys are a function of (seed, step, group). Metrics:
  `accuracy`, `effective_negatives` and `contrast`, see `contrast.of_batch`.

  Args:
    module: the module.
    loss: of scores, see `loss_table.make_of_pairs`.
    sources: names of the sources of negatives, by number.
    chunks: score the batch in chunks; None: at once.
    distillation: what a teacher adds; None: there is none.
  """

  def loss_fn(params, batch, key):
    table = gradient_cache.encode(
        module, params['reranker'], batch.sequences, key, chunks
    )
    scores = table.reshape(-1)[batch.candidate_slots]
    candidates = dataclasses.replace(own_candidates.of_scores(
        scores, batch.negative_sources, 1.0, sources
    ), is_candidate=batch.is_candidate)
    own = candidates.hardest(loss.hardest)
    of_scores = lambda scores: weighted.mean(loss.per_query(
        dataclasses.replace(own, scores=scores)
    ), batch.weights)
    value = of_scores(scores)
    more: dict[str, jax.Array] = {}
    if distillation is not None:
      value, more = distillation.add(
          value, candidates, batch.teacher_scores, batch.weights
      )
    return value, {
        **more,
        'accuracy': jnp.mean(own.is_best.astype(jnp.float32)),
        'effective_negatives': candidate_softmax.mean_effective_negatives(
            own.candidate_scores, own.is_candidate
        ),
        'contrast': contrast.of_batch(
            own, jax.grad(of_scores)(jax.lax.stop_gradient(scores))
        ),
    }

  return loss_fn
