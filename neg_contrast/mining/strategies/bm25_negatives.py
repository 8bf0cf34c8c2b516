"""`bm25`: the top passages of BM25."""

import numpy as np

from neg_contrast.mining import candidates
from neg_contrast.mining.strategies import strategy
from neg_contrast.retrieval import bm25_search


class Bm25(strategy.Strategy):
  """Passages that share words with the query."""

  name = 'bm25'
  is_ranked = True
  reads = ('k1', 'b')

  def needs(self):
    """The index of the corpus."""
    return {'bm25': self._index}

  def proposer(self, task):
    """Searches the corpus, or the worlds of the queries."""
    index, depth = self._index.load(), self.task.depth
    over, queries = index.over_worlds_of(task.query_rows), task.prepared.queries

    def search(rows: np.ndarray, others: np.ndarray):
      texts = [queries[int(row)].text for row in rows]
      return over.search_and_score(texts, depth, others)

    return strategy.Proposer(candidates.SearchMiner(search, task.positives))

  @property
  def _index(self) -> bm25_search.Bm25:
    return bm25_search.Bm25(self.task.data, self.task.k1, self.task.b)
