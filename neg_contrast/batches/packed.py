"""The layout of encoders' input: several sequences a row. Pure."""

from typing import Any

import flax.struct
import jax
import numpy as np

# Made by numpy on the host, by jax inside a traced function.
AnyArray = jax.Array | np.ndarray


@flax.struct.dataclass
class PackedSequences:
  """Sequences packed into rows. Leading axes (groups) may stand before these.

  As any pytree it may hold shapes or shardings instead of arrays.

  Attributes:
    token_ids: `[rows, length] int32`; padding holds 0.
    segment_ids: `[rows, length] int32`; s + 1 where the token belongs to the
      sequence of slot s, 0 on padding. A slot's tokens stand in one row, side
      by side.
    positions: `[rows, length] int32`; place of the token in its sequence.
    first_index: `[slots] int32`; index of a slot's first token ([CLS]) among
      the `rows * length` tokens; 0 for an empty slot.
    token_types: `[rows, length] int32`: 1 on the second text of a pair, else 0;
      None: there are no pairs.
    side_features: by the feature's key, `[slots, columns]`, int32 or float32:
      values of each slot's text; zeros: it has none. None: the model takes no
      features beside text.
  """

  token_ids: Any
  segment_ids: Any
  positions: Any
  first_index: Any
  token_types: Any = None
  side_features: Any = None
