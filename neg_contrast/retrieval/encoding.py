"""Encodes many sequences into one table, packed, on every device of the mesh.

`TextEncoder` and `PairScorer` give it the tokens of texts, and of pairs.

Work is cut into blocks of sequences. A block is packed as a whole, and its rows
are cut into groups of a fixed number. A device computes one group at a time, so
that the bytes of a vector depend on its block alone, not on the number of
devices.
"""

import dataclasses
import functools
import math
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Float, Int

from neg_contrast.batches import packed, packing
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import cross_encoder, dual_encoder
from neg_contrast.settings import config as config_lib

_GROUPS_PER_BLOCK = 64
_SHORTEST_ROW = 64


@dataclasses.dataclass(frozen=True)
class EncodingSettings:
  """How a model is made to encode, and how what it encodes is kept.

  Attributes:
    model: compute settings, such as `dtype` and `attention`.
    index: `chunk_tokens`; `table_rows` and `embedding_dtype` of tables on disk.
    mesh: devices to use.
    row_length: tokens of a packed row, if more than the longest sequence; 0:
      as few as the texts at hand need.
  """

  model: config_lib.ModelConfig
  index: config_lib.IndexConfig
  mesh: config_lib.MeshConfig
  row_length: int = 0

  @property
  def chunk_tokens(self) -> int:
    """Tokens that a device of this machine encodes at once."""
    return model_lib.chunk_tokens(self.index)


@dataclasses.dataclass
class Work:
  """What an encoder has done so far.

  Attributes:
    processed_tokens: that devices computed, padding included.
    packing_seconds: for which they waited while the host packed a block.
  """

  processed_tokens: int = 0
  packing_seconds: float = 0.0


