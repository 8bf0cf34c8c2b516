"""Which of a few texts fits a question best, by BM25 among themselves."""

from collections.abc import Sequence

import numpy as np

from neg_contrast.retrieval import bm25_scoring, bm25_terms


class NearestText:
  """Compares questions with the passages of one document at a time."""

  def __init__(self, k1: float, b: float):
    """Takes the constants of BM25."""
    self._k1, self._b = k1, b
    self._reader = bm25_terms.TermReader()

  def __call__(self, question: str, texts: Sequence[str]) -> int:
    """The place of the best text; of equals, and without a match, the first.

    Args:
      question: any text.
      texts: at least one.
    """
    terms = self._reader.read([question, *texts])
    found = np.split(terms.terms, np.cumsum(terms.lengths)[:-1])
    lengths = terms.lengths[1:].astype(np.uint32)
    formula = bm25_scoring.Formula(
        self._k1, self._b, len(texts), max(float(lengths.mean()), 1.0)
    )
    counts = np.array([[np.count_nonzero(one == term) for one in found[1:]]
                       for term in found[0]]).reshape(-1, len(texts))
    idf = formula.idf(np.count_nonzero(counts, axis=1))
    gains = np.divide(counts, counts + formula.norms(lengths),
                      out=np.zeros(counts.shape), where=counts > 0)
    return int(np.argmax(idf.astype(np.float64) @ gains))
