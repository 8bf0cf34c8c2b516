"""Encodes many sequences into one table, packed, on every device of the mesh.

`TextEncoder` and `PairScorer` give it the tokens of texts, and of pairs.

Work is cut into blocks of sequences. A block is packed as a whole, and its rows
are cut into groups of a fixed number, while devices work on the block before.
A device computes one group at a time, so that the bytes of a vector depend on
its block alone, not on the number of devices.
"""

import collections
import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Int

from neg_contrast import cpu, errors, progress
from neg_contrast.batches import packed, packing, prefetch
from neg_contrast.batches import row_length as row_length_lib
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import cross_encoder, dual_encoder
from neg_contrast.retrieval import turns
from neg_contrast.settings import config as config_lib

_GROUPS_PER_BLOCK = 64
_SHORTEST_ROW = 64
_MANY, _SAMPLE = 256, 2048  # Sequences.


@dataclasses.dataclass(frozen=True)
class EncodingSettings:
  """How a model is made to encode, and how what it encodes is kept.

  Attributes:
    model: compute settings, such as `dtype` and `attention`.
    index: `chunk_tokens`; `table_rows` and `embedding_dtype` of tables on disk.
    mesh: devices to use.
    row_length: tokens of a packed row, if more than the longest sequence; 0:
      as suits the texts at hand.
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
    packing_seconds: for which they waited for the host to pack a block.
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
      row_length: tokens of a packed row, at least `longest`; 0: as suits the
        sequences at hand, see `_row_tokens`.
      fill: packs what `tokens` gives; `text_pairs.fill` packs pairs.
    """
    self.work = Work()
    self._mesh = mesh
    self._longest, self._row_length = longest, row_length
    self._even_row_length = encoder.spec.transformer.even_row_length
    self._features, self._fill = encoder.features, fill
    self._chunk_tokens = chunk_tokens
    by_group = NamedSharding(mesh, PartitionSpec('data'))
    self._put = lambda batch: jax.device_put(batch, by_group)
    self._encode = _program(encoder, mesh)

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
      UserError: the memory does not suffice.
    """
    size = self.block_rows(lengths)
    span = range(len(lengths)) if span is None else span
    if span.start % size or (span.stop % size and span.stop != len(lengths)):
      raise ValueError(f'{span} cuts a block of {size} sequences')
    if out is None:
      out = np.empty((len(span), self._features), np.float32)
    row_length = self._row_tokens(lengths)
    made = prefetch.prefetch(
        lambda first: self._pack(
            tokens, np.arange(first, min(first + size, span.stop)),
            first - span.start, row_length,
        ), range(span.start, span.stop, size), depth=1,
    )
    less = (f'Set {errors.key("index.chunk_tokens")} below '
            f'{self._chunk_tokens}')
    with (
        contextlib.closing(made), cpu.plain_memory_errors('encoding', less)
    ):
      self._compute(tower_params, self._received(made), out, on_progress)
    return out

  def block_rows(self, lengths: Int[np.ndarray, ' sequences']) -> int:
    """Sequences in a block, but the last of them."""
    mean = max(1.0, float(np.mean(lengths)) if len(lengths) else 1.0)
    return _GROUPS_PER_BLOCK * _power_of_two(self._chunk_tokens / mean)

  def _row_tokens(self, lengths: Int[np.ndarray, ' sequences']) -> int:
    """Tokens of a row, a function of all lengths.

    As `row_length.fit_sequences` says. Of a few sequences, a power of two that
    holds the longest: the few lengths that there are keep the number of
    compilations small.
    """
    if self._row_length:
      return self._row_length
    if len(lengths) >= _MANY:
      some = lengths[:: -(-len(lengths) // _SAMPLE)]
      return row_length_lib.fit_sequences(
          np.append(some, np.max(lengths)), self._even_row_length
      )
    longest, tokens = int(np.max(lengths, initial=1)), _SHORTEST_ROW
    while tokens < longest:
      tokens *= 2
    return min(tokens, max(self._longest, longest))

  def _pack(
      self,
      tokens: Callable[[np.ndarray], Any],
      numbers: Int[np.ndarray, ' sequences'],
      first: int,
      row_length: int,
  ) -> turns.Block:
    """A block, ready for the devices."""
    sequences = tokens(numbers)
    layout = turns.cut_rows(
        packing.plan(sequences.lengths, 1, row_length),
        max(1, self._chunk_tokens // row_length),
    )
    return turns.Block(first, layout, self._fill(layout, sequences))

  def _received(
      self, made: Iterable[tuple[turns.Block, float]]
  ) -> Iterator[turns.Block]:
    """Blocks, with the time spent waiting for them added up."""
    for block, seconds in made:
      self.work.packing_seconds += seconds
      yield block

  def _compute(
      self,
      params: Any,
      blocks: Iterable[turns.Block],
      out: Any,
      on_progress: Callable[[int], None] | None,
  ) -> None:
    """Encodes blocks and writes their vectors."""
    sent: collections.deque[tuple[Any, list[turns.Block]]] = collections.deque()

    def write_next() -> None:
      vecs, owners = sent.popleft()
      done = [block.add(one, out)
              for one, block in zip(np.asarray(vecs), owners, strict=False)]
      if on_progress:
        on_progress(done[-1])

    for turn in turns.turns(blocks, self._mesh.shape['data']):
      self.work.processed_tokens += turn.batch.token_ids.size
      sent.append((self._encode(params, self._put(turn.batch)), turn.blocks))
      if len(sent) > 1:  # At most one step ahead of the device.
        write_next()
    while sent:
      write_next()


@functools.lru_cache(maxsize=16)
def _program(
    encoder: dual_encoder.Encoder | cross_encoder.CrossEncoder, mesh: Mesh
) -> Callable[[Any, Any], Any]:
  """`dual_encoder.encode`, traced and compiled once a process and shape.

  Equal encoders have one program, whatever their weights.
  """
  return _telling(jax.jit(
      lambda params, batch: dual_encoder.encode(encoder, params, batch, None),
      compiler_options=cpu.compiler_options(
          mesh, encoder.operand_dtype or encoder.dtype
      ),
  ))


def _telling(encode: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
  """Shows that it compiles, at the first batch of each shape."""
  shapes_seen = set()

  def run(params, batch):
    shape = batch.token_ids.shape
    if shape in shapes_seen:
      return encode(params, batch)
    shapes_seen.add(shape)
    with progress.busy('compiling the encoder', is_logged=False):
      return encode(params, batch)

  return run


def _power_of_two(number: float) -> int:
  """The nearest one, at least 1."""
  return 2 ** max(0, round(math.log2(max(1.0, number))))
