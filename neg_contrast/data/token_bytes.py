"""Token ids of some texts as bytes, as any process can make them."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from neg_contrast.data import tokenizer as tokenizer_lib


@dataclasses.dataclass(frozen=True)
class Encoder:
  """Tokenizes texts.

  Attributes:
    tokenizer: the model's.
    dtype: of the ids.
  """

  tokenizer: tokenizer_lib.AnyTokenizer
  dtype: np.dtype

  def __call__(
      self, batch: Sequence[tuple[str, ...]]
  ) -> list[tuple[bytes, list[int]]]:
    """Tokenizes some rows of texts.

    Args:
      batch: rows of the same fields.

    Returns:
      (bytes of the ids of all rows, number of ids of each row), by field.
    """
    encoded = map(self.tokenizer.encode_batch, zip(*batch, strict=True))
    return [
        (np.fromiter(itertools.chain.from_iterable(ids), self.dtype).tobytes(),
         list(map(len, ids)))
        for ids in encoded
    ]
