"""Pairs of a query and a passage in one sequence, and batches of them. Pure."""

import dataclasses
from typing import Any

import flax.struct
import numpy as np
from jaxtyping import Int

from neg_contrast.batches import batcher, packed, packing
from neg_contrast.data import examples as examples_lib
from neg_contrast.data import inputs
from neg_contrast.data import sequences as sequences_lib


@dataclasses.dataclass(frozen=True)
class TextPairs:
  """Input sequences of two texts each.

  Attributes:
    sequences: `[CLS] query [SEP] passage [SEP]`.
    starts: `[pairs] int64`, place of the passage's first token in each.
  """

  sequences: sequences_lib.Sequences
  starts: Int[np.ndarray, ' pairs']

  def __len__(self) -> int:
    return len(self.starts)

  @property
  def lengths(self) -> Int[np.ndarray, ' pairs']:
    """`[pairs] int64`."""
    return self.sequences.lengths


def join(
    queries: sequences_lib.AnySequences, passages: sequences_lib.AnySequences
) -> TextPairs:
  """Query n and passage n, one after the other.

  Each was cut to its own length before, so that a long one takes nothing from
  the other.

  Args:
    queries: `[CLS] ... [SEP]`.
    passages: likewise; their [CLS] is left out.
  """
  ends = np.cumsum(passages.lengths)
  passages = sequences_lib.Sequences(
      passages.flat(), ends - passages.lengths + 1, ends
  )
  starts = queries.lengths
  ends = np.cumsum(starts + passages.lengths)
  begins = ends - starts - passages.lengths
  ids = np.empty(int(ends[-1]) if len(ends) else 0, np.int32)
  for part, begin in ((queries, begins), (passages, begins + starts)):
    ids[sequences_lib.runs(begin, part.lengths)] = part.flat()
  return TextPairs(sequences_lib.Sequences(ids, begins, ends), starts)


def pair_lengths(
    query_lengths: Int[np.ndarray, ' pairs'],
    passage_lengths: Int[np.ndarray, ' pairs'],
) -> Int[np.ndarray, ' pairs']:
  """Tokens of what `join` would return."""
  return query_lengths + passage_lengths - 1


def fill(layout: packing.Layout, pairs: TextPairs) -> packed.PackedSequences:
  """As `packing.fill`, with token types: 1 from the passage on."""
  batch = packing.fill(layout, pairs.sequences)
  never = np.iinfo(np.int32).max
  starts = np.full((layout.groups, layout.slots + 1), never, np.int32)
  starts[layout.group, layout.slot + 1] = pairs.starts
  groups = np.arange(layout.groups)[:, None, None]
  is_second = batch.positions >= starts[groups, batch.segment_ids]
  return dataclasses.replace(batch, token_types=is_second.astype(np.int32))


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
  """

  sequences: packed.PackedSequences
  candidate_slots: Any
  is_candidate: Any
  negative_sources: Any


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
  """

  examples: examples_lib.Examples
  batch_size: int
  groups: int
  row_length: int
  seed: int
  draw: batcher.Draw
  query_tokens: batcher.Tokens
  passage_tokens: batcher.CutTokens

  def __call__(self, step: int) -> tuple[PairBatch, batcher.BatchStats]:
    """The batch of a step, as numpy arrays."""
    numbers = batcher.example_numbers(
        len(self.examples), self.batch_size, self.seed, step
    )
    query_rows = self.examples.query_rows[numbers]
    drawn = self.draw(step, numbers, query_rows)
    rows = np.concatenate(
        [self.examples.positive_rows[numbers, None], drawn.rows], axis=1
    )
    is_candidate = rows >= 0
    queries, _ = np.nonzero(is_candidate)
    whole = np.tile(np.array(inputs.WHOLE, np.int32), (len(queries), 1))
    pairs = join(
        self.query_tokens(query_rows).take(queries),
        self.passage_tokens(rows[is_candidate], whole),
    )
    layout = packing.plan(
        pairs.lengths, self.groups, self.row_length,
        slots=-(-rows.size // self.groups),
    )
    slots = np.zeros(rows.shape, np.int32)
    slots[is_candidate] = layout.flat_slot
    return PairBatch(
        sequences=fill(layout, pairs),
        candidate_slots=slots,
        is_candidate=is_candidate,
        negative_sources=drawn.sources,
    ), batcher.BatchStats(
        useful_tokens=int(pairs.lengths.sum()),
        processed_tokens=layout.tokens,
        values={'missing_negatives': int((~is_candidate).sum())},
    )
