"""How a corpus is cut into blocks, and which device has which of them.

Blocks are cut by corpus row alone, so that what is computed of a block does not
depend on the number of devices or processes. Neighbouring blocks lie on the
same device, and neighbouring devices in the same process: so a process has
adjacent rows of the corpus, and reads or encodes no others.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh


@dataclasses.dataclass(frozen=True)
class Blocks:
  """The blocks of a corpus.

  Attributes:
    passages: of the corpus.
    block_rows: passages of every block but the last.
    devices: that share the blocks.
  """

  passages: int
  block_rows: int
  devices: int

  @property
  def count(self) -> int:
    """How many there are."""
    return -(-self.passages // self.block_rows)

  @property
  def per_device(self) -> int:
    """Blocks of a device; the last devices may have fewer, or none."""
    return -(-self.count // self.devices)

  def rows_of(self, block: int) -> range:
    """The rows of a block; none beyond the corpus."""
    first = min(block * self.block_rows, self.passages)
    return range(first, min(first + self.block_rows, self.passages))

  def of_devices(self, devices: range) -> range:
    """The blocks of neighbouring devices."""
    first, last = (min(device * self.per_device, self.count)
                   for device in (devices.start, devices.stop))
    return range(first, last)


def devices_of(mesh: Mesh) -> list[Any]:
  """The devices of a mesh, those of a process side by side."""
  return sorted(
      np.asarray(mesh.devices).flat,
      key=lambda device: (device.process_index, device.id),
  )


def own(devices: Sequence[Any]) -> range:
  """The numbers of those devices that are this process's."""
  numbers = [number for number, device in enumerate(devices)
             if device.process_index == jax.process_index()]
  return range(numbers[0], numbers[-1] + 1)


def own_rows(passages: int, block_rows: int, mesh: Mesh) -> range:
  """The rows of a corpus that this process has in a search.

  Args:
    passages: of the corpus.
    block_rows: see `Blocks`.
    mesh: that searches.
  """
  devices = devices_of(mesh)
  blocks = Blocks(passages, block_rows, len(devices))
  mine = blocks.of_devices(own(devices))
  first, last = (blocks.rows_of(block).start
                 for block in (mine.start, mine.stop))
  return range(first, last)
