"""`context`: other passages of the positive's document, or half of it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import errors
from neg_contrast.mining import context
from neg_contrast.mining.strategies import strategy
from neg_contrast.models import by_name as model_lib


class Context(strategy.Strategy):
  """Context negatives (Lu et al., section 4.1)."""

  name = 'context'

  def lacks(self) -> str | None:
    """The tokenizer that halves passages."""
    return model_lib.missing(self._task.model_init)

  def settings(self) -> dict[str, Any]:
    """Documents, and what chooses between halves."""
    evaluation = self._task.evaluation
    return {
        'document': self._task.data.document,
        'tokenizer': self._task.tokenizer.sha256,
        'answer_rule': evaluation.answer_rule,
        'k1': evaluation.bm25_k1, 'b': evaluation.bm25_b,
    }

  def proposer(self) -> strategy.Proposer:
    """Reads the documents; raises if those of the positives are unknown."""
    task = self._task
    documents, prepared = task.dataset.documents, task.dataset.prepared
    query_rows, passage_rows = self._trained_pairs(documents)

    def score(query: str, some: Sequence[str]) -> Sequence[float]:
      return task.bm25.score_texts(query, some)

    halves = context.HalfMaker(
        task.tokenizer, score, task.evaluation.answer_rule
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
        task.negatives.depth,
    )
    return strategy.Proposer(miner, halves=miner.halves)

  def _trained_pairs(
      self, documents: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the queries, ascending, and of the positives trained on."""
    judgements = self._task.judgements
    trained = (judgements.grades > 0) & judgements.is_example
    passage_rows = judgements.passage_rows[trained]
    unknown = int((documents[passage_rows] < 0).sum())
    if unknown == len(passage_rows):
      raise errors.UserError(
          f'{self._task.key_of(self.name)}: it is not known which passages of '
          f'{self._task.data.source} belong to one document. Choose '
          '"coarse"; or, if passages of one document have one title, set '
          '--config.data.document=title'
      )
    if unknown:
      logging.warning('%d of %d positives belong to no document and get no '
                      'context negatives', unknown, len(passage_rows))
    return judgements.query_rows[trained], passage_rows
