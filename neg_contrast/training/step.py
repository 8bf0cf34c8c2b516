"""The training step. Pure: the caller jits it with shardings and donation."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from neg_contrast.batches import batcher, question_batches
from neg_contrast.losses import gradient_cache, nce, softmax
from neg_contrast.models import cross_encoder, dual_encoder, t5
from neg_contrast.training import state as state_lib

# (params, batch, dropout key) -> (loss, metrics by name).
Loss = Callable[[Any, Any, jax.Array], tuple[jax.Array, dict[str, Any]]]


def make_train_step(
    loss_fn: Loss, optimizer: optax.GradientTransformation, seed: int
) -> Callable[
    [state_lib.TrainState, Any], tuple[state_lib.TrainState, dict[str, Any]]
]:
  """Returns `train_step(state, batch) -> (state, metrics)`, not jitted.

  Metrics are what the loss measures, with `loss` itself and `gradient_norm`,
  the global norm before clipping.

  Args:
    loss_fn: what is minimised.
    optimizer: the optimizer.
    seed: of the dropout keys; folded with the step.
  """

  def train_step(state, batch):
    key = jax.random.fold_in(jax.random.key(seed), state.step)
    (loss, metrics), grads = jax.value_and_grad(loss_fn, has_aux=True)(
        state.params, batch, key
    )
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    metrics = {'loss': loss, **metrics,
               'gradient_norm': optax.tree.norm(grads)}
    params = optax.apply_updates(state.params, updates)
    return state_lib.TrainState(state.step + 1, params, opt_state), metrics

  return train_step


def question_loss(model: t5.T5, label_smoothing: float) -> Loss:
  """Teacher forcing of a question generator; metrics: `accuracy` of tokens.

  Dropout keys are a function of (seed, step, group), as in a dual encoder.

  Args:
    model: the module.
    label_smoothing: see `losses.token_cross_entropy`.
  """

  def loss_fn(params, batch, key):
    logits = question_logits(model, params['generator'], batch, key)
    loss, accuracy = softmax.token_cross_entropy(
        logits, batch.target_ids, batch.target_segments > 0, label_smoothing
    )
    return loss, {'accuracy': accuracy}

  return loss_fn


def question_logits(
    model: t5.T5,
    params: Any,
    batch: question_batches.QuestionBatch,
    dropout_key: jax.Array | None,
) -> Float[Array, 'groups rows target vocab']:
  """Logits of every target token; each group by itself.

  Args:
    model: the module.
    params: its parameters.
    batch: sources and targets.
    dropout_key: None: no dropout.
  """

  def of_group(group, one):
    rngs = {}
    if dropout_key is not None:
      rngs['dropout'] = jax.random.fold_in(dropout_key, group)
    return model.apply(
        {'params': params}, one.source_ids, one.source_segments, one.input_ids,
        one.target_segments, dropout_key is None, rngs=rngs,
    )

  groups = jnp.arange(batch.source_ids.shape[0])
  return jax.vmap(of_group)(groups, batch)


def contrastive_loss(
    encoder: dual_encoder.Encoder, scale: float, sources: Sequence[str] = (),
    bidirectional: bool = True,
    chunks: gradient_cache.Chunks | None = None,
) -> Loss:
  """The batch softmax of a dual encoder, in both directions or one.

  Dropout keys are a function of (seed, step, tower, group), so the masks do not
  depend on the mesh. Metrics: `forward_loss` (query to passage),
  `backward_loss`, `accuracy` (part of the queries whose positive scores best),
  `scale` and `contrast` (see `losses.contrast_by_source`).

  Args:
    encoder: the encoder module of a tower.
    scale: factor on the scores, unless the parameters hold a learned one.
    sources: names of the sources of hard negatives, by number.
    bidirectional: the mean of both directions; else query to passage alone.
    chunks: encode the batch in chunks; None: at once.
  """

  def loss_fn(params, batch, key):
    terms, used_scale = batch_terms(
        encoder, params, batch, scale, key, chunks
    )
    loss = terms.loss if bidirectional else jnp.mean(terms.forward)
    return loss, {
        'forward_loss': jnp.mean(terms.forward),
        'backward_loss': jnp.mean(terms.backward),
        'accuracy': jnp.mean(terms.correct.astype(jnp.float32)),
        'scale': used_scale,
        'contrast': softmax.contrast_by_source(
            terms.scores, batch.negative_sources, used_scale, sources
        ),
    }

  return loss_fn


def nce_loss(
    encoder: dual_encoder.Encoder, scale: float, sources: Sequence[str] = (),
    chunks: gradient_cache.Chunks | None = None,
) -> Loss:
  """Hard-negative NCE: each query's positive among its own negatives alone.

  Zhang and Stratos, equation 11; where the batch says with what chance its
  negatives were drawn, the score-adjusted loss, equation 10. Metrics as of
  `contrastive_loss`, with `effective_negatives` for the backward loss.

  Args:
    encoder: the encoder module of a tower.
    scale: factor on the scores, unless the parameters hold a learned one.
    sources: names of the sources of hard negatives, by number.
    chunks: encode the batch in chunks; None: at once.
  """

  def loss_fn(params, batch, key):
    queries, positives, negatives = encode_batch(
        encoder, params, batch, key, chunks
    )
    used_scale = scale_of(params, scale)
    candidates = jnp.concatenate([positives[:, None], negatives], axis=1)
    scores = used_scale * jax.vmap(
        lambda query, own: encoder.spec.score(query[None], own)[0]
    )(queries, candidates)
    is_negative = batch.negative_sources >= 0
    is_candidate = jnp.pad(
        is_negative, ((0, 0), (1, 0)), constant_values=True
    )
    used = scores
    if batch.log_proposal is not None:
      used = nce.adjusted_scores(scores, batch.log_proposal, is_candidate)
    loss = jnp.mean(softmax.candidate_softmax(used, is_candidate))
    scores = jnp.where(is_candidate, scores, -jnp.inf)
    return loss, {
        'forward_loss': loss,
        'accuracy': jnp.mean(
            (scores[:, 0] > scores[:, 1:].max(1)).astype(jnp.float32)
        ),
        'effective_negatives': jnp.mean(
            nce.effective_negatives(scores, is_candidate),
            where=is_negative.any(1),
        ),
        'scale': used_scale,
        'contrast': softmax.contrast_of_candidates(
            scores, batch.negative_sources, used_scale, sources
        ),
    }

  return loss_fn


def rerank_loss(
    module: cross_encoder.CrossEncoder, sources: Sequence[str] = (),
    chunks: gradient_cache.Chunks | None = None,
) -> Loss:
  """Hard-negative NCE of a cross-encoder: Zhang and Stratos, equation 11.

  Scores have no scale: the score layer learns its own. Dropout keys are a
  function of (seed, step, group). Metrics: `accuracy`, `effective_negatives`
  and `contrast`, as of `nce_loss`.

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
    loss = jnp.mean(softmax.candidate_softmax(scores, batch.is_candidate))
    scores = jnp.where(batch.is_candidate, scores, -jnp.inf)
    return loss, {
        'accuracy': jnp.mean(
            (scores[:, 0] > scores[:, 1:].max(1)).astype(jnp.float32)
        ),
        'effective_negatives': jnp.mean(
            nce.effective_negatives(scores, batch.is_candidate),
            where=batch.is_candidate[:, 1:].any(1),
        ),
        'contrast': softmax.contrast_of_candidates(
            scores, batch.negative_sources, 1.0, sources
        ),
    }

  return loss_fn


