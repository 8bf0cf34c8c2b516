"""Puts many sequences into few rows, the same way on any machine. Pure.

Sequences are dealt to groups so that every group gets the same number of slots
and nearly the same number of tokens, then packed into rows by best fit. The
number of rows comes from a short ladder of sizes, so that a training step is
compiled for a few shapes only. Everything is a pure function of the lengths.
"""

import bisect
import dataclasses
import heapq

import numpy as np
from jaxtyping import Int

from neg_contrast.batches import packed
from neg_contrast.data import sequences as sequences_lib

# Sizes up to 64 rows are all allowed; above, there are at least 32 an octave:
# rounding up adds at most 1/32. On SQuAD at batch 64 eight sizes come up; with
# half as many, 1% more would be padding; compiling the others takes as long as
# some steps. Large batches are rounded up less, see `round_up_rows`; trainings
# of few steps fill up to multiples, see `row_length.fit_multiples`.
_LADDER_BITS = 6


@dataclasses.dataclass(frozen=True)
class Layout:
  """Where each sequence goes.

  Attributes:
    groups: number of groups.
    rows: rows in each group, a size of the ladder that is filled up to the
      multiple of `plan`.
    row_length: tokens a row holds.
    slots: sequences a group can hold.
    group: `[sequences] int32`.
    slot: `[sequences] int32`, within the group.
    start: `[sequences] int32`, index of the first token among the group's
      `rows * row_length`.
  """

  groups: int
  rows: int
  row_length: int
  slots: int
  group: Int[np.ndarray, ' sequences']
  slot: Int[np.ndarray, ' sequences']
  start: Int[np.ndarray, ' sequences']

  @property
  def flat_slot(self) -> Int[np.ndarray, ' sequences']:
    """`[sequences] int32`, index among the `groups * slots` outputs."""
    return self.group * self.slots + self.slot

  @property
  def tokens(self) -> int:
    """Tokens processed, padding included."""
    return self.groups * self.rows * self.row_length


