"""Vectors of a corpus that are made when they are read, and not kept."""

import functools
from collections.abc import Callable

import numpy as np
from jaxtyping import Float


class PassingVectors:
  """`vector_table.Rows` for one who reads a corpus once, side by side.

  Vectors that are made together depend on each other in the last bits, so whole
  blocks are made. The last ones are there for who reads a part of a block.
  """

  def __init__(
      self,
      encode: Callable[[range], np.ndarray],
      shape: tuple[int, int],
      block_rows: int,
      kept_blocks: int = 2,
  ):
    """Makes nothing yet.

    Args:
      encode: the vectors of whole blocks, `[n, features] float32`.
      shape: (passages, features).
      block_rows: passages of a block.
      kept_blocks: blocks of which only a part was read, at most; one more than
        there are readers.
    """
    self.shape, self.nbytes = shape, 4 * shape[0] * shape[1]
    self._encode, self._block_rows = encode, block_rows
    self._block = functools.lru_cache(kept_blocks)(
        lambda number: encode(self._rows_of(number))
    )

  def __len__(self) -> int:
    return self.shape[0]

  def __getitem__(self, rows: slice) -> Float[np.ndarray, 'rows features']:
    """Vectors of adjacent passages."""
    start, stop, _ = rows.indices(len(self))
    each = self._block_rows
    if not start % each and (not stop % each or stop == len(self)):
      return self._encode(range(start, stop))
    first, last = start // each, max(start, stop - 1) // each
    made = np.concatenate([self._block(n) for n in range(first, last + 1)])
    return made[start - first * each : stop - first * each]

  def _rows_of(self, block: int) -> range:
    first = block * self._block_rows
    return range(first, min(first + self._block_rows, len(self)))
