"""Okapi BM25 over stemmed words: the sparse retriever and negative miner."""

import array
import collections
import logging
import math
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float32, Int, Int32

from neg_contrast import errors
from neg_contrast.retrieval import hits


class Bm25Index:
  """Ranks passages by BM25 in Lucene's form, as bm25s computes it.

  score(q, d) = Σ_{t in q} ln(1 + (P - df_t + ½) / (df_t + ½))
                · tf_td / (tf_td + k1 · (1 - b + b · |d| / mean |d|))

  over the terms of the query, repeats counted. Terms are lower-cased words of
  two or more characters that are no English stop words, under the Snowball
  stemmer. The formula is "Lucene (accurate)" of Kamphuis et al., ECIR 2020.

  Searching holds one float32 per passage, whatever the number of queries; the
  index 8 bytes per distinct (term, passage).
  """

  def __init__(
      self,
      texts: Iterable[str],
      ranks: Int32[np.ndarray, 'passages'],
      k1: float = 0.9,
      b: float = 0.4,
  ):
    """Indexes a corpus.

    Args:
      texts: title and text of each passage, joined by a space, in corpus order;
        read once.
      ranks: [passages] int32, from `hits.tie_ranks`.
      k1: how slowly repeats of a term saturate (MS MARCO: 0.82).
      b: how far scores are normalised by length, 0 to 1 (MS MARCO: 0.68).

    Raises:
      UserError: no text holds a term.
      ValueError: texts and ranks differ in number.
    """
    # Imported here: importing bm25s starts JAX's backends (it calls top_k),
    # which must not happen before jax.distributed.initialize.
    import bm25s
    import Stemmer
    from bm25s import tokenization

    logging.getLogger('bm25s').setLevel(logging.WARNING)  # it sets DEBUG
    self._tokenizer = tokenization.Tokenizer(
        stopwords='english', stemmer=Stemmer.Stemmer('english')
    )
    # array: 4 bytes a token where a list takes 8.
    term_ids = [array.array('i', ids) for ids in self._terms(texts, grow=True)]
    if len(term_ids) != len(ranks):
      raise ValueError(f'{len(term_ids)} passages but {len(ranks)} tie ranks')
    vocabulary = self._tokenizer.get_vocab_dict()
    if not vocabulary:
      raise errors.UserError(
          'BM25 finds no word in the corpus: are its texts empty? Use another '
          'retriever, or negatives other than bm25'
      )
    self._ranks = ranks
    self._k1, self._b = k1, b
    self._mean_length = sum(map(len, term_ids)) / len(term_ids)
    self._bm25 = bm25s.BM25(k1=k1, b=b, method='lucene', backend='numpy')
    self._bm25.index(
        tokenization.Tokenized(term_ids, vocabulary),
        create_empty_token=False,
        show_progress=False,
    )

  def search(self, queries: Sequence[str], depth: int) -> hits.Hits:
    """The best passages of each query; those without any of its terms are none.

    Args:
      queries: texts.
      depth: how many passages to return per query.

    Returns:
      Hits [queries, depth], with scores above 0.
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
    """The same, and the scores of some passages (-inf for padding).

    Args:
      queries: texts.
      depth: how many passages to return per query.
      rows: `[queries, some] int`, passages to score for each query; -1 pads.
    """
    found = hits.Hits(
        np.empty((len(queries), depth), np.int32),
        np.empty((len(queries), depth), np.float32),
    )
    some = np.empty(rows.shape, np.float32)
    for i, term_ids in enumerate(self._terms(queries, grow=False)):
      scores = self._scores(term_ids)
      best = hits.top_k(scores, self._ranks, depth)
      found.rows[i], found.scores[i] = best.rows, best.scores
      some[i] = np.where(
          rows[i] >= 0, np.maximum(scores[rows[i]], 0), -np.inf
      )
    return found, some

  def score_texts(self, query: str, texts: Sequence[str]) -> list[float]:
    """Scores of texts that need not be passages, with the corpus's statistics.

    Words that the corpus lacks count for nothing.
    """
    wanted, *others = self._terms([query, *texts], grow=False)
    begins, passages = self._bm25.scores['indptr'], len(self._ranks)
    scores = []
    for term_ids in others:
      counts = collections.Counter(term_ids)
      scores.append(0.0)
      norm = self._k1 * (
          1 - self._b + self._b * len(term_ids) / self._mean_length
      )
      for term in wanted:
        frequency = counts[term]
        holding = int(begins[term + 1] - begins[term])
        idf = math.log1p((passages - holding + 0.5) / (holding + 0.5))
        scores[-1] += idf * frequency / (frequency + norm)
    return scores

  def _scores(self, term_ids: list[int]) -> Float32[np.ndarray, 'passages']:
    """The scores of all passages; -inf without a term in common."""
    scores = self._bm25.get_scores_from_ids(term_ids)
    return np.where(scores > 0, scores, np.float32(-np.inf))

  def _terms(self, texts: Iterable[str], grow: bool) -> Iterable[list[int]]:
    """Term ids of each text; unknown terms are added (`grow`) or left out."""
    return self._tokenizer.streaming_tokenize(
        texts, update_vocab=grow, allow_empty=False
    )
