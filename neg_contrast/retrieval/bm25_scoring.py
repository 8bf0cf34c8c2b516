"""BM25's formula, and the scores of the passages of one shard."""

import dataclasses
import math

import numpy as np
from jaxtyping import Float32, Float64, Int, Int32, Integer, UInt32

from neg_contrast.retrieval import bm25_postings


@dataclasses.dataclass(frozen=True)
class Formula:
  """BM25 over a corpus; see `bm25.Bm25Index`.

  Attributes:
    k1: how slowly repeats of a term saturate.
    b: how far scores are normalised by length, 0 to 1.
    passages: of the corpus.
    mean_length: terms of a passage, on average.
  """

  k1: float
  b: float
  passages: int
  mean_length: float

  def idf(
      self, holding: Int[np.ndarray, ' terms']
  ) -> Float32[np.ndarray, ' terms']:
    """The weights of terms that so many passages hold; 0 for none."""
    count = self.passages
    return np.array([
        math.log(1 + (count - df + 0.5) / (df + 0.5)) if df else 0.0
        for df in holding.tolist()
    ], np.float32)

  def norms(
      self, lengths: UInt32[np.ndarray, ' passages']
  ) -> Float64[np.ndarray, ' passages']:
    """What is added to a count in a passage of so many terms."""
    by_length = self.b * lengths.astype(np.float64) / self.mean_length
    return self.k1 * ((1 - self.b) + by_length)


class ShardScorer:
  """Scores the passages of a shard by the terms of many queries.

  What a term adds to each passage is computed once, for all queries.
  """

  def __init__(
      self,
      postings: bm25_postings.Postings,
      begins: Int[np.ndarray, ' terms'],
      ends: Int[np.ndarray, ' terms'],
      idf: Float32[np.ndarray, ' terms'],
      formula: Formula,
  ):
    """Reads the postings of all terms.

    Args:
      postings: of the shard.
      begins: `[terms] int64`, the first posting of each.
      ends: `[terms] int64`, the one after its last.
      idf: `[terms] float32`, their weights.
      formula: weighs counts.

    Raises:
      UserError: the postings are damaged.
    """
    self._places, counts = postings.gather(begins, ends)
    norms = formula.norms(postings.lengths)
    sizes = ends - begins
    shares = counts / (norms[self._places] + counts)
    self._added = (np.repeat(idf, sizes) * shares).astype(np.float32)
    stops = np.cumsum(sizes)
    self._runs = list(zip((stops - sizes).tolist(), stops.tolist(),
                          strict=True))
    self._scores = np.zeros(len(postings.lengths), np.float32)

  def score(
      self, terms: Integer[np.ndarray, ' query']
  ) -> Float32[np.ndarray, ' passages'] | None:
    """The scores of all passages for one query, until it is called again.

    Args:
      terms: `[query] int`, numbers of its terms.

    Returns:
      None: no passage holds any of them.
    """
    runs = [run for run in map(self._runs.__getitem__, terms.tolist())
            if run[0] < run[1]]
    if not runs:
      return None
    self._scores.fill(0)
    for begin, end in runs:
      np.add.at(self._scores, self._places[begin:end], self._added[begin:end])
    return self._scores


class Best:
  """The best passages of a query, of the shards so far.

  Attributes:
    rows: `[found] int32` of the corpus, in any order.
    scores: `[found] float32`.
  """

  def __init__(self, depth: int, ranks: Int32[np.ndarray, ' passages']):
    """Holds none.

    Args:
      depth: how many to hold.
      ranks: `[passages] int32`, which of equal scores comes first.
    """
    self._depth, self._ranks = depth, ranks
    self._least = np.float32(0)  # What a passage has to reach, but for 0.
    self.rows = np.zeros(0, np.int32)
    self.scores = np.zeros(0, np.float32)

  def places(
      self, scores: Float32[np.ndarray, ' passages']
  ) -> Int[np.ndarray, ' some']:
    """Where scores are that may be among the best."""
    if not self._least:
      return np.flatnonzero(scores)  # No score is below 0.
    return np.flatnonzero(scores >= self._least)

  def add(
      self,
      rows: Int32[np.ndarray, ' some'],
      scores: Float32[np.ndarray, ' some'],
  ) -> None:
    """Takes passages of another shard, with scores above 0."""
    if len(self.rows):
      rows = np.concatenate([self.rows, rows])
      scores = np.concatenate([self.scores, scores])
    if len(rows) >= self._depth:
      self._least = np.partition(scores, -self._depth)[-self._depth]
      chosen = np.flatnonzero(scores >= self._least)
      if len(chosen) > self._depth:  # Some tie with the last.
        order = np.lexsort((self._ranks[rows[chosen]], -scores[chosen]))
        chosen = chosen[order[: self._depth]]
      rows, scores = rows[chosen], scores[chosen]
    self.rows, self.scores = rows, scores
