"""Which tokens of a segment attend to each other. Pure."""

import dataclasses
from typing import Any

from jaxtyping import Int

from neg_contrast.batches import packed


@dataclasses.dataclass(frozen=True)
class Pattern:
  """What a layer's attention is restricted to, besides segments.

  The tokens of a segment stand side by side in their order, so that their
  places in the row say how far apart they are.

  Attributes:
    window: tokens on each side of a token that it attends to, at least 1; None:
      all.
    causal: whether a token attends only to itself and those before it.
  """

  window: int | None = None
  causal: bool = False

  def __post_init__(self):
    """Checks the range.

    Raises:
      ValueError: names the field and its value.
    """
    if self.window is not None and self.window < 1:
      raise ValueError(f'window={self.window} must be at least 1, or None')

  def allows(
      self,
      query_places: Int[packed.AnyArray, '...'],
      key_places: Int[packed.AnyArray, '...'],
  ) -> Any:
    """Whether the tokens at these places may attend to those.

    Args:
      query_places: places in the row; an array of any shape.
      key_places: places that go with them, of a shape to be broadcast with.

    Returns:
      Booleans of the shape of both together; True alone, if all may.
    """
    allowed: Any = True
    before = query_places - key_places
    if self.window is not None:
      allowed = (before <= self.window) & (before >= -self.window)
    if self.causal:
      allowed &= before >= 0
    return allowed


GLOBAL = Pattern()
"""A token attends to its whole segment."""
