"""What BERT and T5 are both made of. Pure."""

import dataclasses
import functools
import re
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, Int, UInt32

from neg_contrast.batches import packed

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
  of_left = times(right, operands[1], left, dtypes[0])
  rows, *columns = operands[1].shape
  if len(columns) != 1 or rows <= columns[0]:
    return of_left, times(left, operands[0], right, dtypes[1])
  # A tall matrix, of weights: Eigen takes a fifth less time for a wide one.
  wide = times(left, operands[0], right[::-1], dtypes[1])
  return of_left, jax.lax.optimization_barrier(wide).T


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


def each_group(function: Callable[..., Array], *groups: Any) -> Array:
  """`jax.vmap`; of one group the function itself.

  XLA's CPU compiler takes twice to four times as long for sums of an array with
  an axis of one before the others.

  Args:
    function: of the parts of a group -> an array.
    *groups: trees of arrays `[groups, ...]`.

  Returns:
    `[groups, ...]`.
  """
  if len(jax.tree.leaves(groups)[0]) == 1:
    return function(*jax.tree.map(lambda array: array[0], groups))[None]
  return jax.vmap(function)(*groups)


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
    outputs = checkpoint_name(product(
        'ax,xy->ay', inputs.reshape(-1, inputs.shape[-1]), kernel,
        self.operand_dtype, self.dtype,
    ), _DENSE)
    outputs = outputs.reshape(*inputs.shape[:-1], self.features)
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
    return _gelu(inputs)
  return nn.gelu(inputs, approximate=False)


@jax.custom_vjp
def _gelu(inputs):
  """Keeps its inputs and nothing else for the backward pass."""
  return 0.5 * inputs * (1 + jax.lax.erf(inputs * 0.5**0.5))


def _gradient_of_gelu(inputs, gradient):
  below = 0.5 * (1 + jax.lax.erf(inputs * 0.5**0.5))
  density = jnp.exp(-0.5 * inputs * inputs) * (2 * np.pi) ** -0.5
  return (gradient * (below + inputs * density),)


_gelu.defvjp(lambda inputs: (_gelu(inputs), inputs), _gradient_of_gelu)


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


def segment_bias(
    segment_ids: Int[packed.AnyArray, 'rows length'],
    window: Any = 0,
) -> Float[Array, 'rows 1 length length']:
  """0 within a segment, a large negative number elsewhere.

  Args:
    segment_ids: `[rows, length] int32`; the tokens of one stand side by side.
    window: int, or `[] int32`: a token attends to as many tokens on each side
      of it. 0: to its whole segment.
  """
  same = segment_ids[:, None, :, None] == segment_ids[:, None, None, :]
  if not isinstance(window, int) or window:
    places = jnp.arange(segment_ids.shape[1])
    distances = jnp.abs(places[:, None] - places)
    same &= (distances <= window) | (window == 0)
  return jnp.where(same, 0.0, -1e30)


@dataclasses.dataclass(frozen=True)
class Dropped:
  """Dropout by words that were drawn.

  Attributes:
    rate: probability that an entry is zeroed, below 1.
    words: `[2] uint32`.
  """

  rate: float
  words: UInt32[Array, '2']

  def __call__(
      self, inputs: Float[Array, '*shape'], first: Any = 0,
      is_turned: bool = False,
  ) -> Float[Array, '*shape']:
    """Zeroes some entries, and scales up the others.

    The bits of an entry are a hash of its number, under the two words. They are
    a few integer operations, done where the entry is read, while arrays from
    `jax.random` were most of dropout's cost on CPU.

    Args:
      inputs: the numbers.
      first: number of the first entry, of a part of larger inputs.
      is_turned: whether entries have the numbers that they have with the last
        two axes swapped.
    """
    if not self.rate:
      return inputs
    axes = list(range(inputs.ndim))
    if is_turned:
      axes[-2:] = axes[-1], axes[-2]
    # Terms of one axis each, and no zeros beside them: in a loop these are all
    # that JAX makes before it, and not arrays as large as the inputs.
    numbers, stride = self.words[0] + jnp.uint32(first), 1
    for axis in reversed(axes):
      places = np.arange(inputs.shape[axis], dtype=np.uint32)
      terms = jnp.asarray(places * np.uint32(stride % 2**32))
      numbers = numbers + jnp.expand_dims(terms, [a for a in axes if a != axis])
      stride *= inputs.shape[axis]
    least_kept = np.uint32(round(self.rate * 2**32))
    is_kept = _hash(_hash(numbers) ^ self.words[1]) >= least_kept
    return inputs * (1 / (1 - self.rate)) * is_kept.astype(inputs.dtype)


def _hash(words):
  """A permutation of 32-bit words that scatters all bits.

  That of least bias in Wellons, "Prospecting for Hash Functions".
  """
  words = (words ^ (words >> 16)) * np.uint32(0x21F0AAAD)
  words = (words ^ (words >> 15)) * np.uint32(0xD35A2D97)
  return words ^ (words >> 15)


class Dropout(nn.Module):
  """Dropout with the rng `dropout`.

  Attributes:
    rate: below 1.
    deterministic: whether it is off.
  """

  rate: float
  deterministic: bool

  def __call__(self, inputs):
    """The inputs, some of them zeroed."""
    return self.bound()(inputs)

  def bound(self) -> Dropped:
    """What drops entries by words drawn now, for use in a loop."""
    if self.deterministic or self.rate == 0:
      return Dropped(0.0, jnp.zeros(2, jnp.uint32))
    return Dropped(self.rate, jax.random.bits(self.make_rng('dropout'), (2,)))


def check_dropout(attention: Any, rate: float, deterministic: bool) -> None:
  """Kernels drop no attention probabilities.

  Args:
    attention: a `flash_attention.Attention`, or None.
    rate: of dropout of attention probabilities.
    deterministic: whether dropout is off.

  Raises:
    ValueError: there is a kernel and dropout.
  """
  if attention and rate and not deterministic:
    raise ValueError(f'attention has no dropout, and the rate is {rate}')


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
