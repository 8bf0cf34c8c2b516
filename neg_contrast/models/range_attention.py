"""Attention over long packed rows as one kernel for TPUs. Pure.

A token attends to a range of its row: to its segment, cut by the layer's window
and by causality. So a mask is two numbers a token (Wang et al., "FlashMask:
Efficient and Rich Mask Extension of FlashAttention", 2024), and blocks of keys
that no query of a block reaches are left out, of other segments too: a row of
8,192 tokens in segments of 140 costs little more than rows of 384 do.

Dao, "FlashAttention-2", 2023, algorithms 1 and 2, with the keys and values of a
row, of as many heads as fill a vector, at hand at once.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Int

from neg_contrast.batches import packed
from neg_contrast.models import flash_attention, kernel_call
from neg_contrast.models import pattern as pattern_lib

_LANES = 128  # Of a TPU's vectors.
_SIZE = 256  # Tokens of a block.
_NOWHERE = -1e30  # The score of a token that is not attended to.
_LEAST_MEMORY = 16 * 2**20  # Bytes that a kernel has unasked: all of a v4.
_MEMORY = 60 * 2**20  # Of later TPUs, which have 64 or 128 MiB.
_BLOCKS = 2 * 2**20  # What the blocks of queries take of it, about.


def kernel(
    head_features: int,
    pattern: pattern_lib.Pattern,
    interpret: bool = False,
) -> flash_attention.Kernel:
  """In Pallas; the tokens of a segment stand side by side.

  Args:
    head_features: of a head.
    pattern: of the layer.
    interpret: run it step by step in XLA, on any platform.
  """

  def forward(query, key, value, segment_ids):
    call = _Call(query.shape, head_features, pattern, interpret)
    mixed, logs = call.forward(segment_ids, query, key, value)
    return mixed, (mixed, logs)

  def backward(query, key, value, gradient, segment_ids, mixed, logs):
    call = _Call(query.shape, head_features, pattern, interpret)
    return call.backward(
        segment_ids, query, key, value, gradient, mixed, logs
    )

  return flash_attention.Kernel(forward, backward)


def longest_row(
    device_kind: str, itemsize: int, head_features: int
) -> int:
  """Tokens of the longest row whose backward pass a device has memory for.

  Args:
    device_kind: of a TPU.
    itemsize: bytes of a number.
    head_features: of a head.
  """
  memory = _LEAST_MEMORY if device_kind == 'TPU v4' else _MEMORY
  width = math.lcm(head_features, _LANES)
  most = (memory - _BLOCKS) // _token_bytes(itemsize, width)
  return most // _SIZE * _SIZE


def key_ranges(
    segment_ids: Int[packed.AnyArray, 'rows length'],
    pattern: pattern_lib.Pattern,
) -> tuple[Int[Array, 'rows length'], Int[Array, 'rows length']]:
  """Places of the first and the last token that each token attends to.

  Args:
    segment_ids: `[rows, length] int32`, equal ones side by side.
    pattern: of the layer.
  """
  length = segment_ids.shape[1]
  places = jnp.broadcast_to(
      jnp.arange(length, dtype=jnp.int32), segment_ids.shape
  )
  changes = segment_ids[:, 1:] != segment_ids[:, :-1]
  edge = jnp.ones_like(changes, shape=(len(segment_ids), 1))
  starts = jnp.concatenate([edge, changes], axis=1)
  ends = jnp.concatenate([changes, edge], axis=1)
  first = jax.lax.cummax(jnp.where(starts, places, 0), axis=1)
  last = jax.lax.cummin(
      jnp.where(ends, places, length), axis=1, reverse=True
  )
  if pattern.window is not None:
    first = jnp.maximum(first, places - pattern.window)
    last = jnp.minimum(last, places + pattern.window)
  return first, jnp.minimum(last, places) if pattern.causal else last


class _Call(kernel_call.KernelCall):
  """In Pallas for TPUs."""

  @property
  def size(self) -> int:
    """Tokens of a block: small ones, where windows are."""
    is_small = self.has_window_of(_LANES) or self.shape[1] <= _LANES
    return _LANES if is_small else _SIZE

  @property
  def width(self) -> int:
    """Features that a program takes."""
    return flash_attention.part_width(self.shape[2], self.head_features)

  @property
  def heads(self) -> int:
    """Heads of a program."""
    return self.width // self.head_features

  def forward(self, segment_ids, *arrays):
    """Mixed values, and the logarithms of the sums of each head's softmax."""
    return_logs = jax.ShapeDtypeStruct(
        (self.shape[0], self.shape[2] // self.width, self.heads, self.length),
        jnp.float32,
    )
    mixed, logs = self._run(
        _forward, segment_ids, arrays, ('block', 'row', 'row'), (),
        [(self.padded(arrays[0]), 'block'), (return_logs, 'logs')],
        products=2,
    )
    return mixed[:, : self.shape[1]], logs

  def backward(self, segment_ids, query, key, value, gradient, mixed, logs):
    """Gradients of query, key and value."""
    both = gradient.astype(jnp.float32) * mixed.astype(jnp.float32)
    means = self.padded(both).reshape(
        len(both), self.length, -1, self.heads, self.head_features
    ).sum(-1).transpose(0, 2, 3, 1)
    like = self.padded(query)
    gradients = self._run(
        _backward, segment_ids, (query, key, value, gradient),
        ('block', 'row', 'row', 'block'), (logs, means),
        [(like, 'block'), (like, 'row'), (like, 'row')],
        scratch_shapes=[pltpu.VMEM((self.length, self.width), jnp.float32)] * 2,
        products=5,
    )
    return tuple(a[:, : self.shape[1]] for a in gradients)

  def _run(
      self, function, segment_ids, arrays, kinds, sums, results, products,
      scratch_shapes=(),
  ):
    size, length, width = self.size, self.length, self.width
    rows, parts = self.shape[0], self.shape[2] // width
    blocks = length // size
    first, last = (
        self._with_own(x) for x in key_ranges(segment_ids, self.pattern)
    )
    by_block = lambda x: x.reshape(rows, blocks, size)
    bounds = jnp.stack([
        by_block(first).min(-1) // size, by_block(last).max(-1) // size + 1,
    ], axis=1)
    block_of = {
        'block': pl.BlockSpec((None, size, width), lambda r, p, b: (r, b, p)),
        'row': pl.BlockSpec((None, length, width), lambda r, p, b: (r, 0, p)),
        'logs': pl.BlockSpec(
            (None, None, self.heads, size), lambda r, p, b: (r, p, 0, b)
        ),
        'ends': pl.BlockSpec((None, 1, size), lambda r, p, b: (r, 0, b)),
        'bounds': pl.BlockSpec(
            (None, 2, blocks), lambda r, p, b: (r, 0, 0),
            memory_space=pltpu.SMEM,
        ),
    }
    kinds = 'bounds', 'ends', 'ends', *kinds, *('logs' for _ in sums)
    pairs = self.pairs(size)
    return pl.pallas_call(
        functools.partial(
            function, head_features=self.head_features, size=size
        ),
        grid=(rows, parts, blocks),
        out_shape=[jax.ShapeDtypeStruct(a.shape, a.dtype) for a, _ in results],
        in_specs=[block_of[kind] for kind in kinds],
        out_specs=[block_of[kind] for _, kind in results],
        scratch_shapes=scratch_shapes,
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=('parallel', 'parallel', 'arbitrary'),
            vmem_limit_bytes=self._memory(arrays[0].dtype.itemsize),
        ),
        cost_estimate=pl.CostEstimate(
            flops=2 * products * pairs * self.shape[2],
            transcendentals=pairs * self.shape[2] // self.head_features,
            bytes_accessed=(len(arrays) + len(results)) * rows * length
            * self.shape[2] * arrays[0].dtype.itemsize,
        ),
        interpret=self.interpret,
        name=f'range_attention{function.__name__}',
    )(bounds, first[:, None], last[:, None], *map(self.padded, arrays), *sums)

  def _with_own(self, places):
    """What fills the last block attends to itself."""
    rest = jnp.arange(places.shape[1], self.length, dtype=jnp.int32)
    rest = jnp.broadcast_to(rest, (len(places), len(rest)))
    return jnp.concatenate([places, rest], axis=1)

  def _memory(self, itemsize) -> int:
    needed = self.length * _token_bytes(itemsize, self.width) + 6 * _BLOCKS
    return max(_LEAST_MEMORY, needed)


