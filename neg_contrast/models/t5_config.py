"""Shapes and constants of a T5, and the sizes that have a name. Pure."""

import dataclasses
import functools

from neg_contrast.models import bert


@dataclasses.dataclass(frozen=True)
class T5Config:
  """Shapes and constants of a T5; defaults are those of t5-small.

  Attributes:
    vocab_size: rows of the embeddings, which encoder and decoder share.
    d_model: features of a token.
    d_kv: features of an attention head.
    d_ff: features inside the feed-forward blocks.
    num_layers: layers of the encoder.
    num_decoder_layers: layers of the decoder.
    num_heads: attention heads; `num_heads * d_kv` need not be `d_model`.
    relative_buckets: rows of a table of relative positions.
    relative_max_distance: from this distance on all share a bucket.
    dropout: rate on embeddings, attention weights, inside and after each block.
    layer_norm_eps: added to the mean square.
    gated: version 1.1, where a second projection multiplies the activation.
    activation: a key of `bert.ACTIVATIONS`; `gelu_new` is that of gated-gelu.
    tie_embeddings: whether the embeddings are the output matrix too.
    scale_head: whether the output is multiplied by `d_model**-0.5` before that
      matrix; None: as `tie_embeddings`, which holds for both versions.
    initializer_factor: of the standard deviations of random weights.
    pad_id: fills up generated sequences.
    eos_id: ends a sequence.
    decoder_start_id: what the decoder gets before the first token.
  """

  vocab_size: int = 32128
  d_model: int = 512
  d_kv: int = 64
  d_ff: int = 2048
  num_layers: int = 6
  num_decoder_layers: int = 6
  num_heads: int = 8
  relative_buckets: int = 32
  relative_max_distance: int = 128
  dropout: float = 0.1
  layer_norm_eps: float = 1e-6
  gated: bool = False
  activation: str = 'relu'
  tie_embeddings: bool = True
  scale_head: bool | None = None
  initializer_factor: float = 1.0
  pad_id: int = 0
  eos_id: int = 1
  decoder_start_id: int = 0

  @property
  def even_row_length(self) -> int:
    """Tokens of a row whose attention costs as much as its dense products.

    Those of the encoder, which has most of the tokens.
    """
    inner = self.num_heads * self.d_kv
    feed = (3 if self.gated else 2) * self.d_model * self.d_ff
    return 2 * self.d_model + feed // (2 * inner)

  def __post_init__(self):
    """Checks ranges.

    Raises:
      ValueError: names the field and its value.
    """
    for name in ('vocab_size', 'd_model', 'd_kv', 'd_ff', 'num_layers',
                 'num_decoder_layers', 'num_heads'):
      if getattr(self, name) < 1:
        raise ValueError(f'{name}={getattr(self, name)} must be at least 1')
    if self.relative_buckets < 4 or self.relative_buckets % 2:
      raise ValueError(f'relative_buckets={self.relative_buckets} must be even '
                       'and at least 4')
    if self.relative_max_distance <= self.relative_buckets // 2:
      raise ValueError(
          f'relative_max_distance={self.relative_max_distance} must be above '
          f'half of the relative buckets, {self.relative_buckets // 2}'
      )
    if not 0 <= self.dropout < 1:
      raise ValueError(f'dropout={self.dropout} must be at least 0 and below 1')
    for name in ('layer_norm_eps', 'initializer_factor'):
      if getattr(self, name) <= 0:
        raise ValueError(f'{name}={getattr(self, name)} must be above 0')
    if self.activation not in bert.ACTIVATIONS:
      raise ValueError(f'activation={self.activation!r} is not one of '
                       + ', '.join(bert.ACTIVATIONS))
    for name in ('pad_id', 'eos_id', 'decoder_start_id'):
      if not 0 <= getattr(self, name) < self.vocab_size:
        raise ValueError(f'{name}={getattr(self, name)} must be at least 0 and '
                         f'below the vocabulary of {self.vocab_size}')

  @property
  def attention_rate(self) -> float:
    """Of dropout of attention probabilities."""
    return self.dropout

  @property
  def is_head_scaled(self) -> bool:
    """`scale_head`, decided."""
    return self.tie_embeddings if self.scale_head is None else self.scale_head


_SMALL = T5Config()
_BASE = T5Config(
    d_model=768, d_ff=3072, num_layers=12, num_decoder_layers=12, num_heads=12
)
_LARGE = T5Config(
    d_model=1024, d_ff=4096, num_layers=24, num_decoder_layers=24, num_heads=16
)
_as_v1_1 = functools.partial(
    dataclasses.replace, gated=True, activation='gelu_new', tie_embeddings=False
)
_V1_1_XL = _as_v1_1(_LARGE, d_model=2048, d_ff=5120, num_heads=32)
T5_SIZES = {
    't5-small': _SMALL,
    't5-base': _BASE,
    't5-large': _LARGE,
    't5-v1_1-small': _as_v1_1(
        _SMALL, d_ff=1024, num_layers=8, num_decoder_layers=8, num_heads=6
    ),
    't5-v1_1-base': _as_v1_1(_BASE, d_ff=2048),
    't5-v1_1-large': _as_v1_1(_LARGE, d_ff=2816),
    't5-v1_1-xl': _V1_1_XL,
    'flan-t5-xl': _V1_1_XL,
    # For laptops, over the vocabulary of bert-base-uncased, where 102 is [SEP].
    't5-tiny': T5Config(
        vocab_size=30522, d_model=256, d_ff=512, num_layers=3,
        num_decoder_layers=3, num_heads=4, gated=True, activation='gelu_new',
        eos_id=102,
    ),
}
