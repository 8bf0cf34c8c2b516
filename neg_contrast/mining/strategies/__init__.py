"""Mined strategies, one a file: the table that plan, errors and reports use."""

from neg_contrast.mining import mining_task as task_lib
from neg_contrast.mining.strategies import (
  bm25_negatives,
  coarse_negatives,
  context_negatives,
  fine_negatives,
  given_negatives,
  model_negatives,
  run_negatives,
)
from neg_contrast.mining.strategies.strategy import Proposer, Strategy

STRATEGIES: dict[str, type[Strategy]] = {
    strategy.name: strategy for strategy in (
        given_negatives.Given,
        bm25_negatives.Bm25,
        context_negatives.Context,
        coarse_negatives.Coarse,
        fine_negatives.Fine,
        model_negatives.Model,
        run_negatives.Run,
    )
}
"""Name in `config.negatives` -> strategy. A new one is a line here."""

DENSE = tuple(name for name, one in STRATEGIES.items() if one.is_dense)
"""Strategies whose candidates a dual encoder finds."""


def strategy_of(name: str, task: task_lib.Task) -> Strategy:
  """A strategy, with what it reads of a task."""
  strategy = STRATEGIES[name]
  return strategy(task.only(strategy.reads))


def is_ranked(name: str) -> bool:
  """Whether the candidates of a strategy have ranks and scores."""
  return name in STRATEGIES and STRATEGIES[name].is_ranked


__all__ = ['DENSE', 'STRATEGIES', 'Proposer', 'Strategy', 'is_ranked',
           'strategy_of']
