"""`given`: passages judged not relevant in the data, in corpus order."""

import dataclasses

import numpy as np
from jaxtyping import Int

from neg_contrast import errors
from neg_contrast.mining import candidates
from neg_contrast.mining.strategies import strategy


@dataclasses.dataclass(frozen=True)
class GivenMiner:
  """Proposes the negative judgements of each query.

  Attributes:
    query_rows: `[judgements] int32`, ascending, of the negative judgements.
    passage_rows: `[judgements] int32`.
    depth: of the candidates.
  """

  query_rows: Int[np.ndarray, ' judgements']
  passage_rows: Int[np.ndarray, ' judgements']
  depth: int

  def mine(
      self, queries: Int[np.ndarray, ' queries']
  ) -> candidates.Candidates:
    """The candidates of some queries."""
    begins, ends = (np.searchsorted(self.query_rows, queries, side)
                    for side in ('left', 'right'))
    return candidates.listed([self.passage_rows[begin:end]
                              for begin, end in zip(begins, ends, strict=True)],
                             None, self.depth)


class Given(strategy.Strategy):
  """Negatives that the data brings."""

  name = 'given'

  def applies(self, task):
    """Whether any judgement is negative."""
    return bool((task.judgements.grades <= 0).any())

  def proposer(self, task):
    """Reads the judgements; raises if none is negative."""
    if not self.applies(task):
      raise errors.UserError(
          f'{self.task.key_of(self.name)}: {task.source} has no passages '
          'judged not relevant (grade 0). Choose another, such as "bm25"'
      )
    judgements = task.judgements
    negative = judgements.grades <= 0
    return strategy.Proposer(GivenMiner(
        judgements.query_rows[negative], judgements.passage_rows[negative],
        self.task.depth,
    ))