def _token_bytes(itemsize, width):
  """Keys, values and their gradients twice, and sums of these in float32."""
  return width * (2 * 4 * itemsize + 2 * 4)


def _forward(
    bounds, first, last, query, key, value, mixed, logs, *, head_features, size
):
  width = query.shape[-1]
  heads = range(width // head_features)
  onlys = _onlys(width, head_features)
  queries = [only(query[...]) for only in onlys]
  row = flash_attention.head_numbers((width, 1), head_features)
  of_heads = lambda numbers: sum(
      jnp.where(row == head, numbers[head], 0.0) for head in heads
  )

  def step(at, carry):
    total, tops, sums = carry
    keys, values, allowed = _block(at, size, key, value, first, last)
    new_tops, new_sums, scales, added = [], [], [], 0.0
    for head in heads:
      scores = flash_attention.dot(keys, queries[head], 1, 1)
      scores = jnp.where(allowed, scores, _NOWHERE)
      top = jnp.maximum(tops[head], scores.max(0, keepdims=True))
      weights = jnp.exp(scores - top)
      scale = jnp.exp(tops[head] - top)
      new_tops.append(top)
      new_sums.append(sums[head] * scale + weights.sum(0, keepdims=True))
      scales.append(scale)
      added += flash_attention.dot(
          onlys[head](values), weights.astype(values.dtype), 0, 0
      )
    return total * of_heads(scales) + added, tuple(new_tops), tuple(new_sums)

  each = lambda fill: tuple(
      jnp.full((1, size), fill, jnp.float32) for _ in heads
  )
  block = pl.program_id(2)
  total, tops, sums = jax.lax.fori_loop(
      bounds[0, block], bounds[1, block], step,
      (jnp.zeros((width, size), jnp.float32), each(_NOWHERE), each(0.0)),
  )
  total *= of_heads([1 / one for one in sums])
  mixed[...] = total.T.astype(mixed.dtype)
  for head in heads:
    logs[pl.ds(head, 1)] = tops[head] + jnp.log(sums[head])


def _backward(
    bounds, first, last, query, key, value, gradient, logs, means,
    query_gradient, key_gradient, value_gradient, for_keys, for_values,
    *, head_features, size,
):
  width, dtype = query.shape[-1], query.dtype
  heads = range(width // head_features)
  onlys = _onlys(width, head_features)
  own = [(only(query[...]), only(gradient[...])) for only in onlys]
  block = pl.program_id(2)

  @pl.when(block == 0)
  def _():
    for_keys[...] = jnp.zeros_like(for_keys)
    for_values[...] = jnp.zeros_like(for_values)

  def step(at, for_query):
    keys, values, allowed = _block(at, size, key, value, first, last)
    for_key, for_value = jnp.zeros((2, size, width), jnp.float32)
    for head in heads:
      queries, gradients = own[head]
      scores = flash_attention.dot(keys, queries, 1, 1)
      scores = jnp.where(allowed, scores, _NOWHERE)
      weights = jnp.exp(scores - logs[pl.ds(head, 1)])
      for_value += flash_attention.dot(weights.astype(dtype), gradients, 1, 0)
      for_weights = flash_attention.dot(values, gradients, 1, 1)
      for_scores = weights * (for_weights - means[pl.ds(head, 1)])
      for_scores = for_scores.astype(dtype)
      for_key += flash_attention.dot(for_scores, queries, 1, 0)
      for_query += flash_attention.dot(for_scores, onlys[head](keys), 0, 0)
    some = _places(at, size)
    for_keys[some] += for_key
    for_values[some] += for_value
    return for_query

  for_query = jax.lax.fori_loop(
      bounds[0, block], bounds[1, block], step,
      jnp.zeros((size, width), jnp.float32),
  )
  query_gradient[...] = for_query.astype(dtype)

  @pl.when(block == pl.num_programs(2) - 1)
  def _():
    key_gradient[...] = for_keys[...].astype(dtype)
    value_gradient[...] = for_values[...].astype(dtype)


def _onlys(width, head_features):
  """For each head, what sets the features of the others to zero."""
  return [flash_attention.of_head(head, head_features, width)
          for head in range(width // head_features)]


def _places(at: Any, size: int) -> Any:
  return pl.ds(pl.multiple_of(at * size, size), size)


def _block(at, size, key, value, first, last):
  """Keys and values of a block, and `[keys, queries]` of who attends."""
  some = _places(at, size)
  places = at * size + jax.lax.broadcasted_iota(jnp.int32, (size, 1), 0)
  allowed = (places >= first[...]) & (places <= last[...])
  return key[some], value[some], allowed
