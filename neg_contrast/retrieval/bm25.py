"""Okapi BM25 over stemmed words: the sparse retriever and negative miner."""

import collections
import math
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float32, Int, Int32

from neg_contrast import errors
from neg_contrast.retrieval import (
  bm25_folder,
  bm25_scoring,
  bm25_terms,
  bm25_totals,
  hits,
)

# A term that several of them have is scored once. 21 million passages, 321
# shards: the places of 1,024 queries' terms take 30 MB.
_QUERIES_AT_ONCE = 1024


class Bm25Index:
  """Ranks passages by BM25 in Lucene's form, to the last bit as bm25s does.

  score(q, d) = Σ_{t in q} ln(1 + (P - df_t + ½) / (df_t + ½))
                · tf_td / (tf_td + k1 · (1 - b + b · |d| / mean |d|))

  over the terms of the query, repeats counted; see `bm25_terms.TermReader`.
  The formula is "Lucene (accurate)" of Kamphuis et al., ECIR 2020. The first
  factor is rounded to float32, the product is computed in float64 and rounded,
  and a sum is in float32, in the order of the query: what a passage scores does
  not depend on how passages are divided into shards.

  Searching reads shard by shard, each once for 1,024 queries. It holds what it
  reads of one shard: at most 32 bytes a posting.

  Attributes:
    shards: of the passages that are searched.
    ranks: `[all_passages] int32`, which of equal scores comes first.
  """

  def __init__(
      self,
      shards: Sequence[bm25_folder.Shard],
      ranks: Int32[np.ndarray, ' all_passages'],
      k1: float = 0.9,
      b: float = 0.4,
      totals: bm25_totals.Totals | None = None,
  ):
    """Adds up what the shards hold.

    Args:
      shards: of the passages to be searched: of a corpus, or of some worlds,
        which then are a corpus of their own.
      ranks: `[all_passages] int32` of the whole corpus, from `hits.tie_ranks`.
      k1: how slowly repeats of a term saturate (MS MARCO: 0.82).
      b: how far scores are normalised by length, 0 to 1 (MS MARCO: 0.68).
      totals: of the corpus that the shards are a part of, for all terms that
        are looked for; default: they are all of it.

    Raises:
      UserError: no passage holds a term.
    """
    self.shards, self.ranks = shards, ranks
    self._reader = bm25_terms.TermReader()
    self._totals = totals
    none = np.zeros(0, np.uint64)
    sums = totals or bm25_totals.together([
        bm25_totals.of_shard(shard.postings, none) for shard in shards], none)
    if not sums.words:
      raise errors.UserError(
          'BM25 finds no word in the corpus: are its texts empty? Use another '
          'retriever, or negatives other than bm25'
      )
    self._formula = bm25_scoring.Formula(
        k1, b, sums.passages, sums.words / sums.passages)

  def search(self, queries: Sequence[str], depth: int) -> hits.Hits:
    """The best passages of each query; those without any of its terms are none.

    Args:
      queries: texts.
      depth: how many passages to return per query.

    Returns:
      Hits [queries, depth], rows of the whole corpus, with scores above 0.
    """
    return self.search_and_score(
        queries, depth, np.zeros((len(queries), 0), np.int32)
    )[0]

  def search_and_score(
      self,
      queries: Sequence[str],
      depth: int,
      rows: Int[np.ndarray, 'queries some'],
  ) -> tuple[hits.Hits, Float32[np.ndarray, 'queries some']]:
    """The same, and the scores of some passages.

    Args:
      queries: texts.
      depth: how many passages to return per query.
      rows: `[queries, some] int`, passages to score for each query, as rows of
        the whole corpus; -1 pads.

    Returns:
      Hits as `search`, and scores, -inf for padding and for passages that are
      not searched.
    """
    shape = len(queries), depth
    found = hits.Hits(np.empty(shape, np.int32), np.empty(shape, np.float32))
    some = np.full(rows.shape, -np.inf, np.float32)
    for first in range(0, len(queries), _QUERIES_AT_ONCE):
      part = slice(first, first + _QUERIES_AT_ONCE)
      best = self._search(queries[part], depth, rows[part], some[part])
      for line, (its_rows, its_scores) in enumerate(best, first):
        one = hits.best_of(its_rows[None], its_scores[None], self.ranks, depth)
        found.rows[line], found.scores[line] = one.rows[0], one.scores[0]
    return found, some

  def score_texts(self, query: str, texts: Sequence[str]) -> list[float]:
    """Scores of texts that need not be passages, with the corpus's statistics.

    Words that the corpus lacks count for nothing.
    """
    read = self._reader.read([query, *texts])
    different, numbers = np.unique(read.terms, return_inverse=True)
    holding = self._holding(different, self._locate(different))
    wanted, *others = (
        [term for term in some.tolist() if holding[term]]
        for some in np.split(numbers, np.cumsum(read.lengths)[:-1])
    )
    formula, scores = self._formula, []
    for terms in others:
      counts = collections.Counter(terms)
      scores.append(0.0)
      norm = formula.k1 * (
          1 - formula.b + formula.b * len(terms) / formula.mean_length
      )
      for term in wanted:
        frequency, df = counts[term], int(holding[term])
        idf = math.log1p((formula.passages - df + 0.5) / (df + 0.5))
        if frequency:  # The norm may be 0, too.
          scores[-1] += idf * frequency / (frequency + norm)
    return scores

  def _locate(self, terms: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Begins and ends of the postings of some terms, by shard."""
    return [shard.postings.locate(terms) for shard in self.shards]

  def _holding(
      self, terms: np.ndarray, places: list[tuple[np.ndarray, np.ndarray]]
  ) -> np.ndarray:
    """How many passages of the corpus hold some terms, `[terms]`.

    Args:
      terms: `[terms] uint64`.
      places: of `_locate`.
    """
    if self._totals is not None:
      return self._totals.of(terms)
    return np.sum([ends - begins for begins, ends in places], 0)

  def candidates(
      self, queries: Sequence[str], depth: int
  ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The best passages of each query, with `search`'s scores.

    Yields:
      `[found] int32` rows and `[found] float32` scores, in any order.
    """
    for first in range(0, len(queries), _QUERIES_AT_ONCE):
      some = queries[first : first + _QUERIES_AT_ONCE]
      none = np.zeros((len(some), 0), np.int32)
      yield from self._search(some, depth, none, none.astype(np.float32))

  def _search(
      self,
      queries: Sequence[str],
      depth: int,
      rows: Int[np.ndarray, 'queries some'],
      some: Float32[np.ndarray, 'queries some'],
  ) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows and scores of the best, in any order.

    Scores of `rows` go to `some`, where they are searched.
    """
    read = self._reader.read(queries)
    different, numbers = np.unique(read.terms, return_inverse=True)
    terms = np.split(numbers, np.cumsum(read.lengths)[:-1])
    places = self._locate(different)
    idf = self._formula.idf(self._holding(different, places))
    best = [bm25_scoring.Best(depth, self.ranks) for _ in queries]
    for shard, (begins, ends) in zip(self.shards, places, strict=True):
      scorer = bm25_scoring.ShardScorer(
          shard.postings, begins, ends, idf, self._formula
      )
      wanted = shard.rows.places(rows)
      is_here = wanted >= 0
      some[is_here] = 0
      for line, its_terms in enumerate(terms):
        scores = scorer.score(its_terms)
        if scores is None:
          continue
        some[line, is_here[line]] = scores[wanted[line, is_here[line]]]
        at = best[line].places(scores)
        best[line].add(shard.rows.at(at), scores[at])
    return [(one.rows, one.scores) for one in best]
