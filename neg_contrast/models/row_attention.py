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
  return _swap(_attend(
      drop.rate, *map(_swap, (query, key, value)), biases, drop.words,
      jnp.asarray(segment_ids), jnp.asarray(window, jnp.int32),
  ))


# From here on operands are `[rows, heads, length, features]`.
@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(rate, query, key, value, biases, words, segment_ids, window):
  return _forward(
      rate, query, key, value, biases, words, segment_ids, window
  )[0]


def _forward(rate, query, key, value, biases, words, segment_ids, window):
  """The results, and what the backward pass needs."""
  rows = _Rows(query, layers.Dropped(rate, words))

  def attend_in(numbers, query, key, value, of_segments):
    scores = rows.scores('rhqd,rhkd->rhqk', query, key, (of_segments, *biases))
    peaks = scores.max(-1, keepdims=True)
    weights = jnp.exp(scores - peaks)
    totals = weights.sum(-1, keepdims=True)
    dropped = rows.drop(weights, numbers)
    mixed = _multiply('rhqk,rhkd->rhqd', dropped, value) / totals
    return (), (mixed.astype(value.dtype), peaks + jnp.log(totals))

  _, (mixed, log_totals) = rows.each(
      attend_in, (),
      (query, key, value, layers.segment_bias(segment_ids, window)),
  )
  return mixed, (query, key, value, biases, words, segment_ids, window, mixed,
                 log_totals)


def _backward(rate, kept, gradient):
  """Keys come first in all that is made of pairs of a query and a key.

  So two of the three products that follow have their large matrix as Eigen is
  quick at, and the third has the small one turned: with the large one turned it
  takes three times as long.
  """
  query, key, value, biases, words, segment_ids, window, mixed, totals = kept
  rows = _Rows(query, layers.Dropped(rate, words))
  turned = tuple(bias.swapaxes(2, 3) for bias in biases)

  def gradients_in(
      numbers, query, key, value, of_segments, log_totals, of_totals, gradient
  ):
    scores = rows.scores('rhqd,rhkd->rhkq', query, key, (of_segments, *turned))
    weights = jnp.exp(scores - log_totals)
    dropped = rows.drop(weights, numbers, is_turned=True)
    of_scores = dropped * jax.lax.optimization_barrier(
        _multiply('rhqd,rhkd->rhkq', gradient, value)
    ) - weights * of_totals
    return (
        tuple(_sum_to(of_scores, bias.shape) for bias in turned),
        (_multiply('rhdk,rhkq->rhdq', key.swapaxes(2, 3), of_scores),
         _multiply('rhkq,rhqd->rhkd', of_scores, query),
         _multiply('rhkq,rhqd->rhkd', dropped, gradient)),
    )

  of_biases, (of_query, of_key, of_value) = rows.each(
      gradients_in, tuple(map(jnp.zeros_like, turned)),
      (query, key, value,
       layers.segment_bias(segment_ids, window).swapaxes(2, 3),
       totals.swapaxes(2, 3),
       (gradient.astype(jnp.float32) * mixed).sum(-1)[:, :, None], gradient),
  )
  return (
      of_query.swapaxes(2, 3).astype(query.dtype), of_key.astype(key.dtype),
      of_value.astype(value.dtype),
      tuple(bias.swapaxes(2, 3) for bias in of_biases), None, None, None,
  )


_attend.defvjp(_forward, _backward)


class _Rows:
  """What all rows have in common."""

  def __init__(self, query, drop):
    rows, heads, length, _ = query.shape
    self._drop = drop
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

  def scores(self, equation, query, key, biases):
    """`[rows, heads, queries, keys]`, or keys first.

    Products and the biases of segments are made before: in the loop that takes
    the exponentials they make it ten times as slow.
    """
    scores = jax.lax.optimization_barrier(_multiply(equation, query, key))
    return sum(biases, scores)

  def drop(self, weights, numbers, is_turned=False):
    """Zeroes some, the same of a row whenever it comes, keys first or not."""
    return self._drop(
        weights, numbers[0] * np.uint32(self._entries), is_turned
    )


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
