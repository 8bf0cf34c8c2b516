"""The nearest passages by a dual encoder, whichever it is."""

import abc
from typing import Any

import numpy as np

from neg_contrast.mining import candidates
from neg_contrast.mining.strategies import strategy
from neg_contrast.models import loading

_MEASURED = 200  # Queries that the recall of a ScaNN index is measured with.


class DenseStrategy(strategy.Strategy):
  """What strategies that search by a dual encoder share."""

  is_ranked = True

  @property
  @abc.abstractmethod
  def model(self) -> loading.Model:
    """What searches."""

  def settings(self) -> dict[str, Any]:
    """The model's embeddings, and the index that searches them."""
    search = self._task.search
    return {
        'embeddings': search.embeddings_identity(self.model),
        'index': search.index_identity(),
    }

  def proposer(self) -> strategy.Proposer:
    """Encodes the corpus and makes the index, unless they are there."""
    task, depth = self._task, self._task.negatives.depth
    retriever = task.search.retriever(self.model, task.among)
    facts: dict[str, Any] = {'kind': 'exact'}
    if task.search.index_identity() != 'exact':
      rows = task.query_rows
      some = rows[np.linspace(
          0, len(rows) - 1, min(_MEASURED, len(rows)), dtype=int
      )]
      facts = retriever.measure_index(some, retriever.search_rows(some, depth))
    return strategy.Proposer(candidates.SearchMiner(
        lambda rows, others: retriever.search_and_score(rows, depth, others),
        task.positives,
    ), {'index': facts})
