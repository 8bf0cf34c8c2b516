"""What BM25 knows of all passages, where a search has some of them alone."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int, UInt64

from neg_contrast.retrieval import bm25_postings


@dataclasses.dataclass(frozen=True)
class Totals:
  """Sums over the shards of a corpus.

  Attributes:
    passages: how many there are.
    words: terms of all, repeats counted.
    terms: `[terms] uint64`, ascending, different: those that are known.
    holding: `[terms] int64`, how many passages hold each.
  """

  passages: int
  words: int
  terms: UInt64[np.ndarray, ' terms']
  holding: Int[np.ndarray, ' terms']

  def of(self, terms: UInt64[np.ndarray, ' some']) -> np.ndarray:
    """How many passages hold some of the terms that are known, `[some]`.

    Raises:
      ValueError: one is not.
    """
    if not np.isin(terms, self.terms).all():
      raise ValueError('terms of which no totals are known')
    return self.holding[np.searchsorted(self.terms, terms)]


def of_shard(
    postings: bm25_postings.Postings, terms: UInt64[np.ndarray, ' terms']
) -> Totals:
  """Those of one shard, for some terms: ascending, different."""
  begins, ends = postings.locate(terms)
  return Totals(len(postings.lengths),
                int(postings.lengths.sum(dtype=np.int64)), terms, ends - begins)


def together(
    totals: Sequence[Totals], terms: UInt64[np.ndarray, ' terms']
) -> Totals:
  """Those of all shards, which know the same terms."""
  return Totals(
      sum(one.passages for one in totals), sum(one.words for one in totals),
      terms, sum((one.holding for one in totals),
                 np.zeros(len(terms), np.int64)),
  )
