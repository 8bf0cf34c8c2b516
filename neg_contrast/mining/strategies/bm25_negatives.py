"""`bm25`: the top passages of BM25."""

import numpy as np

from neg_contrast.mining import candidates, worlds_index
from neg_contrast.mining.strategies import strategy
from neg_contrast.retrieval import hits, own_passages


class Bm25(strategy.Strategy):
  """Passages that share words with the query."""

  name = 'bm25'
  is_ranked = True
  reads = ('k1', 'b')

  def needs(self):
    """The index of the corpus, or of the worlds of the queries."""
    return {'bm25': worlds_index.index_of(self.task)}

  def proposer(self, task):
    """Searches the index."""
    index, depth = worlds_index.index_of(self.task).load(), self.task.depth
    queries, among = task.prepared.queries, task.among

    def search(rows: np.ndarray, others: np.ndarray):
      if among is not None:
        places = np.searchsorted(among[:-1], others)
        others = np.where(among[places] == others, places, -1)
      found, scores = index.search_and_score(
          [queries[int(row)].text for row in rows],
          own_passages.depth_for(task.dataset, depth), others,
      )
      return own_passages.drop(
          task.dataset, rows, hits.renumber(found, among), depth
      ), scores

    return strategy.Proposer(candidates.SearchMiner(search, task.positives))
