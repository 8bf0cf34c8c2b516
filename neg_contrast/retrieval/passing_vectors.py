"""Vectors of a corpus that are made when they are read, and not kept."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float


class PassingVectors:
  """`vector_table.Rows` for those who read each a part of a corpus, in order.

  Vectors that are made together depend on each other in the last bits, so whole
  blocks are made. What a read leaves of its last block is kept for the one that
  begins there.
  """

  def __init__(
      self,
      encode: Callable[[range], np.ndarray],
      shape: tuple[int, int],
      block_rows: int,
  ):
    """Makes nothing yet.

    Args:
      encode: the vectors of whole blocks, `[n, features] float32`.
      shape: (passages, features).
      block_rows: passages of a block.
    """
    self.shape, self.nbytes = shape, 4 * shape[0] * shape[1]
    self._encode, self._block_rows = encode, block_rows
    self._rests: dict[int, np.ndarray] = {}  # By their first rows.

  def __len__(self) -> int:
    return self.shape[0]

  def __getitem__(self, rows: slice) -> Float[np.ndarray, 'rows features']:
    """Vectors of adjacent passages."""
    start, stop, _ = rows.indices(len(self))
    each, count = self._block_rows, max(0, stop - start)
    made = self._rests.pop(start, np.empty((0, self.shape[1]), np.float32))
    if len(made) < count:
      first = start + len(made) if len(made) else start // each * each
      last = min(-(-stop // each) * each, len(self))
      more = self._encode(range(first, last))[max(0, start - first):]
      made = np.concatenate([made, more]) if len(made) else more
    if count < len(made):
      self._rests[start + count] = made[count:]
    return made[:count]
