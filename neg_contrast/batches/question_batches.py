"""Packed batches of (source, target) pairs for a question generator."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import flax.struct
import numpy as np
from jaxtyping import Int

from neg_contrast.batches import batcher, packing
from neg_contrast.batches import row_length as row_length_lib
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
    row_lengths: tokens a row holds, of `source` and of `target`; see
      `row_lengths`.
    start_id: what the decoder gets before the first token.
    end_id: what it has to say after the last one.
    seed: of the order of the data.
    held: see `batches.Batcher`; of groups.
    row_multiple: what the rows of a group are filled up to.
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
  row_multiple: int = 1

  def with_fitted_rows(
      self, longest_source: int, longest_target: int, even_row_length: int,
      steps: int,
  ) -> 'QuestionBatcher':
    """The same with rows that suit the data, see `row_length`.

    A function of seed and settings: they are chosen by the first batches.

    Args:
      longest_source: tokens a source may have.
      longest_target: tokens a target may have.
      even_row_length: see `row_length`.
      steps: of the training.
    """
    sampled = list(map(
        self._lengths, row_length_lib.sampled_steps(self.batch_size)
    ))
    wide = row_length_lib.fit_batches(
        sampled, self.groups, longest_source, even_row_length
    )
    return dataclasses.replace(
        self, row_lengths=row_lengths(wide, longest_source, longest_target),
        row_multiple=row_length_lib.fit_multiples(
            {'source': sampled}, self.groups, {'source': wide}, steps
        )['source'],
    )

  def _lengths(self, step):
    """Of all pairs of a step, see `_of_pairs`."""
    numbers = self._numbers(step)
    return self._of_pairs(self.source_tokens(numbers).lengths,
                          self.question_tokens(numbers).lengths + 1)

  def __call__(self, step: int) -> tuple[QuestionBatch, batcher.BatchStats]:
    """The batch of a step, as numpy arrays."""
    return self.pack(self._numbers(step))

  def _numbers(self, step):
    return batcher.example_numbers(
        self.count, self.batch_size, self.seed, step
    )

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
        self._of_pairs(*lengths), self.groups, wide, multiple=self.row_multiple
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

  def _of_pairs(self, sources, targets):
    """Tokens of a row of sources that each pair takes, by both its lengths."""
    wide, narrow = self.row_lengths['source'], self.row_lengths['target']
    return np.maximum(sources, -(-targets * wide // narrow))


def row_lengths(
    wide: int, longest_source: int, longest_target: int
) -> dict[str, int]:
  """Tokens that a packed row holds, of sources and of targets.

  Args:
    wide: those of sources, at least `longest_source`.
    longest_source: tokens a source may have.
    longest_target: tokens a target may have.
  """
  return {'source': wide,
          'target': -(-longest_target * wide // longest_source)}
