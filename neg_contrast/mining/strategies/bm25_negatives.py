"""`bm25`: the top passages of BM25."""

import numpy as np

from neg_contrast.mining import candidates
from neg_contrast.mining.strategies import strategy
from neg_contrast.retrieval import bm25_search, own_passages


class Bm25(strategy.Strategy):
  """Passages that share words with the query."""

  name = 'bm25'
  is_ranked = True
  reads = ('k1', 'b')
  queries_at_once = bm25_search.QUERIES_AT_ONCE

  def needs(self):
    """The index of the corpus."""
    return {'bm25': self._index}

  def proposer(self, task):
    """Searches the corpus, or the worlds of the queries."""
    index, depth = self._index.load(), self.task.depth
    over, queries = index.over_worlds_of(task.query_rows), task.prepared.queries

    def search(rows: np.ndarray, others: np.ndarray):
      found, scores = over.search_and_score(
          [queries[int(row)].text for row in rows],
          own_passages.depth_for(task.dataset, depth), others,
      )
      return own_passages.drop(task.dataset, rows, found, depth), scores

    return strategy.Proposer(candidates.SearchMiner(search, task.positives))

  @property
  def _index(self) -> bm25_search.Bm25:
    return bm25_search.Bm25(self.task.data, self.task.k1, self.task.b)
