"""`bm25`: the top passages of BM25."""

from typing import Any

import numpy as np

from neg_contrast.mining import candidates
from neg_contrast.mining.strategies import strategy
from neg_contrast.retrieval import hits


class Bm25(strategy.Strategy):
  """Passages that share words with the query."""

  name = 'bm25'
  is_ranked = True

  def settings(self) -> dict[str, Any]:
    """BM25's own."""
    evaluation = self._task.evaluation
    return {'k1': evaluation.bm25_k1, 'b': evaluation.bm25_b}

  def proposer(self) -> strategy.Proposer:
    """Indexes the corpus, or the worlds of the queries."""
    task = self._task
    queries, depth = task.dataset.prepared.queries, task.negatives.depth

    def search(rows: np.ndarray, others: np.ndarray):
      if task.among is not None:
        places = np.searchsorted(task.among[:-1], others)
        others = np.where(task.among[places] == others, places, -1)
      found, scores = task.bm25.search_and_score(
          [queries[int(row)].text for row in rows], depth, others
      )
      return hits.renumber(found, task.among), scores

    return strategy.Proposer(candidates.SearchMiner(search, task.positives))
