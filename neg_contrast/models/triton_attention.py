"""Attention over packed rows as one kernel for NVIDIA GPUs. Pure.

As `range_attention` on TPUs: a token attends to a range of its row, so that a
mask is two numbers a token, and blocks that nobody reaches are left out. Dao,
"FlashAttention-2", 2023, algorithms 1 and 2. A program has one head: sums of
queries and sums of keys are loops of their own in the backward pass, since
programs of a GPU share no memory that they could add to in order.
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

from neg_contrast.models import flash_attention, kernel_call, range_attention
from neg_contrast.models import pattern as pattern_lib

HEAD_FEATURES = 16, 32, 64, 128
"""Features of a head that the kernel takes: what matrix units do."""

_SIZE = 128  # Tokens of a block.
_LOCAL_SIZE = 64  # The same, where windows are short.
_BACKWARD_SIZE = 32  # Its blocks need twice the registers, and more.
_NOWHERE = -1e30  # The score of a token that is not attended to.


def kernel(
    head_features: int,
    pattern: pattern_lib.Pattern,
    interpret: bool = False,
) -> flash_attention.Kernel:
  """In Pallas by Triton; the tokens of a segment stand side by side.

  Args:
    head_features: of a head, one of `HEAD_FEATURES`.
    pattern: of the layer.
    interpret: run it step by step in XLA, on any platform.
  """

  def forward(query, key, value, segment_ids):
    call = _Call(query.shape, head_features, pattern, interpret)
    mixed, logs = call.forward(segment_ids, query, key, value)
    return mixed, (mixed, logs[:, :, None])  # Four axes: `over_rows`.

  def backward(query, key, value, gradient, segment_ids, mixed, logs):
    call = _Call(query.shape, head_features, pattern, interpret)
    return call.backward(
        segment_ids, (query, key, value, gradient), mixed, logs[:, :, 0]
    )

  return flash_attention.Kernel(forward, backward)


class _Call(kernel_call.KernelCall):
  """In Pallas by Triton."""

  @property
  def size(self) -> int:
    """Tokens of a block: small ones, where windows are."""
    return _LOCAL_SIZE if self.has_window_of(_LOCAL_SIZE) else _SIZE

  def forward(self, segment_ids, query, key, value):
    """Mixed values, and the logarithms of the sums of each head's softmax.

    Args:
      segment_ids: `[rows, length] int32`.
      query: `[rows, length, width]`; key and value alike.
      key: see `query`.
      value: see `query`.

    Returns:
      As `query`, and `[rows, heads, whole blocks] float32`.
    """
    arrays = [self._split(a) for a in (query, key, value)]
    ids = _with_own(segment_ids, self.size)
    ranges = range_attention.key_ranges(ids, self.pattern)
    rows, length, heads, features = arrays[0].shape
    size = self.size
    mixed, logs = pl.pallas_call(
        functools.partial(_forward, size=size),
        grid=(length // size, rows, heads),
        in_specs=[
            _bounds_spec(length // size), *[_token_spec(size)] * 2,
            _block_spec(size, features), *[_row_spec(length, features)] * 2,
        ],
        out_specs=[
            _block_spec(size, features),
            pl.BlockSpec((None, None, size), lambda b, r, h: (r, h, b)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct(arrays[0].shape, query.dtype),
            jax.ShapeDtypeStruct((rows, heads, length), jnp.float32),
        ],
        compiler_params=plgpu.CompilerParams(
            num_warps=4 if features <= 64 else 8, num_stages=2
        ),
        cost_estimate=self._cost(arrays[0], size, 2),
        interpret=self.interpret,
        name='triton_attention_forward',
    )(_bounds(ranges, size), *ranges, *arrays)
    return self._joined(mixed), logs

  def backward(self, segment_ids, inputs, mixed, logs):
    """Gradients of query, key and value.

    Args:
      segment_ids: `[rows, length] int32`.
      inputs: query, key, value, and the gradient of the mixed values.
      mixed: what `forward` gave.
      logs: likewise.
    """
    arrays = [self._split(a) for a in inputs]
    ids = _with_own(segment_ids, self.size)
    ranges = range_attention.key_ranges(ids, self.pattern)
    bounds = _bounds(ranges, _BACKWARD_SIZE), _bounds(
        _query_ranges(ids, self.pattern), _BACKWARD_SIZE
    )
    means = jnp.sum(
        arrays[-1].astype(jnp.float32)
        * self._split(mixed).astype(jnp.float32), -1
    ).swapaxes(1, 2)
    rows, length, heads, features = arrays[0].shape
    size = _BACKWARD_SIZE
    of_row = pl.BlockSpec((None, None, length), lambda b, r, h: (r, h, 0))
    gradients = pl.pallas_call(
        functools.partial(_backward, size=size),
        grid=(length // size, rows, heads),
        in_specs=[
            *[_bounds_spec(length // size)] * 2,
            *[_all_tokens_spec(length)] * 2,
            *[_row_spec(length, features)] * 4, of_row, of_row,
        ],
        out_specs=[_block_spec(size, features)] * 3,
        out_shape=[
            jax.ShapeDtypeStruct(arrays[0].shape, inputs[0].dtype)
        ] * 3,
        compiler_params=plgpu.CompilerParams(num_warps=4, num_stages=2),
        cost_estimate=self._cost(arrays[0], size, 7),
        interpret=self.interpret,
        name='triton_attention_backward',
    )(*bounds, *ranges, *arrays, logs, means)
    return tuple(map(self._joined, gradients))

  def _split(self, array):
    """Whole blocks, `[rows, length, heads, head_features]`."""
    return self.padded(array).reshape(
        len(array), self.length, -1, self.head_features
    )

  def _joined(self, array):
    """`[rows, length, width]` of the caller again."""
    rows, length, _ = self.shape
    return array.reshape(rows, self.length, -1)[:, :length]

  def _cost(self, array, size, products) -> pl.CostEstimate:
    pairs = self.pairs(size) * array.shape[2]
    return pl.CostEstimate(
        flops=2 * products * pairs * self.head_features, transcendentals=pairs,
        bytes_accessed=2 * products * array.size * array.dtype.itemsize,
    )


def _with_own(segment_ids, size):
  """What fills the last block is a segment of its own."""
  rest = -segment_ids.shape[1] % size
  return jnp.pad(segment_ids, ((0, 0), (0, rest)), constant_values=-1)


def _query_ranges(segment_ids, pattern):
  """Places of the first and the last token that attend to each token."""
  first, last = range_attention.key_ranges(segment_ids[:, ::-1], pattern)
  end = segment_ids.shape[1] - 1
  return end - last[:, ::-1], end - first[:, ::-1]


def _bounds(ranges, size):
  """`[rows, 2, blocks] int32`: the first block and the one after the last."""
  first, last = (x.reshape(len(x), -1, size) for x in ranges)
  return jnp.stack([first.min(-1) // size, last.max(-1) // size + 1], axis=1)


def _bounds_spec(blocks):
  return pl.BlockSpec((None, 2, blocks), lambda b, r, h: (r, 0, 0))


def _token_spec(size):
  return pl.BlockSpec((None, size), lambda b, r, h: (r, b))


def _all_tokens_spec(length):
  return pl.BlockSpec((None, length), lambda b, r, h: (r, 0))


def _block_spec(size, features):
  return pl.BlockSpec(
      (None, size, None, features), lambda b, r, h: (r, b, h, 0)
  )


def _row_spec(length, features):
  return pl.BlockSpec(
      (None, length, None, features), lambda b, r, h: (r, 0, h, 0)
  )


def _forward(bounds, first, last, query, key, value, mixed, logs, *, size):
  block = pl.program_id(0)
  queries = query[...]
  reach = first[...][:, None], last[...][:, None]

  def step(at, carry):
    total, top, sums = carry
    some = pl.ds(at * size, size)
    scores = _scores(queries, key[some, :], reach, at, size)
    higher = jnp.maximum(top, scores.max(1))
    weights = jnp.exp(scores - higher[:, None])
    scale = jnp.exp(top - higher)
    added = plgpu.dot(weights.astype(value.dtype), value[some, :])
    return (total * scale[:, None] + added, higher,
            sums * scale + weights.sum(1))

  total, top, sums = jax.lax.fori_loop(
      bounds[0, block], bounds[1, block], step,
      (jnp.zeros(queries.shape, jnp.float32),
       jnp.full(size, _NOWHERE, jnp.float32), jnp.zeros(size, jnp.float32)),
  )
  mixed[...] = (total / sums[:, None]).astype(mixed.dtype)
  logs[...] = top + jnp.log(sums)


def _backward(
    key_bounds, query_bounds, first, last, query, key, value, gradient, logs,
    means, query_gradient, key_gradient, value_gradient, *, size,
):
  block = pl.program_id(0)
  own = pl.ds(block * size, size)

  def weigh(queries_at, keys_at):
    """Weights, and the gradients of scores, of two blocks."""
    queries, keys = (pl.ds(at * size, size) for at in (queries_at, keys_at))
    reach = first[queries][:, None], last[queries][:, None]
    scores = _scores(query[queries, :], key[keys, :], reach, keys_at, size)
    weights = jnp.exp(scores - logs[queries][:, None])
    for_weights = plgpu.dot(gradient[queries, :], value[keys, :].T)
    return weights, weights * (for_weights - means[queries][:, None])

  def for_queries(at, total):
    _, for_scores = weigh(block, at)
    keys = key[pl.ds(at * size, size), :]
    return total + plgpu.dot(for_scores.astype(keys.dtype), keys)

  def for_keys(at, totals):
    for_key, for_value = totals
    weights, for_scores = weigh(at, block)
    some = pl.ds(at * size, size)
    queries, gradients = query[some, :], gradient[some, :]
    return (
        for_key + plgpu.dot(for_scores.astype(queries.dtype).T, queries),
        for_value + plgpu.dot(weights.astype(gradients.dtype).T, gradients),
    )

  zeros = jnp.zeros(key[own, :].shape, jnp.float32)
  totals = jax.lax.fori_loop(
      query_bounds[0, block], query_bounds[1, block], for_keys, (zeros, zeros)
  )
  for out, total in zip((key_gradient, value_gradient), totals, strict=True):
    out[...] = total.astype(out.dtype)
  query_gradient[...] = jax.lax.fori_loop(
      key_bounds[0, block], key_bounds[1, block], for_queries, zeros
  ).astype(query_gradient.dtype)


def _scores(queries, keys, reach, at, size):
  """`[queries, keys] float32` of a block of keys."""
  places = at * size + jnp.arange(size)[None]
  allowed = (places >= reach[0]) & (places <= reach[1])
  return jnp.where(allowed, plgpu.dot(queries, keys.T), _NOWHERE)
