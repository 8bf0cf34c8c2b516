"""The linear layers after pooling, each with an activation. Pure.

To add an activation: a line in `ACTIVATIONS`.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from neg_contrast.models import layers


@dataclasses.dataclass(frozen=True)
class Activation:
  """One entry of the table.

  Attributes:
    apply: the function, of each feature by itself.
    theirs: class of torch, with the values that it has by default.
  """

  apply: Callable[[Array], Array]
  theirs: str


def _of_torch(name: str, apply: Callable[[Array], Array]) -> Activation:
  return Activation(apply, f'torch.nn.modules.activation.{name}')


ACTIVATIONS: Mapping[str, Activation] = {
    'identity': Activation(
        lambda x: x, 'torch.nn.modules.linear.Identity'
    ),
    'tanh': _of_torch('Tanh', jnp.tanh),
    'relu': _of_torch('ReLU', nn.relu),
    'gelu': _of_torch('GELU', layers.gelu),
    'silu': _of_torch('SiLU', nn.silu),
    'sigmoid': _of_torch('Sigmoid', nn.sigmoid),
    'leaky_relu': _of_torch(
        'LeakyReLU', functools.partial(nn.leaky_relu, negative_slope=0.01)
    ),
    'elu': _of_torch('ELU', nn.elu),
}


@dataclasses.dataclass(frozen=True)
class Projection:
  """A linear layer and what follows it.

  Attributes:
    features: of the result.
    bias: whether there is one.
    activation: a key of `ACTIVATIONS`.
  """

  features: int
  bias: bool = True
  activation: str = 'identity'

  def __post_init__(self):
    """Checks values.

    Raises:
      ValueError: names the field and its value.
    """
    if self.features < 1:
      raise ValueError(f'features={self.features} must be at least 1')
    if self.activation not in ACTIVATIONS:
      raise ValueError(f'activation={self.activation!r} is not one of '
                       + ', '.join(ACTIVATIONS))


def name(number: int) -> str:
  """The name of a layer's parameters: most models have one layer, without."""
  return f'projection_{number + 1}' if number else 'projection'


def apply(
    projections: Sequence[Projection],
    vecs: Float[Array, '*batch features'],
    deviation: float,
) -> Float[Array, '*batch projected']:
  """Runs the layers one after the other; called by a Flax module.

  Args:
    projections: the layers.
    vecs: `[..., features] float32`.
    deviation: standard deviation of random weights.
  """
  for number, layer in enumerate(projections):
    vecs = ACTIVATIONS[layer.activation].apply(nn.Dense(
        layer.features,
        use_bias=layer.bias,
        precision=jax.lax.Precision.HIGHEST,
        kernel_init=nn.initializers.normal(deviation),
        name=name(number),
    )(vecs))
  return vecs


def init_params(
    projections: Sequence[Projection],
    features: int,
    deviation: float,
    key: Key[Array, ''],
) -> dict[str, Any]:
  """Random weights of the layers, by their names.

  Args:
    projections: the layers.
    features: of the pooled vector.
    deviation: standard deviation of the matrices; biases are 0.
    key: of the first matrix; others have a part of it each.
  """
  params = {}
  for number, layer in enumerate(projections):
    own = jax.random.fold_in(key, number) if number else key
    params[name(number)] = {
        'kernel': deviation * jax.random.normal(own, (features, layer.features))
    }
    if layer.bias:
      params[name(number)]['bias'] = jnp.zeros(layer.features)
    features = layer.features
  return params
