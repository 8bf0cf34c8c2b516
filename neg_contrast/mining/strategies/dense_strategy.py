"""The nearest passages by a dual encoder, whichever it is."""

import abc
import functools
from typing import Any, ClassVar

import numpy as np

from neg_contrast.artifacts import artifact
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.mining import candidates
from neg_contrast.mining.strategies import strategy
from neg_contrast.retrieval import (
  corpus_vectors,
  own_passages,
  search_settings,
  searched,
)
from neg_contrast.retrieval import retriever as retriever_lib

_MEASURED = 200  # Queries that the recall of a ScaNN index is measured with.


class DenseStrategy(strategy.Strategy):
  """What strategies that search by a dual encoder share."""

  is_ranked = True
  is_dense = True
  reads: ClassVar[tuple[str, ...]] = ('encoding', 'search')

  @property
  @abc.abstractmethod
  def model(self) -> artifact.Artifact:
    """What searches; loads as a dual encoder."""

  @property
  def embeddings(self) -> corpus_vectors.Embeddings:
    """The vectors of the corpus, where all jobs share them."""
    assert self.task.encoding is not None
    return corpus_vectors.Embeddings(
        self.task.data, self.task.encoding,
        self.task.mined_dir / retriever_lib.FOLDER, self.model,
    )

  def needs(self) -> dict[str, artifact.Artifact]:
    """The vectors."""
    return {'embeddings': self.embeddings}

  def settings(self) -> dict[str, Any]:
    """The index that searches them."""
    task = self.task.open()
    return {'index': self._search(task).index_identity(task.prepared)}

  def is_on_mesh(self, task):
    """Unless a quantized index is searched, and in all worlds."""
    return (task.among is not None
            or self._search(task).quantized(task.prepared) is None)

  def proposer(self, task):
    """Makes the index, unless it is there."""
    depth = self.task.depth
    retriever = retriever_lib.Retriever(
        self._search(task), task.dataset, self.embeddings.load(),
        self.embeddings.folder, among=task.among,
    )
    facts: dict[str, Any] = {'kind': 'exact'}
    if not retriever.is_exact:
      rows = task.query_rows
      some = rows[np.linspace(
          0, len(rows) - 1, min(_MEASURED, len(rows)), dtype=int
      )]
      facts = searched.search_and_measure(retriever, some, depth).index
    search = functools.partial(_search, retriever, task.dataset, depth)
    return strategy.Proposer(
        candidates.SearchMiner(search, task.positives), {'index': facts}
    )

  def _search(self, task) -> search_settings.SearchSettings:
    """For all queries of the task."""
    assert self.task.search is not None
    return self.task.search.of_queries(
        len(task.query_rows), self.embeddings.load().encoder.score
    )


def _search(
    retriever: retriever_lib.Retriever,
    dataset: dataset_lib.Dataset,
    depth: int,
    rows: np.ndarray,
    others: np.ndarray,
):
  """Hits, and the scores of other passages."""
  found, scores = retriever.search_and_score(
      rows, own_passages.depth_for(dataset, depth), others
  )
  return own_passages.drop(dataset, rows, found, depth), scores