def round_up_rows(rows: int, groups: int = 1) -> int:
  """The smallest size of the ladder that holds `rows`.

  Args:
    rows: of each group.
    groups: among which a batch is dealt. The tokens of large batches hardly
      vary: by the root of their number, more or less. Steps are smaller than
      the root of all rows, by group, and few sizes come up all the same.
  """
  octave = (max(rows, 1) - 1).bit_length()
  spread = (octave - (groups - 1).bit_length()) // 2 - 1
  step = 1 << max(0, min(octave - _LADDER_BITS, spread))
  return -(-max(rows, 1) // step) * step


def rows_needed(
    lengths: Int[np.ndarray, ' sequences'], row_length: int
) -> int:
  """Rows that sequences take as one group.

  Args:
    lengths: `[sequences] int`, tokens of each, at most `row_length`.
    row_length: tokens a row holds.
  """
  return _best_fit(np.sort(lengths)[::-1], row_length)[1]


def plan(
    lengths: Int[np.ndarray, ' sequences'],
    groups: int,
    row_length: int,
    slots: int | None = None,
    multiple: int = 1,
) -> Layout:
  """Decides group, row and offset of each sequence.

  Args:
    lengths: `[sequences] int`, tokens of each, at least 1.
    groups: how many groups; `ceil(sequences / groups)` must not exceed `slots`.
    row_length: tokens a row holds.
    slots: sequences a group can hold, for a static shape; default: as many as
      needed.
    multiple: that the rows of a group are filled up to, so that fewer numbers
      of them come up; see `row_length.fit_multiples`.

  Returns:
    The layout. Nothing is dropped or cut.

  Raises:
    ValueError: a sequence is longer than a row, or there are too few slots.
  """
  lengths = np.asarray(lengths, np.int64)
  needed_slots = -(-len(lengths) // groups)
  slots = needed_slots if slots is None else slots
  if needed_slots > slots:
    raise ValueError(f'{len(lengths)} sequences, {groups} x {slots} slots')
  if len(lengths) and lengths.max() > row_length:
    raise ValueError(f'sequence of {lengths.max()} tokens, row of {row_length}')
  longest_first = np.argsort(-lengths, kind='stable')
  group = _deal(lengths, longest_first, groups, needed_slots)
  start = np.zeros(len(lengths), np.int32)
  slot = np.zeros(len(lengths), np.int32)
  rows = 0
  for g in range(groups):
    members = longest_first[group[longest_first] == g]
    slot[members] = np.arange(len(members))
    start[members], used = _best_fit(lengths[members], row_length)
    rows = max(rows, used)
  rows = -(-round_up_rows(rows, groups) // multiple) * multiple
  return Layout(groups, rows, row_length, slots, group, slot, start)


def fill(
    layout: Layout,
    *parts: sequences_lib.AnySequences,
    groups: Int[np.ndarray, ' held'] | None = None,
) -> packed.PackedSequences:
  """Packs token ids as `layout` says; numpy arrays with a `groups` axis.

  Args:
    layout: of the lengths of all sequences.
    *parts: token ids; the sequences of the first part, then those of the next.
    groups: `[held] int`, which are filled; others stay 0, and tokens that
      belong there are not read. None: all.

  Returns:
    Arrays `[groups, rows, row_length]` and `first_index` `[groups, slots]`; of
    sequences with features beside text, those `[groups, slots, columns]`.
  """
  shape = (layout.groups, layout.rows, layout.row_length)
  token_ids, segment_ids, positions = (np.zeros(shape, np.int32)
                                       for _ in range(3))
  first_index = np.zeros((layout.groups, layout.slots), np.int32)
  side_features: dict[str, np.ndarray] = {}
  is_filled = np.ones(layout.groups, bool)
  if groups is not None:
    is_filled = np.isin(np.arange(layout.groups), groups)
  before = 0
  for part in parts:
    numbers = np.flatnonzero(
        is_filled[layout.group[before : before + len(part)]]
    )
    chosen = part.take(numbers)
    numbers += before
    before += len(part)
    group, slot = layout.group[numbers], layout.slot[numbers]
    start = layout.start[numbers]
    begins = group.astype(np.int64) * (shape[1] * shape[2]) + start
    lengths = chosen.lengths
    place = sequences_lib.runs(np.zeros_like(lengths), lengths)
    target = np.repeat(begins, lengths) + place
    token_ids.reshape(-1)[target] = chosen.flat()
    segment_ids.reshape(-1)[target] = np.repeat(slot + 1, lengths)
    positions.reshape(-1)[target] = place
    first_index[group, slot] = start
    if isinstance(chosen, sequences_lib.Featured):
      _put_features(chosen.side_features, group, slot, first_index.shape,
                    side_features)
  return packed.PackedSequences(token_ids, segment_ids, positions, first_index,
                                side_features=side_features or None)


def _put_features(values, group, slot, shape, out):
  """Writes features of sequences into their slots, in arrays made for all."""
  for key, of in values.items():
    if key not in out:
      out[key] = np.zeros((*shape, of.shape[1]), of.dtype)
    out[key][group, slot] = of


def _deal(lengths, longest_first, groups, capacity):
  """Each sequence, longest first, to the group with the fewest tokens."""
  group = np.zeros(len(lengths), np.int32)
  heap = [(0, 0, g) for g in range(groups)]  # tokens, sequences, group
  for i in longest_first:
    tokens, count, g = heapq.heappop(heap)
    group[i] = g
    if count + 1 < capacity:
      heapq.heappush(heap, (tokens + int(lengths[i]), count + 1, g))
  return group


def _best_fit(lengths, row_length):
  """Start of each sequence, in the fullest row that still holds it.

  Returns:
    `[sequences]` starts, and the number of rows.
  """
  free: list[tuple[int, int]] = []  # sorted (tokens left, row)
  starts = np.zeros(len(lengths), np.int32)
  rows = 0
  for i, length in enumerate(lengths.tolist()):
    at = bisect.bisect_left(free, (length, -1))
    if at < len(free):
      left, row = free.pop(at)
    else:
      left, row = row_length, rows
      rows += 1
    starts[i] = (row + 1) * row_length - left
    if left > length:
      bisect.insort(free, (left - length, row))
  return starts, rows
