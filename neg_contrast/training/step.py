"""The training step. Pure: the caller jits it with shardings and donation."""

from collections.abc import Callable
from typing import Any

import jax
import optax
from jaxtyping import Array, Int

from neg_contrast import losses
from neg_contrast.models import lora
from neg_contrast.training import memory as memory_lib
from neg_contrast.training import state as state_lib


def make_train_step(
    loss_fn: losses.Loss, optimizer: optax.GradientTransformation,
    seed: int | Int[Array, ''],
    memory: memory_lib.Memory = memory_lib.NOTHING,
    adapters: lora.Adapters = lora.OFF,
) -> Callable[
    [state_lib.TrainState, Any], tuple[state_lib.TrainState, dict[str, Any]]
]:
  """Returns `train_step(state, batch) -> (state, metrics)`, not jitted.

  Metrics are what the loss measures, with `loss` itself and `gradient_norm`,
  the global norm before clipping.

  Args:
    loss_fn: what is minimised.
    optimizer: the optimizer.
    seed: of the dropout keys; folded with the step. `[] int32` if it is traced.
    memory: what is remembered of earlier steps. With a queue batches get it as
      `memory`, and what the loss measures as `losses.REMEMBERED` goes into the
      queue.
    adapters: of the encoder; the loss takes what they make of it.
  """

  def train_step(state, batch):
    if memory.queue_steps:
      batch = batch.replace(memory=memory.with_whole_tower(
          state.memory, state.frozen, adapters
      ))
    key = jax.random.fold_in(jax.random.key(seed), state.step)
    (loss, metrics), grads = jax.value_and_grad(
        lambda params: loss_fn(
            state_lib.whole(params, state.frozen, adapters), batch, key
        ), has_aux=True,
    )(state.params)
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    remembered = metrics.pop(losses.REMEMBERED, None)
    metrics = {'loss': loss, **metrics,
               'gradient_norm': optax.tree.norm(grads)}
    params = optax.apply_updates(state.params, updates)
    known = memory.after(state.memory, remembered, params, state.step)
    return (state_lib.TrainState(
        state.step + 1, params, opt_state, known, state.frozen
    ), metrics)

  return train_step
