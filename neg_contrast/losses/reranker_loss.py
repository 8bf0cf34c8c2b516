"""Hard-negative NCE of a cross-encoder. Pure."""

from collections.abc import Sequence

import jax.numpy as jnp

from neg_contrast import losses
from neg_contrast.losses import candidates, gradient_cache
from neg_contrast.models import cross_encoder


def make_loss(
    module: cross_encoder.CrossEncoder, sources: Sequence[str] = (),
    chunks: gradient_cache.Chunks | None = None,
) -> losses.Loss:
  """Hard-negative NCE of a cross-encoder: Zhang and Stratos, equation 11.

  Scores have no scale: the score layer learns its own. Dropout keys are a
  function of (seed, step, group). Metrics: `accuracy`, `effective_negatives`
  and `contrast`, see `candidates.metrics_of`.

  Args:
    module: the module.
    sources: names of the sources of negatives, by number.
    chunks: score the batch in chunks; None: at once.
  """

  def loss_fn(params, batch, key):
    table = gradient_cache.encode(
        module, params['reranker'], batch.sequences, key, chunks
    )
    scores = table.reshape(-1)[batch.candidate_slots]
    loss = jnp.mean(candidates.candidate_softmax(scores, batch.is_candidate))
    return loss, candidates.metrics_of(
        scores, batch.is_candidate, batch.negative_sources, 1.0, sources
    )

  return loss_fn
