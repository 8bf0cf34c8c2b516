"""What the shapes of all transformers have. Pure."""

import abc
import dataclasses
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from neg_contrast.models import pattern


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape(abc.ABC):
  """Shapes and constants of a transformer.

  Attributes:
    architecture: a key of `transformer.ARCHITECTURES`.
    causal: whether a token attends only to itself and those before it.
    kernel_problem: why the kernels of `attention.KERNELS` can't compute its
      attention; None: they can.
    vocab_size: rows of the word embeddings.
    hidden_size: features of a token.
    num_layers: transformer layers.
    num_heads: attention heads.
    intermediate_size: features inside the feed-forward blocks.
    max_positions: tokens of the longest sequence.
    type_vocab_size: rows of the token type embeddings; texts by themselves have
      the first. 0: there are none.
    hidden_dropout: rate on embeddings and on the output of each block.
    attention_dropout: rate on attention probabilities.
    initializer_range: standard deviation of random weights.
    model_type: of the folder that it came from and is exported as, a key of
      `families.FAMILIES`; the computation does not depend on it.
  """

  architecture: ClassVar[str]
  causal: ClassVar[bool] = False
  kernel_problem: ClassVar[str | None] = None

  vocab_size: int
  hidden_size: int
  num_layers: int
  num_heads: int
  intermediate_size: int
  max_positions: int
  type_vocab_size: int = 0
  hidden_dropout: float = 0.0
  attention_dropout: float = 0.0
  initializer_range: float = 0.02
  model_type: str = ''

  def __post_init__(self):
    """Checks ranges.

    Raises:
      ValueError: names the field and its value.
    """
    for name in ('vocab_size', 'hidden_size', 'num_layers', 'num_heads',
                 'intermediate_size', 'max_positions'):
      if getattr(self, name) < 1:
        raise ValueError(f'{name}={getattr(self, name)} must be at least 1')
    if self.type_vocab_size < 0:
      raise ValueError(f'type_vocab_size={self.type_vocab_size} must be at '
                       'least 0')
    for name in ('hidden_dropout', 'attention_dropout'):
      if not 0 <= getattr(self, name) < 1:
        raise ValueError(f'{name}={getattr(self, name)} must be at least 0 and '
                         'below 1')

  @property
  def head_features(self) -> int:
    """Features of an attention head."""
    return self.hidden_size // self.num_heads

  @property
  def kv_heads(self) -> int:
    """Heads of keys and values, of which several of queries may share one."""
    return self.num_heads

  @property
  def patterns(self) -> tuple[pattern.Pattern, ...]:
    """Of the attention of its layers, each once."""
    return (pattern.Pattern(causal=self.causal),)

  @property
  def local_share(self) -> float:
    """Part of its layers that attend within a window."""
    return 0.0

  @property
  @abc.abstractmethod
  def even_row_length(self) -> int:
    """Tokens of a row whose attention costs as much as its dense products."""

  @abc.abstractmethod
  def flops(
      self, lengths: Float[np.ndarray, ' sequences']
  ) -> Float[np.ndarray, ' sequences']:
    """Operations of a forward pass over sequences that attend to themselves."""

  def to_json(self) -> dict[str, Any]:
    """Plain values."""
    return dataclasses.asdict(self)
