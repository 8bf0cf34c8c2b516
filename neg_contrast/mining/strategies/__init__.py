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


def strategy_of(name: str, task: task_lib.Task) -> Strategy:
  """A strategy, with what it reads of a task."""
  strategy = STRATEGIES[name]
  return strategy(task.only(strategy.reads))


def is_ranked(name: str) -> bool:
  """Whether the candidates of a strategy have ranks and scores."""
  return name in STRATEGIES and STRATEGIES[name].is_ranked


def is_dense(name: str) -> bool:
  """Whether a dual encoder finds the candidates of a strategy."""
  return name in STRATEGIES and STRATEGIES[name].is_dense


__all__ = ['STRATEGIES', 'Proposer', 'Strategy', 'is_dense', 'is_ranked',
           'strategy_of']
