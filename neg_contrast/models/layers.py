"""What BERT and T5 are both made of. Pure."""

import functools
import re
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, Key

_DENSE = 'dense product'


def product(
    equation: str, lhs: Array, rhs: Array, operand_dtype: Any, dtype: Any
) -> Array:
  """A product of rounded operands, and so are those of its gradients.

  Left to itself, JAX multiplies a float32 gradient with a bfloat16 operand,
  which is as slow as float32, and rounds the gradients of weights to bfloat16
  before they are summed over the devices.

  Args:
    equation: of `jnp.einsum`; every letter stands in two of the three.
    lhs: the left operand.
    rhs: the right one.
    operand_dtype: what operands, and the gradient of the result, are rounded
      to.
    dtype: of the result.

  Returns:
    Sums are float32; an operand's gradient has the dtype that it came with.
  """
  return _product(
      lhs, rhs, equation, jnp.dtype(operand_dtype), jnp.dtype(dtype),
      (lhs.dtype, rhs.dtype),
  )


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4, 5))
def _product(lhs, rhs, equation, operand_dtype, dtype, _):
  return jnp.einsum(
      equation, lhs.astype(operand_dtype), rhs.astype(operand_dtype),
      preferred_element_type=dtype,
  )


def _product_and_operands(lhs, rhs, equation, operand_dtype, dtype, dtypes):
  operands = lhs.astype(operand_dtype), rhs.astype(operand_dtype)
  return _product(*operands, equation, operand_dtype, dtype, dtypes), operands


def _gradients_of_product(
    equation, operand_dtype, _, dtypes, operands, gradient
):
  left, right, result = re.split(',|->', equation)
  gradient = gradient.astype(operand_dtype)
  times = lambda axes, other, out, dtype: jnp.einsum(
      f'{result},{axes}->{out}', gradient, other, preferred_element_type=dtype
  )
  return (times(right, operands[1], left, dtypes[0]),
          times(left, operands[0], right, dtypes[1]))


_product.defvjp(_product_and_operands, _gradients_of_product)


@jax.custom_vjp
def _add_bias(outputs, bias):
  return outputs + bias.astype(outputs.dtype)


def _gradients_of_sum(_, gradient):
  axes = tuple(range(gradient.ndim - 1))
  return gradient, gradient.astype(jnp.float32).sum(axes)


_add_bias.defvjp(
    lambda outputs, bias: (_add_bias(outputs, bias), None), _gradients_of_sum
)


class Dense(nn.Module):
  """A dense layer with float32 parameters and float32 gradients of them.

  Products of bfloat16 numbers that are summed and returned in float32 are what
  processors are quick at; bfloat16 results are as slow on CPU as float32.

  Attributes:
    features: of the result.
    dtype: of the result.
    operand_dtype: what the operands of the product are rounded to.
    deviation: standard deviation of random weights.
    use_bias: whether a bias is added.
  """

  features: int
  dtype: Any
  operand_dtype: Any
  deviation: float
  use_bias: bool = True

  @nn.compact
  def __call__(self, inputs):
    """`[..., features]` of `[..., inputs]`."""
    kernel = self.param(
        'kernel', nn.initializers.normal(self.deviation),
        (inputs.shape[-1], self.features),
    )
    axes = 'abcd'[: inputs.ndim - 1]
    outputs = checkpoint_name(product(
        f'{axes}x,xy->{axes}y', inputs, kernel, self.operand_dtype, self.dtype
    ), _DENSE)
    if self.use_bias:
      bias = self.param('bias', nn.initializers.zeros, (self.features,))
      outputs = _add_bias(outputs, bias)
    return outputs


def gelu(inputs: Float[Array, '*shape']) -> Float[Array, '*shape']:
  """The exact one, `x * Phi(x)` (Hendrycks and Gimpel, equation 1).

  In float32 by `erf`, as torch does and in under half of the time of `erfc` on
  CPU; in bfloat16 by `erfc`, as `1 + erf(x)` loses its digits below zero.
  """
  if inputs.dtype == jnp.float32:
    return 0.5 * inputs * (1 + jax.lax.erf(inputs * 0.5**0.5))
  return nn.gelu(inputs, approximate=False)


def attend(
    query: Float[Array, 'rows heads queries features'],
    key: Float[Array, 'rows heads keys features'],
    value: Float[Array, 'rows heads keys features'],
    biases: tuple[Float[Array, '#rows #heads #queries keys'], ...],
    drop: Callable[[Array], Array],
) -> Float[Array, 'rows heads queries features']:
  """Softmax attention without scale; scores and softmax in float32.

  The sum that normalises is taken before dropout and divides after the product
  with the values, where there are fewer numbers to divide.

  Args:
    query: `[rows, heads, queries, features]`.
    key: `[rows, heads, keys, features]`.
    value: like `key`.
    biases: added to the scores, one after the other: apart they are small.
    drop: dropout of the attention weights.

  Returns:
    Like `query`.
  """
  multiply = functools.partial(
      product, operand_dtype=value.dtype, dtype=jnp.float32
  )
  scores = multiply('rhqd,rhkd->rhqk', query, key)
  for bias in biases:
    scores = scores + bias
  peak = jax.lax.stop_gradient(scores.max(-1, keepdims=True))
  weights = jnp.exp(scores - peak)
  mixed = multiply('rhqk,rhkd->rhqd', drop(weights), value)
  return (mixed / weights.sum(-1, keepdims=True)).astype(value.dtype)


def dropout(
    inputs: Float[Array, '*shape'], key: Key[Array, ''], rate: float
) -> Float[Array, '*shape']:
  """Zeroes entries with probability `rate`, and scales up the others.

  Random words are most of dropout's cost on CPU, so that each serves four
  entries. The probability is therefore a multiple of 1/256 (0.1 becomes
  26/256), and the scale is that of the probability used: the mean is kept.

  Args:
    inputs: at least two axes.
    key: of the mask.
    rate: below 1.
  """
  *leading, rows, columns = inputs.shape
  words = jax.random.bits(key, (*leading, 1, -(-rows // 4), columns))
  shifts = jnp.array([0, 8, 16, 24], jnp.uint32)[:, None, None]
  random_bytes = ((words >> shifts) & 255).reshape(*leading, -1, columns)
  kept = max(1, round((1 - rate) * 256))
  is_kept = random_bytes[..., :rows, :] < kept
  return jnp.where(is_kept, inputs * (256 / kept), 0).astype(inputs.dtype)


class Dropout(nn.Module):
  """Dropout with the rng `dropout`.

  Attributes:
    rate: below 1.
    deterministic: whether it is off.
  """

  rate: float
  deterministic: bool

  @nn.compact
  def __call__(self, inputs):
    """The inputs, some of them zeroed."""
    if self.deterministic or self.rate == 0:
      return inputs
    return dropout(inputs, self.make_rng('dropout'), self.rate)


def rematerialize(layer: Any, remat: str) -> Any:
  """A layer whose backward pass computes some of it again: see `bert.Bert`.

  Products with weights are known by name, not as those without batch axes: they
  have one where a gradient cache gives each shard its own parameters.
  """
  if remat == 'none':
    return layer
  policy = {
      'attention': jax.checkpoint_policies.save_only_these_names(_DENSE),
      'full': None,
  }[remat]
  return nn.remat(layer, policy=policy)
