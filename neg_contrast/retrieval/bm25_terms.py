"""Texts as terms: 64-bit hashes of stems."""

import array
import dataclasses
import functools
import itertools
import logging
from collections.abc import Iterable

import numpy as np
import xxhash
from jaxtyping import Int32, UInt64

from neg_contrast.data import scripts

# Words whose stems are remembered, 0.4 kB each. A text of 100 words on a new
# reader costs about 100 stems, 0.1 ms.
_MOST_WORDS = 500_000


@dataclasses.dataclass(frozen=True)
class Terms:
  """The terms of some texts.

  Attributes:
    table: `[stems] uint64`, terms by number, more than these texts have.
    numbers: `[terms] int32`, those of the first text, then of the next.
    lengths: `[texts] int32`, how many each text has.
  """

  table: UInt64[np.ndarray, ' stems']
  numbers: Int32[np.ndarray, ' terms']
  lengths: Int32[np.ndarray, ' texts']

  @property
  def terms(self) -> UInt64[np.ndarray, ' terms']:
    """`[terms] uint64`, text by text."""
    return self.table[self.numbers]


class TermReader:
  """Splits texts into terms.

  A term is a lower-cased word of two or more characters (`scripts.words`) that
  is no English stop word, under the Snowball stemmer, as XXH3 with 64 bits of
  its UTF-8 bytes. So shards need no common vocabulary. Wikipedia's 21 million
  passages have about 10 million stems: the chance that any two of them share a
  hash is (10^7)^2 / 2^65 = 3 in a million.
  """

  def __init__(self):
    """Remembers no words yet."""
    # Imported here: importing bm25s starts JAX's backends (it calls top_k),
    # which must not happen before jax.distributed.initialize.
    import Stemmer
    from bm25s import tokenization

    logging.getLogger('bm25s').setLevel(logging.WARNING)  # it sets DEBUG
    self._tokenizer = tokenization.Tokenizer(
        splitter=functools.partial(scripts.words, least=2), stopwords='english',
        stemmer=Stemmer.Stemmer('english'),
    )
    self._hashes = array.array('Q')  # By the tokenizer's number of a stem.

  def read(self, texts: Iterable[str]) -> Terms:
    """The terms of some texts, which are read once."""
    tokenizer = self._tokenizer
    if len(tokenizer.word_to_stem) > _MOST_WORDS:
      tokenizer.reset_vocab()
      self._hashes = array.array('Q')
    numbers, lengths = array.array('i'), array.array('i')
    for some in tokenizer.streaming_tokenize(
        texts, update_vocab=True, allow_empty=False
    ):
      numbers.extend(some)
      lengths.append(len(some))
    new = itertools.islice(tokenizer.stem_to_sid, len(self._hashes), None)
    self._hashes.extend(map(_hash, new))
    return Terms(np.array(self._hashes, np.uint64),
                 np.array(numbers, np.int32), np.array(lengths, np.int32))


def _hash(stem: str) -> int:
  # A query may hold half of a surrogate pair; no passage does.
  return xxhash.xxh3_64_intdigest(stem.encode('utf-8', 'surrogatepass'))