def batch_terms(
    encoder: dual_encoder.Encoder,
    params,
    batch: batcher.Batch,
    scale: float,
    dropout_key: jax.Array | None,
    chunks: gradient_cache.Chunks | None = None,
) -> tuple[softmax.BatchSoftmax, Float[Array, '']]:
  """Encodes a batch and compares it with itself.

  Args:
    encoder: the encoder module of a tower.
    params: `TrainState.params`.
    batch: the batch.
    scale: used unless `params['loss']` holds a learned one.
    dropout_key: None: no dropout.
    chunks: encode it in chunks; None: at once.

  Returns:
    The loss terms, and the scale used.
  """
  used_scale = scale_of(params, scale)
  terms = softmax.batch_softmax(
      *encode_batch(encoder, params, batch, dropout_key, chunks),
      used_scale,
      batch.forward_mask,
      batch.backward_mask,
      encoder.spec.score,
  )
  return terms, used_scale


def scale_of(params: Any, scale: float) -> Float[Array, '']:
  """The learned scale of the parameters, or the one given."""
  log_scale = params['loss'].get('log_scale')
  return jnp.float32(scale) if log_scale is None else jnp.exp(log_scale)


def encode_batch(
    encoder: dual_encoder.Encoder,
    params,
    batch: batcher.Batch,
    dropout_key: jax.Array | None,
    chunks: gradient_cache.Chunks | None = None,
) -> tuple[
    Float[Array, 'batch query_features'],
    Float[Array, 'batch features'],
    Float[Array, 'batch negatives features'],
]:
  """Vectors of queries, positives and hard negatives.

  Args:
    encoder: the encoder module of a tower.
    params: `TrainState.params`.
    batch: the batch.
    dropout_key: None: no dropout.
    chunks: encode it in chunks; None: at once.
  """
  vecs = {}
  for number, (name, sequences) in enumerate(sorted(batch.sequences.items())):
    key = (None if dropout_key is None
           else jax.random.fold_in(dropout_key, number))
    by_group = gradient_cache.encode(
        encoder.clone(role=name), params['encoder'][name], sequences, key,
        chunks,
    )
    vecs[name] = by_group.reshape(-1, by_group.shape[-1])
  query_table = vecs['shared'] if 'shared' in vecs else vecs['query']
  passage_table = vecs['shared'] if 'shared' in vecs else vecs['passage']
  return (
      query_table[batch.query_slots],
      passage_table[batch.positive_slots],
      passage_table[batch.negative_slots],
  )
