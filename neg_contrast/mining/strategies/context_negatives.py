"""`context`: other passages of the positive's document, or half of it.

What `job=mine` and `job=audit` list; trainings draw for each example instead.
"""


import numpy as np
from absl import logging

from neg_contrast.data import examples
from neg_contrast.mining import context
from neg_contrast.mining import mining_task as task_lib
from neg_contrast.mining.strategies import strategy
from neg_contrast.negatives import document_neighbours, halves
from neg_contrast.retrieval import bm25_search

# 1 listed no half of a query that had other candidates, 2 neighbours of
# positives of weight 0, too.
_MADE = 3


class Context(strategy.Strategy):
  """Context negatives (Lu et al., section 4.1)."""

  name = 'context'
  reads = ('k1', 'b', 'answer_rule', 'document', 'tokenizer')

  def needs(self):
    """What halves passages, and what chooses between halves."""
    return {'bm25': self._index,
            'tokenizer': self.task.tokenizer}

  def settings(self):
    """Documents, and what an answer is."""
    return {'document': self.task.document,
            'answer_rule': self.task.answer_rule, 'made': _MADE}

  def applies(self, task):
    """Whether the document of any positive is known."""
    return bool((task.dataset.documents[_trained(task)[1]] >= 0).any())

  def proposer(self, task):
    """Reads the documents; raises if those of the positives are unknown."""
    documents, prepared = task.dataset.documents, task.prepared
    query_rows, passage_rows = _trained(task)
    unknown = document_neighbours.check_documents(
        documents[passage_rows], task.source, self.task.key_of(self.name)
    )
    if unknown:
      logging.warning('%d of %d positives belong to no document and get no '
                      'context negatives', unknown, len(passage_rows))
    known = documents[passage_rows] >= 0
    query_rows, passage_rows = query_rows[known], passage_rows[known]
    assert self.task.tokenizer is not None
    maker = halves.HalfMaker(
        self.task.tokenizer.load(),
        self._index.load().scorer(task.query_rows), self.task.answer_rule,
    )

    def positives(query_row: int):
      return passage_rows[slice(*np.searchsorted(
          query_rows, [query_row, query_row + 1]
      ))]

    miner = context.ContextMiner(
        document_neighbours.Neighbours(
            documents, prepared.passage_groups, task.positives,
            task.dataset.own_passages,
        ), positives, lambda query_row, row: maker.negative_halves(
            prepared, np.array([query_row]), np.array([row])
        )[0], len(documents), self.task.depth,
    )
    return strategy.Proposer(miner, halves=miner.halves)

  @property
  def _index(self) -> bm25_search.Bm25:
    return bm25_search.Bm25(self.task.data, self.task.k1, self.task.b)


def _trained(task: task_lib.OpenTask) -> tuple[np.ndarray, np.ndarray]:
  """Rows of the queries, ascending, and of the positives trained on."""
  judgements = task.judgements
  trained = examples.are_trained(judgements)
  return judgements.query_rows[trained], judgements.passage_rows[trained]
