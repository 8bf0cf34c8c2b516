"""Character n-grams of a text, hashed into a table of embeddings. Pure.

As in Facebook search (Huang et al., 2020) and in DSSM: a small vocabulary that
knows every word, misspelled ones too. The n-grams are those of `#word#` for
each word, without case; the average of their embeddings is the feature's.
"""

import dataclasses
import re
import zlib
from typing import Any

import numpy as np

from neg_contrast.data.side_features import side_feature

_BUCKETS = 20_000
MOST = 128
"""N-grams that are read of a text: of some 20 words."""


@dataclasses.dataclass(frozen=True)
class CharacterNgrams(side_feature.SideFeature):
  """N-grams of `text`, which is title and text of a passage, or of `title`.

  Attributes:
    length: characters of an n-gram.
    buckets: rows of the table; n-grams of equal hash share one.
  """

  kind = 'char'
  forms = ('text:char3', 'title:char3-20000')
  of_text = True
  dtype = np.uint16
  length: int = 3
  buckets: int = _BUCKETS

  @classmethod
  def parse(cls, name: str, may_miss: bool, rest: str) -> 'CharacterNgrams':
    """See `SideFeature.parse`."""
    found = re.fullmatch(r'([1-9])(?:-([1-9]\d{0,4}))?', rest)
    if found is None:
      raise ValueError('says no number of characters, from 1 to 9')
    buckets = int(found[2] or _BUCKETS)
    if not buckets < 2**16:
      raise ValueError(f'has {buckets} buckets, and 65,535 are the most')
    if name not in ('text', 'title'):
      raise ValueError(f'is of "{name}", and n-grams are of text or title')
    return cls(name, may_miss, int(found[1]), buckets)

  @property
  def parameters(self) -> str:
    """Length, and buckets where they are not the usual ones."""
    other = f'-{self.buckets}' if self.buckets != _BUCKETS else ''
    return f'{self.length}{other}'

  @property
  def columns(self) -> int:
    """N-grams at most."""
    return MOST

  @property
  def table_rows(self) -> int:
    """One of a bucket; row 0 is of no n-gram."""
    return 1 + self.buckets

  def read(self, value: Any, vocabulary: dict[str, int]) -> np.ndarray:
    """`[MOST] uint16`: buckets of the first n-grams, from 1; 0 pads."""
    del vocabulary
    if not isinstance(value, str):
      raise ValueError(f'holds {side_feature.shown(value)}, not text')
    found = [
        1 + zlib.crc32(ngram.encode('utf-8', 'surrogatepass')) % self.buckets
        for ngram in ngrams(value, self.length)[:MOST]
    ]
    read = np.zeros(MOST, np.uint16)
    read[:len(found)] = found
    return read

  def for_model(
      self, vocabulary: tuple[str, ...]
  ) -> side_feature.ModelValues:
    """`[rows, MOST] int32`."""
    del vocabulary
    return lambda kept: np.asarray(kept, np.int32)


def ngrams(text: str, length: int) -> list[str]:
  """N-grams of a text, word by word; of a word too short, all of it."""
  found = []
  for word in text.casefold().split():
    marked = f'#{word}#'
    found += [marked[start : start + length]
              for start in range(max(1, len(marked) - length + 1))]
  return found
