"""Encodes many sequences into one table, packed, on every device of the mesh.

Work is cut into blocks by row, and every block into groups of a fixed number of
sequences. A device computes one group at a time, so that the bytes of a vector
depend on its block alone, not on the number of devices.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Float, Int

from neg_contrast.data import packing
from neg_contrast.data import sequences as sequences_lib
from neg_contrast.models import dual_encoder

_GROUPS_PER_BLOCK = 64


class TableEncoder:
  """Encodes sequences with one tower."""

  def __init__(
      self,
      encoder: dual_encoder.Encoder,
      mesh: Mesh,
      row_length: int,
      chunk_tokens: int,
  ):
    """Sets up; compiles at first use.

    Args:
      encoder: the encoder module.
      mesh: devices to use; groups are spread over its `data` axis.
      row_length: tokens of a packed row, at least the longest sequence.
      chunk_tokens: tokens a device encodes at once, roughly.
    """
    self._mesh = mesh
    self._row_length = row_length
    self._dim = encoder.spec.dim
    self._chunk_tokens = chunk_tokens
    by_group = NamedSharding(mesh, PartitionSpec('data'))
    self._put = lambda batch: jax.device_put(batch, by_group)
    self._encode = jax.jit(
        lambda params, batch: dual_encoder.encode(encoder, params, batch, None)
    )

  def __call__(
      self,
      tower_params: Any,
      tokens: Callable[[np.ndarray], sequences_lib.Sequences],
      lengths: Int[np.ndarray, ' sequences'],
      on_progress: Callable[[int], None] | None = None,
      out: Any = None,
      span: range | None = None,
  ) -> Any:
    """Encodes sequences 0 .. n-1, or a span of them.

    Args:
      tower_params: parameters of the tower, on the mesh.
      tokens: `[n] int` numbers of sequences -> their token ids.
      lengths: `[sequences] int`, tokens of each.
      on_progress: called with the number of sequences done so far.
      out: `[sequences, features] float32` to write to by slices, such as a
        mapped file. It begins with the span.
      span: which of the sequences; whole blocks, so that a vector's bytes do
        not depend on it.

    Returns:
      `[sequences, features] float32`: `out`, if given.

    Raises:
      ValueError: the span cuts a block.
    """
    slots, size = self._slots(lengths), self.block_rows(lengths)
    span = range(len(lengths)) if span is None else span
    if span.start % size or (span.stop % size and span.stop != len(lengths)):
      raise ValueError(f'{span} cuts a block of {size} sequences')

    def say(start: int, done: int) -> None:
      if on_progress:
        on_progress(start + done)

    if out is None:
      out = np.empty((len(span), self._dim), np.float32)
    for first in range(span.start, span.stop, size):
      rows = np.arange(first, min(first + size, span.stop))
      start = first - span.start
      out[start : start + len(rows)] = self._encode_block(
          tower_params, tokens(rows), slots,
          functools.partial(say, start),
      )
    return out

  def block_rows(self, lengths: Int[np.ndarray, ' sequences']) -> int:
    """Sequences in a block, but the last of them."""
    return self._slots(lengths) * _GROUPS_PER_BLOCK

  def _slots(self, lengths: Int[np.ndarray, ' sequences']) -> int:
    """Sequences in a group."""
    mean = max(1.0, float(np.mean(lengths)) if len(lengths) else 1.0)
    return 2 ** max(0, round(math.log2(max(1.0, self._chunk_tokens / mean))))

  def _encode_block(
      self,
      tower_params: Any,
      sequences: sequences_lib.Sequences,
      slots: int,
      on_progress: Callable[[int], None],
  ) -> Float[np.ndarray, 'sequences features']:
    groups = -(-len(sequences) // slots)
    layout = packing.plan(sequences.lengths, groups, self._row_length, slots)
    if groups == 1:  # Few texts at a time: compile for few numbers of rows.
      layout = dataclasses.replace(
          layout, rows=1 << (layout.rows - 1).bit_length()
      )
    batch = packing.fill(layout, sequences)
    devices = self._mesh.shape['data']
    outputs: list[Any] = []
    for first in range(0, groups, devices):
      part = jax.tree.map(
          lambda a, first=first: _take_groups(a, first, devices), batch
      )
      vecs = self._encode(tower_params, self._put(part))
      if outputs:  # At most one step ahead of the device.
        outputs[-1] = np.asarray(outputs[-1])
        on_progress(first * slots)
      outputs.append(vecs)
    table = np.concatenate([np.asarray(o) for o in outputs])
    on_progress(len(sequences))
    return table.reshape(-1, table.shape[-1])[layout.flat_slot]


def _take_groups(array: np.ndarray, first: int, count: int) -> np.ndarray:
  """`count` groups from `first` on; empty ones beyond the end."""
  part = array[first : first + count]
  missing = count - len(part)
  return np.pad(part, [(0, missing)] + [(0, 0)] * (part.ndim - 1))


