"""Relative positions of T5's kind, added to the scores of attention. Pure.

Raffel et al., "Exploring the Limits of Transfer Learning with a Unified
Text-to-Text Transformer", section 2.1. The tokens of a text stand side by side
in their row, so that distances in a row are distances in the text.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


def buckets(
    queries: int, keys: int, count: int, max_distance: int, is_decoder: bool
) -> Int[np.ndarray, ' distances']:
  """The bucket of every distance `key - query`, from the least to the greatest.

  Near distances have buckets of their own; far ones share them, in
  logarithmic steps up to `max_distance`. An encoder has one half for keys
  before and one for keys after; in a decoder keys after are bucket 0.
  Float32 in the order of the reference, as bounds of buckets are exact powers.

  Args:
    queries: the last of them stands `queries - 1` after the first key.
    keys: the last of them stands `keys - 1` after the first query.
    count: buckets that there are.
    max_distance: from this distance on all share a bucket.
    is_decoder: whether keys after a query don't count.

  Returns:
    `[queries + keys - 1] int32`; distance `d` at `d + queries - 1`.
  """
  distances = np.arange(1 - queries, keys)
  offset = np.zeros_like(distances)
  if is_decoder:
    distances = np.maximum(-distances, 0)
  else:
    count //= 2
    offset = np.where(distances > 0, count, 0)
    distances = np.abs(distances)
  exact = count // 2
  ratio = np.maximum(distances, 1).astype(np.float32) / np.float32(exact)
  scale = np.float32(np.log(max_distance / exact))
  steps = np.log(ratio) / scale * np.float32(count - exact)
  far = np.minimum(exact + steps.astype(np.int32), count - 1)
  return (offset + np.where(distances < exact, distances, far)).astype(np.int32)


def bias(
    table: Callable[[Array], Array],
    length: int,
    count: int,
    max_distance: int,
    is_decoder: bool = False,
) -> Float[Array, '1 heads length length']:
  """What relative positions add to the scores of all layers.

  Args:
    table: buckets `[...]` to biases `[..., heads]`.
    length: of rows.
    count: see `buckets`.
    max_distance: see `buckets`.
    is_decoder: see `buckets`.
  """
  of_distance = table(jnp.asarray(
      buckets(length, length, count, max_distance, is_decoder)
  ))
  places = jnp.arange(length)
  return jnp.moveaxis(
      of_distance[places[None, :] - places[:, None] + length - 1], -1, 0
  )[None]
