"""Teacher forcing of a question generator. Pure."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from neg_contrast import losses
from neg_contrast.batches.packed import AnyArray
from neg_contrast.models import layers, t5


def make_loss(model: t5.T5, label_smoothing: float) -> losses.Loss:
  """Teacher forcing of a question generator; metrics: `accuracy` of tokens.

  Dropout keys are a function of (seed, step, group), as in a dual encoder.

  Args:
    model: the module.
    label_smoothing: see `token_cross_entropy`.
  """

  def loss_fn(params, batch, key):
    logits = question_logits(model, params['generator'], batch, key)
    loss, accuracy = token_cross_entropy(
        logits, batch.target_ids, batch.target_segments > 0, label_smoothing
    )
    return loss, {'accuracy': accuracy}

  return loss_fn


def question_logits(
    model: t5.T5,
    params: Any,
    batch: Any,
    dropout_key: jax.Array | None,
) -> Float[Array, 'groups rows target vocab']:
  """Logits of every target token; each group by itself.

  Args:
    model: the module.
    params: its parameters.
    batch: a `question_batches.QuestionBatch`.
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
  return layers.each_group(of_group, groups, batch)


def token_cross_entropy(
    logits: Float[Array, '*batch vocab'],
    target_ids: Int[AnyArray, '*batch'],
    is_target: Bool[AnyArray, '*batch'],
    label_smoothing: float = 0.0,
) -> tuple[Float[Array, ''], Float[Array, '']]:
  """Teacher forcing: how well each token of the targets is foretold.

  Args:
    logits: `[..., vocab] float32`.
    target_ids: `[...] int32`.
    is_target: `[...] bool`, False on padding.
    label_smoothing: part of the target's mass that is spread evenly over the
      vocabulary (Szegedy et al., 2016).

  Returns:
    Mean cross-entropy, in nats, and part of the tokens that score best.
  """
  log_sum = jax.nn.logsumexp(logits, axis=-1)
  own = jnp.take_along_axis(
      logits, jnp.asarray(target_ids)[..., None], axis=-1
  )[..., 0]
  loss = log_sum - (
      (1 - label_smoothing) * own + label_smoothing * jnp.mean(logits, axis=-1)
  )
  count = jnp.maximum(1, jnp.sum(is_target))
  correct = jnp.argmax(logits, axis=-1) == target_ids
  return (jnp.sum(loss, where=is_target) / count,
          jnp.sum(correct & is_target) / count)
