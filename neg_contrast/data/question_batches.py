"""Packed batches of (source, target) pairs for a question generator."""

import dataclasses
from collections.abc import Callable
from typing import Any

import flax.struct
import grain
import numpy as np
from jaxtyping import Int

from neg_contrast.data import batches, packing, sequences

Tokens = Int[np.ndarray, ' tokens']


@flax.struct.dataclass
class QuestionBatch:
  """What a generator is trained on, with a leading `groups` axis.

  Segments 1, 2, ... of a row are pairs, the same in all arrays; 0 is padding.

  Attributes:
    source_ids: `[groups, rows, length] int32`.
    source_segments: like `source_ids`.
    input_ids: `[groups, rows, target] int32`, what the decoder gets: the start,
      then the target without its last token.
    target_ids: like `input_ids`, what it has to say.
    target_segments: like `input_ids`.
  """

  source_ids: Any
  source_segments: Any
  input_ids: Any
  target_ids: Any
  target_segments: Any


@dataclasses.dataclass(frozen=True)
class QuestionBatcher:
  """Makes the batch of any step by random access.

  Attributes:
    count: examples.
    pair: number of an example -> tokens of its source and its target.
    batch_size: examples in a batch.
    groups: groups a batch is packed into.
    row_length: source tokens a row holds.
    target_row_length: target tokens it holds.
    start_id: what the decoder gets before the first token.
    seed: of the order of the data.
  """

  count: int
  pair: Callable[[int], tuple[Tokens, Tokens]]
  batch_size: int
  groups: int
  row_length: int
  target_row_length: int
  start_id: int
  seed: int

  def __call__(self, step: int) -> tuple[QuestionBatch, batches.BatchStats]:
    """The batch of a step, as numpy arrays."""
    order = grain.MapDataset.range(self.count).seed(self.seed)
    order = order.shuffle().repeat()
    first = step * self.batch_size
    return self.pack([
        int(order[first + i]) for i in range(self.batch_size)
    ])

  def pack(
      self, numbers: list[int]
  ) -> tuple[QuestionBatch, batches.BatchStats]:
    """A batch of given examples, and its facts.

    A pair shares a row and a segment. So that both fit, pairs are packed by
    whichever takes the larger part of its row.
    """
    sources, targets = zip(*map(self.pair, numbers), strict=True)
    lengths = np.array([[len(s), len(t)] for s, t in zip(sources, targets,
                                                         strict=True)])
    wide, narrow = self.row_length, self.target_row_length
    layout = packing.plan(
        np.maximum(lengths[:, 0], -(-lengths[:, 1] * wide // narrow)),
        self.groups, wide,
    )
    row, place = np.divmod(layout.start, wide)
    of_targets = dataclasses.replace(
        layout, row_length=narrow,
        start=row * narrow + place * narrow // wide,
    )
    packed_sources = packing.fill(layout, sequences.listed(sources))
    packed_targets = packing.fill(of_targets, sequences.listed(targets))
    inputs = [np.append(np.int32(self.start_id), t[:-1]) for t in targets]
    return QuestionBatch(
        source_ids=packed_sources.token_ids,
        source_segments=packed_sources.segment_ids,
        input_ids=packing.fill(
            of_targets, sequences.listed(inputs)
        ).token_ids,
        target_ids=packed_targets.token_ids,
        target_segments=packed_targets.segment_ids,
    ), batches.BatchStats(
        useful_tokens=int(lengths.sum()),
        processed_tokens=layout.tokens + of_targets.tokens,
    )
