"""What a training remembers of earlier steps, beside its parameters. Pure.

A queue of passage vectors of earlier batches (cross-batch memory: Wang et al.,
2020; Wu et al.: see the survey of sampling strategies), averages of parameters
that move slowly, which may fill it (MoCo: He et al., 2020), and averages that
are evaluated in the place of the parameters (Polyak and Juditsky, 1992).
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from neg_contrast.models import lora

QUEUE, MOMENTUM, AVERAGE = 'queue', 'momentum', 'average'
LOSS = 'loss'  # Of parameters: what is no part of the model.


@dataclasses.dataclass(frozen=True)
class Memory:
  """What is remembered, and how it changes.

  Attributes:
    queue_steps: batches whose passages the queue holds; 0: there is none.
    batch_size: passages of a batch.
    features: of a vector.
    tower: that encodes passages, `shared` or `passage`.
    momentum: part of the average of the tower that a step keeps; 0: the tower
      itself fills the queue.
    ema: part of the average of all parameters that a step keeps; 0: there is
      none.
  """

  queue_steps: int = 0
  batch_size: int = 0
  features: int = 0
  tower: str = 'shared'
  momentum: float = 0.0
  ema: float = 0.0

  def first(self, params: Any) -> dict[str, Any]:
    """What is known before the first step.

    Args:
      params: of a `TrainState`.

    Returns:
      By name: `queue`, `[queue_steps, batch_size, features] float32`;
      `momentum`, as the tower of `params`; `average`, as `params` without the
      parameters of the loss. What is not remembered is left out.
    """
    known: dict[str, Any] = {}
    if self.queue_steps:
      known[QUEUE] = jnp.zeros(
          (self.queue_steps, self.batch_size, self.features), jnp.float32
      )
    if self.momentum:
      known[MOMENTUM] = jax.tree.map(jnp.copy, self._tower(params))
    if self.ema:
      known[AVERAGE] = jax.tree.map(jnp.copy, _without_loss(params))
    return known

  def after(
      self, known: dict[str, Any], passages: Any, params: Any, step: Any
  ) -> dict[str, Any]:
    """What is known after a step.

    Args:
      known: before it.
      passages: `[batch_size, features] float32`, what goes into the queue.
      params: after it.
      step: its number, from 0.
    """
    known = dict(known)
    if self.queue_steps:
      known[QUEUE] = jax.lax.dynamic_update_index_in_dim(
          known[QUEUE], passages, step % self.queue_steps, 0
      )
    if self.momentum:
      known[MOMENTUM] = _average(
          known[MOMENTUM], self._tower(params), self.momentum
      )
    if self.ema:
      known[AVERAGE] = _average(
          known[AVERAGE], _without_loss(params), self.ema
      )
    return known

  def with_whole_tower(
      self, known: dict[str, Any], frozen: Any, adapters: lora.Adapters
  ) -> dict[str, Any]:
    """What is known, with the average of a tower ready to encode.

    Args:
      known: before a step.
      frozen: of a `TrainState`.
      adapters: of the encoder; averaged are A and B, each by itself.
    """
    if MOMENTUM not in known or not adapters.rank:
      return known
    return {**known, MOMENTUM: adapters.merge_tower(
        known[MOMENTUM], frozen['encoder'][self.tower]
    )}

  def _tower(self, params: Any) -> Any:
    return params['encoder'][self.tower]


NOTHING = Memory()


def evaluated(params: Any, known: dict[str, Any]) -> Any:
  """The parameters that count as trained: their average, if there is one."""
  return {**params, **known.get(AVERAGE, {})}


def _without_loss(params: Any) -> Any:
  return {name: tree for name, tree in params.items() if name != LOSS}


def _average(old: Any, new: Any, kept: float) -> Any:
  return jax.tree.map(lambda a, b: kept * a + (1 - kept) * b, old, new)
