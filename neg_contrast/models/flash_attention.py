"""Attention over packed rows as one kernel, without matrices in memory. Pure.

Dao, Fu, Ermon, Rudra and Re, "FlashAttention: Fast and Memory-Efficient Exact
Attention with IO-Awareness", 2022, for rows so short that all keys of a row are
at hand at once: nothing is rescaled, and the backward pass computes the weights
again from queries and keys, in one kernel too.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array

from neg_contrast.models import pattern as pattern_lib

Attention = Callable[..., Array]
"""(query, key, value, segment ids, pattern) -> mixed values: `make_attention`.
"""

LONGEST_ROW = 1024
"""Tokens of a row that `short_kernel` takes; of 2,048 its memory is too small.
"""

_LANES = 128  # Of a TPU's vectors.
_SCORES = 512 * 512  # Of a head at once: 1 MiB in float32.


@dataclasses.dataclass(frozen=True)
class Kernel:
  """An implementation; arguments as those of an `Attention`.

  Attributes:
    forward: `(query, key, value, segment_ids)` -> mixed values, and a tuple of
      what the backward pass needs besides.
    backward: `(query, key, value, mixed_gradient, segment_ids, *kept)` ->
      gradients of query, key and value.
  """

  forward: Callable[..., Any]
  backward: Callable[..., Any]


def make_attention(
    make_kernel: Callable[[pattern_lib.Pattern], Kernel],
    spread: Callable[[Any], Any] = lambda function: function,
) -> Attention:
  """Softmax attention without scale or dropout, for `bert.Bert`.

  Takes query, key and value, `[rows, length, features]` of all heads side by
  side, segment ids, `[rows, length] int32`, and the pattern of the layer, which
  is `pattern.GLOBAL` if none is given; gives such an array. A token attends to
  the tokens of its row with its own id that the pattern allows. Scores, softmax
  and sums are float32.

  `jax.vmap` makes more rows of it, so that a kernel need not know of batches,
  and rows that lie on several devices stay where they are.

  Args:
    make_kernel: gives what computes a pattern.
    spread: makes a function of rows one that each device runs on its own rows
      and heads: what calls kernels can't be split by XLA.
  """
  by_pattern = functools.cache(
      lambda pattern: _attention(make_kernel(pattern), spread)
  )

  def attention(query, key, value, segment_ids, pattern=pattern_lib.GLOBAL):
    return by_pattern(pattern)(query, key, value, segment_ids)

  return attention


def _attention(kernel: Kernel, spread: Callable[[Any], Any]) -> Attention:
  forward = _over_rows(spread(kernel.forward))
  backward = _over_rows(spread(kernel.backward))

  @jax.custom_vjp
  def attention(*operands):
    return forward(*operands)[0]

  def keep(*operands):
    mixed, kept = forward(*operands)
    return mixed, (operands, kept)

  def back(known, gradient):
    (*inputs, segment_ids), kept = known
    return *backward(*inputs, gradient, segment_ids, *kept), None

  attention.defvjp(keep, back)
  return attention


def _over_rows(function: Callable[..., Any]) -> Callable[..., Any]:
  """A function of rows that batches become more rows of."""
  folded = jax.custom_batching.custom_vmap(function)

  @folded.def_vmap
  def _(size, is_batched, *arrays):
    flat = [
        (array if batched else jnp.broadcast_to(array, (size, *array.shape)))
        for array, batched in zip(arrays, is_batched, strict=True)
    ]
    out = folded(*(a.reshape(-1, *a.shape[2:]) for a in flat))
    return (
        jax.tree.map(lambda a: a.reshape(size, -1, *a.shape[1:]), out),
        jax.tree.map(lambda _: True, out),
    )

  return folded


def short_kernel(head_features: int, interpret: bool = False) -> Kernel:
  """In Pallas for TPUs, within segments alone.

  Heads stay side by side as dense layers leave them. A program takes as many as
  fill the lanes of a vector, and sets all but one to zero for each product,
  which costs it nothing: it is as wide in any case.

  Args:
    head_features: of a head.
    interpret: run it step by step in XLA, on any platform.
  """
  call = functools.partial(
      _call, head_features=head_features, interpret=interpret
  )
  return Kernel(
      forward=lambda query, key, value, segment_ids: (call(
          _forward, 1, segment_ids, query, key, value
      )[0], ()),
      backward=lambda query, key, value, gradient, segment_ids: tuple(call(
          _backward, 3, segment_ids, query, key, value, gradient
      )),
  )


def cudnn_kernel(
    head_features: int,
    pattern: pattern_lib.Pattern = pattern_lib.GLOBAL,
    implementation: Any = 'cudnn',
) -> Kernel:
  """That of cuDNN, for bfloat16 and float16, and XLA's for rows of odd length.

  Which tokens belong together is an array `[rows, length, length]` there.

  Args:
    head_features: of a head: a multiple of 8, at most 128.
    pattern: of the layer.
    implementation: see `jax.nn.dot_product_attention`.
  """

  def forward(query, key, value, segment_ids):
    heads = lambda a: a.reshape(*a.shape[:2], -1, head_features)
    same = segment_ids[:, None, :, None] == segment_ids[:, None, None, :]
    places = jnp.arange(query.shape[1])
    same &= pattern.allows(places[:, None], places)
    is_odd = query.shape[1] % 2 == 1  # Which cuDNN has no gradients for.
    return jax.nn.dot_product_attention(
        heads(query), heads(key), heads(value), mask=same, scale=1.0,
        implementation='xla' if is_odd else implementation,
    ).reshape(query.shape), ()

  def backward(query, key, value, gradient, segment_ids):
    attend = lambda q, k, v: forward(q, k, v, segment_ids)[0]
    return jax.vjp(attend, query, key, value)[1](gradient)

  return Kernel(forward, backward)


def _call(kernel, results, segment_ids, *arrays, head_features, interpret):
  """Runs a kernel for each row and each part of its features."""
  rows, length, width = arrays[0].shape
  part = part_width(width, head_features)
  block = pl.BlockSpec((None, length, part), lambda row, at: (row, 0, at))
  products, size = (2, 4) if results == 1 else (5, 7)
  return pl.pallas_call(
      functools.partial(kernel, head_features=head_features),
      out_shape=[jax.ShapeDtypeStruct(a.shape, a.dtype)
                 for a in arrays[:results]],
      grid=(rows, width // part),
      in_specs=[
          pl.BlockSpec((None, length, 1), lambda row, at: (row, 0, 0)),
          pl.BlockSpec((None, 1, length), lambda row, at: (row, 0, 0)),
          *[block] * len(arrays),
      ],
      out_specs=[block] * results,
      compiler_params=pltpu.CompilerParams(
          dimension_semantics=('parallel', 'parallel')
      ),
      cost_estimate=pl.CostEstimate(
          flops=2 * products * rows * length**2 * width,
          transcendentals=rows * length**2 * width // head_features,
          bytes_accessed=size * arrays[0].size * arrays[0].dtype.itemsize,
      ),
      interpret=interpret,
      name=f'attention{kernel.__name__}',
  )(segment_ids[:, :, None], segment_ids[:, None, :], *arrays)


def part_width(width: int, head_features: int) -> int:
  """Features of a program: whole heads, whole vectors if they divide.

  Args:
    width: features of all heads.
    head_features: of a head.
  """
  part = math.lcm(head_features, _LANES)
  return width if width % part else part


def _forward(
    key_ids, query_ids, query, key, value, mixed, *, head_features
):
  width = query.shape[-1]
  for start, size in _blocks(query.shape[0]):
    some = pl.ds(start, size)
    same = key_ids[...] == query_ids[:, some]
    total = jnp.zeros((size, width), jnp.float32)
    for head in range(width // head_features):
      only = of_head(head, head_features, width)
      weights = _weights(only(query[some]), key[...], same)
      total += dot(weights.astype(value.dtype), only(value[...]), 0, 0)
    mixed[some] = total.astype(mixed.dtype)


def _backward(
    key_ids, query_ids, query, key, value, gradient,
    query_gradient, key_gradient, value_gradient, *, head_features,
):
  length, width = query.shape
  dtype = query.dtype
  for_key, for_value = jnp.zeros((2, length, width), jnp.float32)
  for start, size in _blocks(length):
    some = pl.ds(start, size)
    same = key_ids[...] == query_ids[:, some]
    for_query = jnp.zeros((size, width), jnp.float32)
    for head in range(width // head_features):
      only = of_head(head, head_features, width)
      queries, gradients = only(query[some]), only(gradient[some])
      weights = _weights(queries, key[...], same)
      for_value += dot(weights.astype(dtype), gradients, 1, 0)
      for_weights = dot(value[...], gradients, 1, 1)
      mean = jnp.sum(weights * for_weights, axis=0, keepdims=True)
      for_scores = (weights * (for_weights - mean)).astype(dtype)
      for_key += dot(for_scores, queries, 1, 0)
      for_query += dot(for_scores, only(key[...]), 0, 0)
    query_gradient[some] = for_query.astype(dtype)
  key_gradient[...] = for_key.astype(dtype)
  value_gradient[...] = for_value.astype(dtype)


def _blocks(length: int) -> list[tuple[int, int]]:
  """(start, size) of the queries of a row that are taken at once."""
  sizes = [size for size in range(_LANES, length, _LANES)
           if length % size == 0 and size * length <= _SCORES]
  size = max(sizes, default=length) if length**2 > _SCORES else length
  return [(start, size) for start in range(0, length, size)]


def of_head(head, head_features, width):
  """Sets the features of other heads to zero."""
  is_own = head_numbers((1, width), head_features) == head
  return lambda a: jnp.where(is_own, a.astype(jnp.float32), 0).astype(a.dtype)


def head_numbers(shape, head_features):
  """To which head each feature belongs, along the longer side of `shape`."""
  feature = jax.lax.broadcasted_iota(jnp.int32, shape, int(np.argmax(shape)))
  return jax.lax.div(feature, jnp.int32(head_features))


def _weights(query, key, same):
  """`[keys, queries] float32`, those of a query adding up to 1."""
  scores = jnp.where(same, dot(key, query, 1, 1), -1e30)
  weights = jnp.exp(scores - scores.max(0, keepdims=True))
  return weights * (1 / weights.sum(0, keepdims=True))


def dot(lhs, rhs, lhs_axis, rhs_axis):
  """The product over an axis of each, in float32."""
  return jax.lax.dot_general(
      lhs, rhs, (((lhs_axis,), (rhs_axis,)), ((), ())),
      preferred_element_type=jnp.float32,
  )
