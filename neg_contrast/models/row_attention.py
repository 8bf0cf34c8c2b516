"""Attention within packed rows, a few at a time, as CPUs are quick at. Pure.

Scores are made for two rows at a time, or for a few short ones, so that they
stay in the processor's caches and each core has a row. The backward pass makes
them again from what the forward pass keeps: the results, and the logarithm of
each query's normaliser (Dao et al., "FlashAttention", section 3.1, without its
blocks).
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from neg_contrast.batches import packed
from neg_contrast.models import layers

_CACHED_SCORES = 2**20  # Of float32, 4 MiB: of several such arrays, in a cache.
_LEAST_ROWS = 2  # At once.


def attend(
    query: Float[Array, 'rows length heads features'],
    key: Float[Array, 'rows length heads features'],
    value: Float[Array, 'rows length heads features'],
    segment_ids: Int[packed.AnyArray, 'rows length'],
    drop: layers.Dropped,
    biases: tuple[Float[Array, '1 #heads length length'], ...] = (),
    window: Any = 0,
) -> Float[Array, 'rows length heads features']:
  """`layers.attend` within segments.

  Args:
    query: `[rows, length, heads, features]`.
    key: like `query`.
    value: like `query`.
    segment_ids: `[rows, length] int32`.
    drop: dropout of the attention weights, whose entries are numbered as those
      of `[rows, heads, length, length]`.
    biases: added to the scores of every row.
    window: see `layers.segment_bias`.

  Returns:
    Like `query`.
  """
  return _attend(
      drop.rate, query, key, value, biases, drop.words,
      jnp.asarray(segment_ids), jnp.asarray(window, jnp.int32),
  )


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(rate, query, key, value, biases, words, segment_ids, window):
  return _forward(
      rate, query, key, value, biases, words, segment_ids, window
  )[0]


def _forward(rate, query, key, value, biases, words, segment_ids, window):
  """The results, and what the backward pass needs."""
  rows = _Rows(query, biases, layers.Dropped(rate, words))

  def attend_in(numbers, query, key, value, of_segments):
    query, key, value = map(_swap, (query, key, value))
    scores = rows.scores(query, key, of_segments)
    peaks = scores.max(-1, keepdims=True)
    weights = jnp.exp(scores - peaks)
    totals = weights.sum(-1, keepdims=True)
    mixed = _multiply(
        'rhqk,rhkd->rhqd', rows.drop(weights, numbers), value
    ) / totals
    return (), (_swap(mixed.astype(value.dtype)), peaks + jnp.log(totals))

  _, (mixed, log_totals) = rows.each(
      attend_in, (),
      (query, key, value, layers.segment_bias(segment_ids, window)),
  )
  return mixed, (query, key, value, biases, words, segment_ids, window, mixed,
                 log_totals)


def _backward(rate, kept, gradient):
  query, key, value, biases, words, segment_ids, window, mixed, totals = kept
  rows = _Rows(query, biases, layers.Dropped(rate, words))

  def gradients_in(
      numbers, query, key, value, of_segments, mixed, log_totals, gradient
  ):
    query, key, value, mixed, gradient = map(
        _swap, (query, key, value, mixed, gradient)
    )
    weights = jnp.exp(rows.scores(query, key, of_segments) - log_totals)
    of_weights = rows.drop(
        _multiply('rhqd,rhkd->rhqk', gradient, value), numbers
    )
    of_totals = (gradient.astype(jnp.float32) * mixed).sum(-1, keepdims=True)
    of_scores = weights * (of_weights - of_totals)
    # The small matrix is turned: Eigen takes three times as long for a product
    # with the transposed matrix of weights.
    turned = functools.partial(_multiply, 'rhdq,rhqk->rhdk')
    of_key = turned(query.swapaxes(2, 3), of_scores)
    of_value = turned(gradient.swapaxes(2, 3), rows.drop(weights, numbers))
    return (
        tuple(_sum_to(of_scores, bias.shape) for bias in biases),
        (_swap(_multiply('rhqk,rhkd->rhqd', of_scores, key)),
         of_key.transpose(0, 3, 1, 2), of_value.transpose(0, 3, 1, 2)),
    )

  of_biases, of_operands = rows.each(
      gradients_in, tuple(map(jnp.zeros_like, biases)),
      (query, key, value, layers.segment_bias(segment_ids, window), mixed,
       totals, gradient),
  )
  operands = zip(of_operands, (query, key, value), strict=True)
  return (*(new.astype(old.dtype) for new, old in operands), of_biases,
          None, None, None)


_attend.defvjp(_forward, _backward)


class _Rows:
  """What all rows have in common."""

  def __init__(self, query, biases, drop):
    rows, length, heads, _ = query.shape
    self._biases, self._drop = biases, drop
    self._entries = heads * length * length  # Scores of a row.
    self._at_once = min(rows, max(_LEAST_ROWS, _CACHED_SCORES // self._entries))

  def each(
      self, run: Callable[..., Any], start: tuple[Array, ...], arrays: Any
  ) -> Any:
    """Runs over some rows at a time.

    Args:
      run: of the numbers of rows and their part of the arrays -> what is added
        up, and what is joined.
      start: zeros, like what is added up.
      arrays: `[rows, ...]` each.

    Returns:
      The sums, and `[rows, ...]` of what is joined.
    """
    rows = len(arrays[0])
    arrays = jnp.arange(rows, dtype=jnp.uint32), *arrays
    whole = rows // self._at_once * self._at_once

    def add(sums, some):
      new, joined = run(*some)
      return jax.tree.map(jnp.add, sums, new), joined

    sums, joined = jax.lax.scan(add, start, jax.tree.map(
        lambda x: x[:whole].reshape(-1, self._at_once, *x.shape[1:]), arrays
    ))
    joined = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), joined)
    if whole == rows:
      return sums, joined
    sums, rest = add(sums, jax.tree.map(lambda x: x[whole:], arrays))
    return sums, jax.tree.map(
        lambda *parts: jnp.concatenate(parts), joined, rest
    )

  def scores(self, query, key, of_segments):
    """`[rows, heads, queries, keys]`.

    Products and the biases of segments are made before: in the loop that takes
    the exponentials they make it ten times as slow.
    """
    scores = jax.lax.optimization_barrier(
        _multiply('rhqd,rhkd->rhqk', query, key)
    )
    return sum(self._biases, scores + of_segments)

  def drop(self, weights, numbers):
    """Zeroes some, the same of a row whenever it comes."""
    return self._drop(weights, numbers[0] * np.uint32(self._entries))


def _swap(array):
  """`[rows, length, heads, features]` to heads first, and back."""
  return array.swapaxes(1, 2)


def _multiply(equation, lhs, rhs):
  """Rounded as the narrower of the operands, with float32 sums."""
  dtype = min(lhs.dtype, rhs.dtype, key=lambda dtype: dtype.itemsize)
  return layers.product(equation, lhs, rhs, dtype, jnp.float32)


def _sum_to(array, shape):
  axes = tuple(
      axis for axis, (have, want) in enumerate(
          zip(array.shape, shape, strict=True)
      ) if have != want or axis == 0
  )
  return array.sum(axes, keepdims=True)
