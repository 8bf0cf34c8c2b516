"""The optimizer of a config."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from neg_contrast.settings import config as config_lib
from neg_contrast.training import state as state_lib

_LEAST_SIZE = 1e-3
"""Of parameters, by which Adafactor scales an update."""


class Rates(NamedTuple):
  """What a schedule is computed with: numbers, or what traces them.

  A step is given them, so that trainings of other rates, or of more steps, are
  the same program.

  Attributes:
    learning_rate: `[] float32`, the highest.
    warmup_steps: `[] int32`, of the rise to it; 0: none.
    decay_steps: `[] int32`, of those that follow, at least 1.
  """

  learning_rate: Float[Array, ''] | np.float32
  warmup_steps: Int[Array, ''] | np.int32
  decay_steps: Int[Array, ''] | np.int32


def rates_of(config: config_lib.OptimConfig, total_steps: int) -> Rates:
  """Those of a run of so many steps."""
  return Rates(
      np.float32(config.learning_rate), np.int32(config.warmup_steps),
      np.int32(max(1, total_steps - config.warmup_steps)),
  )


def make_schedule(kind: str, rates: Rates) -> optax.Schedule:
  """Step -> learning rate: warm-up from 0, then constant, or decay to 0.

  Args:
    kind: `constant`, `linear` or `cosine`: what comes after the warm-up.
    rates: its numbers.
  """
  rate, warmup_steps, decay_steps = rates
  decay = {
      'constant': lambda done: 1.0,
      'linear': lambda done: 1 - done,
      'cosine': lambda done: 0.5 * (1 + jnp.cos(jnp.pi * done)),
  }[kind]

  def schedule(step):
    rise = step / jnp.maximum(warmup_steps, 1)
    done = jnp.clip((step - warmup_steps) / decay_steps, 0, 1)
    return rate * jnp.where(step < warmup_steps, rise, decay(done))

  return schedule


def rule_of(config: config_lib.OptimConfig) -> dict[str, Any]:
  """What tells trainings of earlier rules apart; of most there was one.

  Adafactor had one size for the stack of all layers of a kind.
  """
  is_adafactor = config.optimizer == 'adafactor'
  return {'sizes': 'of each layer'} if is_adafactor else {}


def _of_matrices(
    apply: Callable[[Array, Array, Array], Array]
) -> optax.GradientTransformation:
  """A transform by the root mean squares of update and parameters.

  Layers are stacked here: the first axis of what lies under `layers` is theirs,
  and each has sizes of its own.

  Args:
    apply: (update, its size, size of the parameters) -> update.
  """

  def of(path, update, params):
    is_stacked = any(getattr(key, 'key', '') == 'layers' for key in path)
    axes = tuple(range(int(is_stacked), update.ndim))
    size = lambda x: jnp.sqrt(jnp.mean(jnp.square(x), axes, keepdims=True))
    return apply(update, size(update), size(params))

  return optax.GradientTransformation(
      lambda _: optax.EmptyState(),
      lambda updates, state, params: (
          jax.tree_util.tree_map_with_path(of, updates, params), state),
  )


def make_optimizer(
    config: config_lib.OptimConfig, rates: Rates, frozen: str = ''
) -> optax.GradientTransformation:
  """Clipping, then Adam, AdamW or Adafactor.

  AdamW decays kernels and embeddings only. Adafactor (Shazeer and Stern, 2018)
  is as T5's authors use it: without first moment, and with updates that are
  clipped by their size and scaled by that of the parameters (the learning rate
  is a part of it), each matrix of each layer by itself, which suits a T5, whose
  embeddings are of size 1 and its matrices are not.
  The head of a cross-encoder may have a learning rate of its own, with the same
  schedule.

  Args:
    config: the settings.
    rates: numbers of its schedule.
    frozen: a tower of a dual encoder that stays as it is, and has no moments;
      empty: none.
  """
  schedule = make_schedule(config.schedule, rates)
  parts = []
  if config.clip_norm:
    parts.append(optax.clip_by_global_norm(config.clip_norm))
  if config.optimizer == 'adafactor':
    parts.append(optax.scale_by_factored_rms())
    parts.append(_of_matrices(
        lambda update, size, _: update / jnp.maximum(1, size)))
    parts.append(_of_matrices(
        lambda update, _, size: update * jnp.maximum(size, _LEAST_SIZE)))
  else:
    parts.append(optax.scale_by_adam(config.b1, config.b2, config.eps))
  if config.optimizer == 'adamw' and config.weight_decay:
    parts.append(optax.add_decayed_weights(
        config.weight_decay, mask=state_lib.decay_mask
    ))
  parts.append(optax.scale_by_learning_rate(schedule))
  if config.head_learning_rate:
    parts.append(optax.masked(
        optax.scale(config.head_learning_rate / config.learning_rate),
        state_lib.head_mask,
    ))
  chain = optax.chain(*parts)
  if not frozen:
    return chain
  return optax.multi_transform(
      {'trained': chain, 'frozen': optax.set_to_zero()},
      lambda params: {
          part: {name: 'frozen' if (part, name) == ('encoder', frozen)
                 else 'trained' for name in trees}
          for part, trees in params.items()
      },
  )
