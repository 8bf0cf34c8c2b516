"""MPNet over packed rows, equal to the PyTorch reference. Pure.

Song et al., "MPNet: Masked and Permuted Pre-training for Language
Understanding": a BERT without token types, with T5's relative positions beside
its own; as in transformers' MPNetModel without its pooler.
"""

import dataclasses
from typing import ClassVar

import flax.linen as nn
from jaxtyping import Array, Float

from neg_contrast.models import bert, relative_positions

BUCKETS = 32
"""Of relative positions; the reference has no other number."""
_MAX_DISTANCE = 128


@dataclasses.dataclass(frozen=True, kw_only=True)
class MPNetConfig(bert.BertConfig):
  """Shapes and constants of an MPNet; defaults are those of mpnet-base."""

  vocab_size: int = 30527
  type_vocab_size: int = 0
  layer_norm_eps: float = 1e-5
  model_type: str = 'mpnet'

  architecture: ClassVar[str] = 'mpnet'
  kernel_problem: ClassVar[str | None] = (
      'an MPNet adds relative positions to the scores of attention, and the '
      'kernels do not'
  )


class MPNet(bert.Bert):
  """Hidden states of packed sequences; called as `bert.Bert` is."""

  def score_biases(
      self, length: int
  ) -> tuple[Float[Array, '1 heads length length'], ...]:
    """One table of relative positions for all layers."""
    c = self.config
    table = nn.Embed(
        BUCKETS, c.num_heads, name='relative_bias',
        embedding_init=nn.initializers.normal(c.initializer_range),
    )
    return (relative_positions.bias(table, length, BUCKETS, _MAX_DISTANCE),)
