"""Pairs of a query and a passage, each pair one sequence. Pure."""

import dataclasses

import numpy as np
from jaxtyping import Int

from neg_contrast.batches import packed, packing
from neg_contrast.data import sequences as sequences_lib


@dataclasses.dataclass(frozen=True)
class TextPairs:
  """Input sequences of two texts each.

  Attributes:
    sequences: `[CLS] query [SEP] passage [SEP]`, or RoBERTa's `<s> query </s>
      </s> passage </s>`.
    starts: `[pairs] int64`, place of what comes after the query's end.
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
    queries: sequences_lib.AnySequences,
    passages: sequences_lib.AnySequences,
    start: tuple[int, ...] = (),
) -> TextPairs:
  """Query n and passage n, one after the other.

  Each was cut to its own length before, so that a long one takes nothing from
  the other.

  Args:
    queries: `[CLS] ... [SEP]`.
    passages: likewise.
    start: of `inputs.Template.second_start`: what their [CLS] becomes. One
      token, or none.
  """
  ids = passages.flat().copy()
  ends = np.cumsum(passages.lengths)
  begins = ends - passages.lengths
  if start:
    ids[begins] = start
  passages = sequences_lib.Sequences(ids, begins + (not start), ends)
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
    start: tuple[int, ...] = (),
) -> Int[np.ndarray, ' pairs']:
  """Tokens of what `join` would return."""
  return query_lengths + passage_lengths - 1 + len(start)


def fill(layout: packing.Layout, pairs: TextPairs) -> packed.PackedSequences:
  """As `packing.fill`, with token types: 1 from the passage on."""
  batch = packing.fill(layout, pairs.sequences)
  never = np.iinfo(np.int32).max
  starts = np.full((layout.groups, layout.slots + 1), never, np.int32)
  starts[layout.group, layout.slot + 1] = pairs.starts
  groups = np.arange(layout.groups)[:, None, None]
  is_second = batch.positions >= starts[groups, batch.segment_ids]
  return dataclasses.replace(batch, token_types=is_second.astype(np.int32))