class TableEncoder:
  """Encodes sequences with one tower."""

  def __init__(
      self,
      encoder: dual_encoder.Encoder | cross_encoder.CrossEncoder,
      mesh: Mesh,
      longest: int,
      chunk_tokens: int,
      row_length: int = 0,
      fill: Callable[[packing.Layout, Any], packed.PackedSequences] = (
          packing.fill
      ),
  ):
    """Sets up; compiles at first use.

    Args:
      encoder: the encoder module of the texts' role, or that of pairs.
      mesh: devices to use; groups are spread over its `data` axis.
      longest: tokens a sequence may have.
      chunk_tokens: tokens a device encodes at once, roughly.
      row_length: tokens of a packed row, at least `longest`; 0: as many as the
        sequences at hand need, see `_row_tokens`.
      fill: packs what `tokens` gives; `text_pairs.fill` packs pairs.
    """
    self.work = Work()
    self._mesh = mesh
    self._longest, self._row_length = longest, row_length
    self._features, self._fill = encoder.features, fill
    self._chunk_tokens = chunk_tokens
    by_group = NamedSharding(mesh, PartitionSpec('data'))
    self._put = lambda batch: jax.device_put(batch, by_group)
    self._encode = jax.jit(
        lambda params, batch: dual_encoder.encode(encoder, params, batch, None)
    )

  def __call__(
      self,
      tower_params: Any,
      tokens: Callable[[np.ndarray], Any],
      lengths: Int[np.ndarray, ' sequences'],
      on_progress: Callable[[int], None] | None = None,
      out: Any = None,
      span: range | None = None,
  ) -> Any:
    """Encodes sequences 0 .. n-1, or a span of them.

    Args:
      tower_params: parameters of the tower, on the mesh.
      tokens: `[n] int` numbers of sequences -> their token ids, as `fill` takes
        them: `Sequences`, or pairs.
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
    row_length, size = self._row_tokens(lengths), self.block_rows(lengths)
    span = range(len(lengths)) if span is None else span
    if span.start % size or (span.stop % size and span.stop != len(lengths)):
      raise ValueError(f'{span} cuts a block of {size} sequences')

    def say(start: int, done: int) -> None:
      if on_progress:
        on_progress(start + done)

    if out is None:
      out = np.empty((len(span), self._features), np.float32)
    for first in range(span.start, span.stop, size):
      rows = np.arange(first, min(first + size, span.stop))
      start = first - span.start
      out[start : start + len(rows)] = self._encode_block(
          tower_params, functools.partial(tokens, rows), row_length,
          functools.partial(say, start),
      )
    return out

  def block_rows(self, lengths: Int[np.ndarray, ' sequences']) -> int:
    """Sequences in a block, but the last of them."""
    mean = max(1.0, float(np.mean(lengths)) if len(lengths) else 1.0)
    return _GROUPS_PER_BLOCK * _power_of_two(self._chunk_tokens / mean)

  def _row_tokens(self, lengths: Int[np.ndarray, ' sequences']) -> int:
    """Tokens of a row.

    Attention costs a token as much as its row is long: questions of 15 tokens
    are better off in rows of 64 than of 256. The few lengths that there are
    keep the number of compilations small.
    """
    if self._row_length:
      return self._row_length
    longest, tokens = int(np.max(lengths, initial=1)), _SHORTEST_ROW
    while tokens < longest:
      tokens *= 2
    return min(tokens, max(self._longest, longest))

  def _encode_block(
      self,
      tower_params: Any,
      read: Callable[[], Any],
      row_length: int,
      on_progress: Callable[[int], None],
  ) -> Float[np.ndarray, 'sequences features']:
    began = time.monotonic()
    sequences = read()
    layout = cut_rows(
        packing.plan(sequences.lengths, 1, row_length),
        max(1, self._chunk_tokens // row_length),
    )
    batch = self._fill(layout, sequences)
    devices = self._mesh.shape['data']
    whole_turns = -(-layout.groups // devices) * devices
    self.work.processed_tokens += whole_turns * layout.rows * row_length
    self.work.packing_seconds += time.monotonic() - began
    outputs: list[Any] = []
    for first in range(0, layout.groups, devices):
      part = jax.tree.map(
          lambda a, first=first: _take_groups(a, first, devices), batch
      )
      vecs = self._encode(tower_params, self._put(part))
      if outputs:  # At most one step ahead of the device.
        outputs[-1] = np.asarray(outputs[-1])
        on_progress(len(sequences) * first // layout.groups)
      outputs.append(vecs)
    table = np.concatenate([np.asarray(o) for o in outputs])
    on_progress(len(sequences))
    return table.reshape(-1, table.shape[-1])[layout.flat_slot]


def cut_rows(layout: packing.Layout, rows: int) -> packing.Layout:
  """Cuts the rows of a single group into groups of so many.

  Rows and slots of a group are the same in all groups, and powers of two where
  there is a choice, so that few shapes are compiled.

  Args:
    layout: of one group.
    rows: of a group, at most.
  """
  size = layout.row_length
  used = int(layout.start.max(initial=0)) // size + 1
  rows = min(rows, 1 << (used - 1).bit_length())
  group = layout.start // (rows * size)
  order = np.argsort(group, kind='stable')
  counts = np.bincount(group, minlength=-(-used // rows))
  slot = np.empty_like(group)
  slot[order] = np.arange(len(group)) - np.repeat(
      np.cumsum(counts) - counts, counts
  )
  return packing.Layout(
      groups=len(counts), rows=rows, row_length=size,
      slots=1 << int(counts.max() - 1).bit_length(),
      group=group, slot=slot, start=layout.start % (rows * size),
  )


def _power_of_two(number: float) -> int:
  """The nearest one, at least 1."""
  return 2 ** max(0, round(math.log2(max(1.0, number))))


def _take_groups(array: np.ndarray, first: int, count: int) -> np.ndarray:
  """`count` groups from `first` on; empty ones beyond the end."""
  part = array[first : first + count]
  missing = count - len(part)
  return np.pad(part, [(0, missing)] + [(0, 0)] * (part.ndim - 1))


