"""Attention over long rows by XLA, in blocks of queries. Pure.

Scores are made for some queries at a time, and again in the backward pass
(Rabe and Staats, "Self-attention Does Not Need O(n^2) Memory", without the
blocks of keys), so that what is held is linear in the length of a row. A local
layer's queries meet the keys within its window and no others, as in Beltagy et
al., "Longformer", section 3.1.
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
from neg_contrast.models import pattern as pattern_lib

_LONGEST_ROW = 1024  # Whose scores are made all at once.
_SCORES = 2**20  # Of a head and a row at once: those of a row of 1,024 tokens.
_LEAST_LOCAL = 128  # Queries of a local block, which fill a matrix unit.
_PREFIXES = 4  # Of keys, that causal queries meet: 5/8 of the products.
_NOWHERE = -1  # The segment of what fills the last block; ids are not negative.


def is_long(length: int) -> bool:
  """Whether rows of so many tokens are taken in blocks.

  A matrix of scores of 1,024 tokens takes 4 MiB a head, one of 8,192 256 MiB.
  """
  return length > _LONGEST_ROW


def attend(
    query: Float[Array, 'rows length heads features'],
    key: Float[Array, 'rows length heads features'],
    value: Float[Array, 'rows length heads features'],
    segment_ids: Int[packed.AnyArray, 'rows length'],
    pattern: pattern_lib.Pattern,
    drop: Callable[..., Array],
    scores: int = _SCORES,
) -> Float[Array, 'rows length heads features']:
  """Softmax attention without scale within segments, as `layers.attend`.

  Args:
    query: `[rows, length, heads, features]`.
    key: like `query`.
    value: like `query`.
    segment_ids: `[rows, length] int32`, not negative.
    pattern: of the layer.
    drop: dropout of the attention weights, as `Dropout.bound` gives it; which
      weights it takes depends on the blocks.
    scores: of a head and a row that are held at once.

  Returns:
    Like `query`.
  """
  length = query.shape[1]
  size = _block_size(length, pattern, scores)
  cut = functools.partial(_blocks, size=size)
  queries, ids = cut(query), cut(jnp.asarray(segment_ids), fill=_NOWHERE)
  dtype = value.dtype
  # Gradients of keys are sums over blocks: float32 keeps their digits.
  key, value = (x.astype(jnp.float32) for x in (key, value))
  run = functools.partial(
      _run, size=size, pattern=pattern, drop=drop, dtype=dtype, scores=scores
  )
  numbers = jnp.arange(len(queries), dtype=jnp.uint32)
  if pattern.window is not None:
    around = functools.partial(_with_neighbours, pattern=pattern)
    mixed = run(
        (numbers, queries, ids,
         (around(cut(key)), around(cut(value)), around(ids, fill=_NOWHERE))),
        first_key=-pattern.window,
    )
  else:
    parts = []
    count = _PREFIXES if pattern.causal else 1
    for some in np.array_split(np.arange(len(queries)), count):
      if not len(some):
        continue
      part = slice(some[0], some[-1] + 1)
      stop = part.stop * size if pattern.causal else length
      parts.append(run(
          (numbers[part], queries[part], ids[part], None),
          (key[:, :stop], value[:, :stop], segment_ids[:, :stop]),
      ))
    mixed = jnp.concatenate(parts)
  joined = mixed.swapaxes(0, 1).reshape(len(query), -1, *query.shape[2:])
  return joined[:, :length]


def _block_size(length, pattern, scores) -> int:
  """Queries of a block: a power of two, and for windows as long as they."""
  if pattern.window is not None:
    return max(_LEAST_LOCAL, 1 << (pattern.window - 1).bit_length())
  most = max(1, min(length, scores // length))
  return 1 << (most.bit_length() - 1)


def _blocks(array, size, fill: Any = 0):
  """`[blocks, rows, size, ...]` of `[rows, length, ...]`."""
  rest = -array.shape[1] % size
  array = jnp.pad(
      array, [(0, 0), (0, rest)] + [(0, 0)] * (array.ndim - 2),
      constant_values=fill,
  )
  cut = array.reshape(len(array), -1, size, *array.shape[2:])
  return cut.swapaxes(0, 1)


def _with_neighbours(blocks, pattern, fill: Any = 0):
  """Each block with what is in the window of its tokens."""
  size, window = blocks.shape[2], pattern.window
  edge = jnp.full_like(blocks[:1], fill)
  before = jnp.concatenate([edge, blocks[:-1]])[:, :, size - window :]
  if pattern.causal:
    return jnp.concatenate([before, blocks], axis=2)
  after = jnp.concatenate([blocks[1:], edge])[:, :, :window]
  return jnp.concatenate([before, blocks, after], axis=2)


def _run(
    blocks, known=None, *, size, pattern, drop, dtype, scores, first_key=None
):
  """Mixed values of blocks: one after the other, or some at once.

  Args:
    blocks: (numbers, queries, segment ids, keys or None) of each.
    known: keys of all, which stand from the first place of the row; None: each
      block has its own.
    size: of a block.
    pattern: see `attend`.
    drop: see `attend`.
    dtype: of operands.
    scores: see `attend`.
    first_key: place of a block's first key, from its first query.
  """

  @functools.partial(jax.checkpoint, prevent_cse=False)
  def attend_in_block(block, known):
    number, query, ids, own = block
    key, value, key_ids = own if known is None else known
    start = number.astype(jnp.int32) * size
    places = start + jnp.arange(size)
    key_places = jnp.arange(key.shape[1])
    if known is None:
      key_places += start + first_key
    together = ids[:, :, None] == key_ids[:, None, :]
    together &= pattern.allows(places[:, None], key_places)
    heads = lambda x: x.astype(dtype).swapaxes(1, 2)
    rows, _, count, _ = query.shape
    first = number * np.uint32(rows * count * size * key.shape[1] % 2**32)
    return layers.attend(
        heads(query), heads(key), heads(value),
        (jnp.where(together[:, None], 0.0, -1e30),),
        functools.partial(drop, first=first),
    ).swapaxes(1, 2)

  numbers, *_, own = blocks
  keys = (own if known is None else known)[0].shape[-3]
  at_once = max(1, scores // (size * keys))
  each = lambda block: attend_in_block(block, known)
  if at_once >= len(numbers):
    return jax.vmap(each)(blocks)
  return jax.lax.map(each, blocks, batch_size=at_once if at_once > 1 else None)
