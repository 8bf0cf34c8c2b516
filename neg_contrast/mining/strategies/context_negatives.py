"""`context`: other passages of the positive's document, or half of it."""

import functools
from collections.abc import Sequence

import numpy as np
from absl import logging

from neg_contrast import errors
from neg_contrast.mining import context
from neg_contrast.mining import mining_task as task_lib
from neg_contrast.mining.strategies import strategy
from neg_contrast.retrieval import bm25_search


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
            'answer_rule': self.task.answer_rule}

  def applies(self, task):
    """Whether the document of any positive is known."""
    return bool((task.dataset.documents[_trained(task)[1]] >= 0).any())

  def proposer(self, task):
    """Reads the documents; raises if those of the positives are unknown."""
    documents, prepared = task.dataset.documents, task.prepared
    query_rows, passage_rows = _trained(task)
    self._check(task, int((documents[passage_rows] < 0).sum()))
    assert self.task.tokenizer is not None
    halves = context.HalfMaker(
        self.task.tokenizer.load(), functools.partial(self._score, task),
        self.task.answer_rule,
    )

    def half(query_row: int, row: int):
      query = prepared.queries[query_row]
      return halves.negative_half(
          query.text, query.answers, prepared.passages[row].text
      )

    def positives(query_row: int):
      return passage_rows[slice(*np.searchsorted(
          query_rows, [query_row, query_row + 1]
      ))].tolist()

    miner = context.ContextMiner(
        documents, prepared.passage_groups, positives, task.positives, half,
        self.task.depth,
    )
    return strategy.Proposer(miner, halves=miner.halves)

  @property
  def _index(self) -> bm25_search.Bm25:
    return bm25_search.Bm25(self.task.data, self.task.k1, self.task.b)

  def _score(
      self, task: task_lib.OpenTask, query: str, some: Sequence[str]
  ) -> Sequence[float]:
    """By the index, which is opened for the first half, if there is any."""
    index = self._index.load().over_worlds_of(task.query_rows)
    return index.score_texts(query, some)

  def _check(self, task: task_lib.OpenTask, unknown: int) -> None:
    if not self.applies(task):
      raise errors.UserError(
          f'{self.task.key_of(self.name)}: it is not known which passages of '
          f'{task.source} belong to one document. Choose "coarse"; or, if '
          'passages of one document have one title, set '
          f'--{errors.key("data.document")}=title'
      )
    if unknown:
      logging.warning('%d of %d positives belong to no document and get no '
                      'context negatives', unknown, len(_trained(task)[1]))


def _trained(task: task_lib.OpenTask) -> tuple[np.ndarray, np.ndarray]:
  """Rows of the queries, ascending, and of the positives trained on."""
  judgements = task.judgements
  trained = (judgements.grades > 0) & judgements.is_example
  return judgements.query_rows[trained], judgements.passage_rows[trained]
