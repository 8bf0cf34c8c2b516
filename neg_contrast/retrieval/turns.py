"""Deals groups of packed sequences to devices, one to each in every turn. Pure.

A block of sequences is packed as a whole and cut into groups of equal shape. A
turn may hold groups of several blocks, so that devices are idle in the last
turn alone.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from neg_contrast.batches import packed, packing


@dataclasses.dataclass
class Block:
  """Sequences that were packed together.

  Attributes:
    first: number of the first of them.
    layout: where each of them is.
    batch: the packed sequences, with a leading `groups` axis.
    vecs: `[slots, features]` of each group that is computed.
  """

  first: int
  layout: packing.Layout
  batch: packed.PackedSequences
  vecs: list[Float[np.ndarray, 'slots features']] = dataclasses.field(
      default_factory=list
  )

  def add(
      self, vecs: Float[np.ndarray, 'slots features'], out: Any
  ) -> int:
    """Takes the vectors of the next group.

    Args:
      vecs: of its slots.
      out: `[sequences, features]`; the block's vectors are written to it when
        they are complete.

    Returns:
      Number of sequences up to this block and in it that are done, as far as
      groups tell.
    """
    self.vecs.append(vecs)
    done, groups = len(self.vecs), self.layout.groups
    count = len(self.layout.group)
    if done == groups:
      table = np.concatenate(self.vecs)
      out[self.first : self.first + count] = table[self.layout.flat_slot]
      self.vecs = []
    return self.first + count * done // groups


class Turn(NamedTuple):
  """What all devices compute at once.

  Attributes:
    batch: packed sequences, a group for each device; empty ones at the end.
    blocks: the block of each group that is not empty.
  """

  batch: packed.PackedSequences
  blocks: list[Block]


def turns(blocks: Iterable[Block], devices: int) -> Iterator[Turn]:
  """The groups of all blocks, in their order.

  There are empty groups in the last turn, and where groups change their shape.

  Args:
    blocks: read one by one.
    devices: groups of a turn.
  """
  batch: Any = None
  owners: list[Block] = []
  for block in blocks:
    if owners and _shapes(batch) != _shapes(block.batch):
      yield _turn(batch, owners, 0, devices)
      owners = []
    batch = block.batch if not owners else jax.tree.map(
        lambda *parts: np.concatenate(parts), batch, block.batch
    )
    owners = [*owners, *[block] * block.layout.groups]
    whole = len(owners) // devices * devices
    for first in range(0, whole, devices):
      yield _turn(batch, owners, first, devices)
    batch = jax.tree.map(lambda a, whole=whole: a[whole:], batch)
    owners = owners[whole:]
  if owners:
    yield _turn(batch, owners, 0, devices)


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


def _shapes(batch: Any) -> list[tuple[int, ...]]:
  """Of a group."""
  return [array.shape[1:] for array in jax.tree.leaves(batch)]


def _turn(
    batch: Any, owners: Sequence[Block], first: int, devices: int
) -> Turn:
  """The groups from `first` on; empty ones beyond the end."""
  blocks = list(owners[first : first + devices])
  missing = devices - len(blocks)
  return Turn(jax.tree.map(
      lambda array: np.pad(
          array[first : first + devices],
          [(0, missing)] + [(0, 0)] * (array.ndim - 1),
      ), batch
  ), blocks)
