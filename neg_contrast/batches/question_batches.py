"""Packed batches of (source, target) pairs for a question generator."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import flax.struct
import numpy as np
from jaxtyping import Int

from neg_contrast.batches import batcher, packing
from neg_contrast.data import sequences as sequences_lib


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
    source_tokens: numbers of examples -> their sources, the end included.
    question_tokens: the same of what is to be said, without the end.
    batch_size: examples in a batch.
    groups: groups a batch is packed into.
    row_lengths: tokens a row holds, of `source` and of `target`.
    start_id: what the decoder gets before the first token.
    end_id: what it has to say after the last one.
    seed: of the order of the data.
    held: see `batches.Batcher`; of groups.
  """

  count: int
  source_tokens: batcher.Tokens
  question_tokens: Callable[[np.ndarray], sequences_lib.Sequences]
  batch_size: int
  groups: int
  row_lengths: Mapping[str, int]
  start_id: int
  end_id: int
  seed: int
  held: Callable[[int], np.ndarray] = np.arange

  def __call__(self, step: int) -> tuple[QuestionBatch, batcher.BatchStats]:
    """The batch of a step, as numpy arrays."""
    return self.pack(batcher.example_numbers(
        self.count, self.batch_size, self.seed, step
    ))

  def pack(
      self, numbers: Int[np.ndarray, ' batch']
  ) -> tuple[QuestionBatch, batcher.BatchStats]:
    """A batch of given examples, and its facts.

    A pair shares a row and a segment. So that both fit, pairs are packed by
    whichever takes the larger part of its row.
    """
    sources = self.source_tokens(numbers)
    questions = self.question_tokens(numbers)
    # Sources, and questions with their start or end.
    lengths = sources.lengths, questions.lengths + 1
    wide, narrow = self.row_lengths['source'], self.row_lengths['target']
    layout = packing.plan(
        np.maximum(lengths[0], -(-lengths[1] * wide // narrow)),
        self.groups, wide,
    )
    row, place = np.divmod(layout.start, wide)
    of_targets = dataclasses.replace(
        layout, row_length=narrow,
        start=row * narrow + place * narrow // wide,
    )
    start, end = (sequences_lib.repeated([number], len(numbers))
                  for number in (self.start_id, self.end_id))
    fill = functools.partial(packing.fill, groups=self.held(self.groups))
    packed_sources = fill(layout, sources)
    packed_inputs, packed_targets = (
        fill(of_targets, sequences_lib.Chained(pieces))
        for pieces in ((start, questions), (questions, end))
    )
    return QuestionBatch(
        source_ids=packed_sources.token_ids,
        source_segments=packed_sources.segment_ids,
        input_ids=packed_inputs.token_ids,
        target_ids=packed_targets.token_ids,
        target_segments=packed_targets.segment_ids,
    ), batcher.BatchStats(
        useful_tokens=int(sum(map(np.sum, lengths))),
        processed_tokens=layout.tokens + of_targets.tokens,
    )
