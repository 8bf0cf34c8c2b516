"""What a training step changes. Pure."""

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import optax


@flax.struct.dataclass
class TrainState:
  """Parameters and all else that a step updates.

  Attributes:
    step: steps done, `[] int32`.
    params: `{'encoder': towers, 'loss': {'log_scale'}}`; `loss` is empty when
      the scale is fixed.
    opt_state: of the optimizer.
  """

  step: Any
  params: Any
  opt_state: Any


def init_state(
    encoder_params: Any,
    optimizer: optax.GradientTransformation,
    learned_scale: float | None,
) -> TrainState:
  """The state before the first step.

  Args:
    encoder_params: towers, as `dual_encoder.init_params` makes them.
    optimizer: the optimizer.
    learned_scale: first value of a learned scale; None: it is fixed.
  """
  loss = {} if learned_scale is None else {
      'log_scale': jnp.log(jnp.float32(learned_scale))
  }
  params = {'encoder': encoder_params, 'loss': loss}
  return TrainState(
      step=jnp.zeros((), jnp.int32),
      params=params,
      opt_state=optimizer.init(params),
  )


def decay_mask(params: Any) -> Any:
  """True for the leaves that weight decay applies to: kernels, embeddings."""
  return jax.tree_util.tree_map_with_path(
      lambda path, _: getattr(path[-1], 'key', '') in ('kernel', 'embedding'),
      params,
  )
