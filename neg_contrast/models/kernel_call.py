"""What the attention kernels for long rows have in common. Pure."""

import abc
import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Shaped

from neg_contrast.models import pattern as pattern_lib


@dataclasses.dataclass(frozen=True)
class KernelCall(abc.ABC):
  """The kernels for arrays of one shape.

  Attributes:
    shape: rows, length and width of queries.
    head_features: of a head.
    pattern: of the layer.
    interpret: run it step by step in XLA, on any platform.
  """

  shape: tuple[int, int, int]
  head_features: int
  pattern: pattern_lib.Pattern
  interpret: bool

  @property
  @abc.abstractmethod
  def size(self) -> int:
    """Tokens of a block."""

  @property
  def length(self) -> int:
    """Tokens of a row in whole blocks."""
    return -(-self.shape[1] // self.size) * self.size

  def has_window_of(self, most: int) -> bool:
    """Whether the layer's window is of so many tokens at most."""
    return self.pattern.window is not None and self.pattern.window <= most

  def padded(
      self, array: Shaped[Array, 'rows length ...']
  ) -> Shaped[Array, 'rows whole_blocks ...']:
    """Rows of whole blocks, which zeros fill."""
    rest = self.length - array.shape[1]
    return jnp.pad(array, ((0, 0), (0, rest)) + ((0, 0),) * (array.ndim - 2))

  def pairs(self, size: int) -> int:
    """Pairs of tokens whose scores are computed, about; of one head.

    Args:
      size: tokens of a block.
    """
    reach = self.length
    if self.pattern.window is not None:
      reach = min(reach, 2 * self.pattern.window + size)
    return self.shape[0] * self.length * reach // (
        2 if self.pattern.causal else 1
    )
