"""What a training step changes. Pure."""

import dataclasses
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import optax

from neg_contrast.models import lora
from neg_contrast.training import memory as memory_lib


@flax.struct.dataclass
class TrainState:
  """Parameters and all else that a step updates.

  Attributes:
    step: steps done, `[] int32`.
    params: of a dual encoder `{'encoder': towers, 'loss': {'log_scale'}}`,
      where `loss` is empty when the scale is fixed; of a question generator
      `{'generator': T5}`; of a cross-encoder `{'reranker': it}`.
    opt_state: of the optimizer.
    memory: what is remembered of earlier steps, see `memory.Memory`.
    frozen: what `params` adapt, `{'encoder': towers}`, see `lora.Adapters`;
      empty: `params` are the whole model. No step changes it, and no
      checkpoint holds it.
  """

  step: Any
  params: Any
  opt_state: Any
  memory: Any = dataclasses.field(default_factory=dict)
  frozen: Any = dataclasses.field(default_factory=dict)


def dual_encoder_params(
    encoder_params: Any, learned_scale: float | None
) -> dict[str, Any]:
  """What training a dual encoder changes.

  Args:
    encoder_params: towers, as `dual_encoder.init_params` makes them.
    learned_scale: first value of a learned scale; None: it is fixed.
  """
  loss = {} if learned_scale is None else {
      'log_scale': jnp.log(jnp.float32(learned_scale))
  }
  return {'encoder': encoder_params, 'loss': loss}


def init_state(
    params: Any, optimizer: optax.GradientTransformation,
    memory: memory_lib.Memory = memory_lib.NOTHING, frozen: Any = None,
) -> TrainState:
  """The state before the first step."""
  return TrainState(
      step=jnp.zeros((), jnp.int32),
      params=params,
      opt_state=optimizer.init(params),
      memory=memory.first(params),
      frozen=frozen or {},
  )


def trained(params: Any, adapters: lora.Adapters, key: jax.Array) -> Any:
  """What training changes of a model's parameters, before the first step.

  Args:
    params: of the whole model, arrays or ShapeDtypeStructs.
    adapters: of its encoder.
    key: of their random weights.
  """
  if not adapters.rank:
    return params
  return {**params, 'encoder': adapters.init(params['encoder'], key)}


def frozen(params: Any, adapters: lora.Adapters) -> Any:
  """What training leaves as it is: see `TrainState.frozen`."""
  if not adapters.rank:
    return {}
  return {'encoder': adapters.frozen(params['encoder'])}


def whole(trained: Any, frozen: Any, adapters: lora.Adapters) -> Any:
  """Parameters of the whole model, of which some are not trained."""
  if not adapters.rank:
    return trained
  return {**trained, 'encoder': adapters.merge(
      trained['encoder'], frozen['encoder']
  )}


def head_mask(params: Any) -> Any:
  """True for the leaves of a cross-encoder above its transformer."""
  return jax.tree_util.tree_map_with_path(
      lambda path, _: [getattr(key, 'key', '') for key in path[:2]] in (
          ['reranker', 'pooler'], ['reranker', 'score']
      ), params,
  )


def decay_mask(params: Any) -> Any:
  """True for the leaves that weight decay applies to.

  These are kernels, embeddings, and A and B of LoRA.
  """
  decayed = lora.KERNEL, 'embedding', lora.A, lora.B
  return jax.tree_util.tree_map_with_path(
      lambda path, _: getattr(path[-1], 'key', '') in decayed, params,
  )
