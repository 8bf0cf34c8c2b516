"""Batches of pairs of a query and a passage, for training a cross-encoder."""

import dataclasses
from collections.abc import Callable
from typing import Any

import flax.struct
import numpy as np

from neg_contrast.batches import (
  augmentation,
  batcher,
  packed,
  packing,
  text_pairs,
)
from neg_contrast.batches import row_length as row_length_lib
from neg_contrast.data import examples as examples_lib
from neg_contrast.data import inputs
from neg_contrast.data import sequences as sequences_lib


@flax.struct.dataclass
class PairBatch:
  """What a cross-encoder is trained on. B queries, K candidates of each.

  Attributes:
    sequences: packed pairs, with a leading `groups` axis.
    candidate_slots: `[B, K] int32`, index of each pair among the
      `groups * slots` scores; the positive in column 0; 0 where there is none.
    is_candidate: `[B, K] bool`.
    negative_sources: `[B, K - 1] int32`, number of the source of each negative;
      -1: there is none.
    teacher_scores: `[B, K] float32`, as of `batcher.Batch`.
    weights: `[B] float32`, as of `batcher.Batch`.
  """

  sequences: packed.PackedSequences
  candidate_slots: Any
  is_candidate: Any
  negative_sources: Any
  teacher_scores: Any = None
  weights: Any = None


@dataclasses.dataclass(frozen=True)
class PairBatcher:
  """Makes the batch of any step by random access.

  Attributes:
    examples: the training examples.
    batch_size: B.
    groups: groups a batch is packed into.
    row_length: tokens a packed row holds.
    seed: of the order of the data.
    draw: draws K - 1 negatives of each query.
    query_tokens: input sequences of query rows.
    passage_tokens: input sequences of passage rows, whole or cut.
    teacher: scores the candidates of some queries; None: there is none.
    start: see `text_pairs.join`.
    augment: changes queries and positives, see `augmentation.Augmentation`.
    row_multiple: what the rows of a group are filled up to.
  """

  examples: examples_lib.Examples
  batch_size: int
  groups: int
  row_length: int
  seed: int
  draw: batcher.Draw
  query_tokens: batcher.Tokens
  passage_tokens: batcher.CutTokens
  teacher: batcher.Teacher | None = None
  start: tuple[int, ...] = ()
  augment: Callable[..., sequences_lib.AnySequences] = augmentation.nothing
  row_multiple: int = 1

  def with_fitted_rows(
      self, longest: int, even_row_length: int, steps: int
  ) -> 'PairBatcher':
    """The same with rows that suit the data, see `row_length`.

    A function of seed and settings: they are chosen by the first batches.

    Args:
      longest: tokens a pair may have.
      even_row_length: see `row_length`.
      steps: of the training.
    """
    sampled = list(map(self._lengths, row_length_lib.sampled_steps(
        len(self._lengths(0))
    )))
    lengths, multiples = row_length_lib.fit_rows(
        {'pairs': sampled}, self.groups, {'pairs': longest}, even_row_length,
        steps,
    )
    return dataclasses.replace(
        self, row_length=lengths['pairs'], row_multiple=multiples['pairs']
    )

  def _lengths(self, step):
    """Of all pairs of a step."""
    queries, passages = self._candidates(step, self._numbers(step))[-1]
    return text_pairs.pair_lengths(
        queries.lengths, passages.lengths, self.start
    )

  def __call__(self, step: int) -> tuple[PairBatch, batcher.BatchStats]:
    """The batch of a step, as numpy arrays."""
    numbers = self._numbers(step)
    query_rows, rows, sources, (queries, passages) = self._candidates(
        step, numbers
    )
    is_candidate = rows >= 0
    pairs = text_pairs.join(queries, passages, self.start)
    layout = packing.plan(
        pairs.lengths, self.groups, self.row_length,
        slots=-(-rows.size // self.groups), multiple=self.row_multiple,
    )
    slots = np.zeros(rows.shape, np.int32)
    slots[is_candidate] = layout.flat_slot
    return PairBatch(
        sequences=text_pairs.fill(layout, pairs),
        candidate_slots=slots,
        is_candidate=is_candidate,
        negative_sources=sources,
        teacher_scores=None if self.teacher is None else self.teacher(
            query_rows, rows
        ),
        weights=self.examples.weights_of(numbers),
    ), batcher.BatchStats(
        useful_tokens=int(pairs.lengths.sum()),
        processed_tokens=layout.tokens,
        values={'missing_negatives': int((~is_candidate).sum())},
    )

  def _numbers(self, step):
    return batcher.example_numbers(
        len(self.examples), self.batch_size, self.seed, step
    )

  def _candidates(self, step, numbers):
    """Queries, passage rows `[B, K]`, sources of the negatives, and the texts.
    """
    query_rows = self.examples.query_rows[numbers]
    drawn = self.draw(step, numbers, query_rows)
    rows = np.concatenate(
        [self.examples.positive_rows[numbers, None], drawn.rows], axis=1
    )
    is_candidate = rows >= 0
    queries, _ = np.nonzero(is_candidate)
    positives = np.searchsorted(queries, np.arange(len(rows)))
    cuts = np.tile(np.array(inputs.WHOLE, np.int32), (len(queries), 1))
    if self.examples.cuts is not None:
      cuts[positives] = self.examples.cuts[numbers]
    return query_rows, rows, drawn.sources, (
        self.augment(
            'query', step, numbers, self.query_tokens(query_rows)
        ).take(queries),
        self.augment(
            'passage', step, numbers,
            self.passage_tokens(rows[is_candidate], cuts),
            positives,
        ),
    )
