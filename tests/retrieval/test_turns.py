"""Groups in turns: all of them, in order, and few of them empty."""

import numpy as np
import pytest

from neg_contrast.batches import packing
from neg_contrast.data import sequences as sequences_lib
from neg_contrast.retrieval import turns


def test_rows_are_cut_into_equal_groups():
  rng = np.random.default_rng(0)
  for count, rows in ((1, 8), (7, 2), (200, 3), (60, 64)):
    lengths = rng.integers(1, 33, count)
    sequences = [rng.integers(1, 99, n) for n in lengths]
    whole = packing.plan(lengths, 1, 32)
    cut = turns.cut_rows(whole, rows)
    used = whole.start.max() // 32 + 1
    assert cut.rows <= rows and cut.groups == -(-used // cut.rows)
    assert len(set(cut.flat_slot.tolist())) == count
    batch = packing.fill(cut, sequences_lib.listed(sequences))
    for i, sequence in enumerate(sequences):
      tokens = batch.token_ids[cut.group[i]].reshape(-1)
      first = batch.first_index[cut.group[i], cut.slot[i]]
      assert first // 32 == (first + lengths[i] - 1) // 32
      np.testing.assert_array_equal(
          tokens[first : first + lengths[i]], sequence)


def make_block(first, lengths, rows, row_length):
  """Blocks whose tokens are the numbers of their sequences."""
  numbers = np.arange(first, first + len(lengths))
  layout = turns.cut_rows(packing.plan(lengths, 1, row_length), rows)
  return turns.Block(first, layout, packing.fill(layout, sequences_lib.listed(
      np.full(length, number) for length, number in zip(
          lengths, numbers, strict=True))))


@pytest.mark.parametrize('devices', [1, 3, 8])
def test_every_sequence_gets_its_vector(devices):
  """The encoder gives the first token of each slot."""
  rng = np.random.default_rng(0)
  sizes, blocks, count = (40, 40, 40, 7), [], 0
  for size in sizes:
    lengths = np.full(size, 8) if size == 40 else rng.integers(1, 9, size)
    blocks.append(make_block(count, lengths, 2, 16))
    count += size
  assert blocks[0].layout.groups == 10
  out, told, seen = np.zeros((count, 1)), [], 0
  for turn in turns.turns(iter(blocks), devices):
    ids, index = turn.batch.token_ids, turn.batch.first_index
    assert ids.shape[0] == devices and 0 < len(turn.blocks) <= devices
    assert (ids[len(turn.blocks):] == 0).all()
    vecs = np.stack([group.reshape(-1)[at][:, None] * 1.0
                     for group, at in zip(ids, index, strict=True)])
    told += [block.add(one, out)
             for one, block in zip(vecs, turn.blocks, strict=False)]
    seen += 1
  np.testing.assert_array_equal(out[:, 0], np.arange(count))
  assert told == sorted(told) and told[-1] == count
  # 30 groups of equal shape, and those of the last block.
  last = blocks[-1].layout.groups
  assert seen <= -(-30 // devices) + -(-last // devices)
