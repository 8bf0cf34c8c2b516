"""Says when hard negatives are solved: they teach nothing any more.

Negatives that were mined or drawn for a model are beaten by it after some
steps; from then on they have no gradient, until they are made again.
"""

import collections
import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any

from neg_contrast import errors
from neg_contrast.settings import config as config_lib

ACCURACY, MASS = 0.98, 0.01
"""Solved: positives beat the negatives of a source in this part of the queries
or more, and these have this part of the softmax at most."""
_MOST, _LEAST, _PART = 50, 10, 5  # Steps that are looked at: a fifth of a run.


@dataclasses.dataclass(frozen=True)
class Remedy:
  """What to do about solved negatives.

  Attributes:
    sources: that age: those whose negatives were made for a model, or ranked.
    every: steps after which they are made again; 0: never.
    advice: steps after which they should be -> what to set.
  """

  sources: frozenset[str]
  every: int
  advice: Callable[[int], str]


NOTHING = Remedy(frozenset(), 0, str)
_NEVER_OLD = {'corpus', 'gold', 'random', 'retrieved'}  # Drawn anew each step.


def remedy_of(
    negatives: config_lib.NegativesConfig, names: Collection[str], every: int,
    epoch_steps: float,
) -> Remedy:
  """What to do about solved negatives of a training.

  Args:
    negatives: its settings.
    names: of its sources.
    every: steps after which they are made again; 0: never.
    epoch_steps: steps that take each example once.
  """
  steps_key = f'--{errors.key("negatives.refresh_steps")}'
  if negatives.count_of('sampled'):
    key = f'--{errors.key("negatives.refresh_epochs")}'
    return Remedy(frozenset({'hard'}), every, lambda steps: (
        f'Draw them again sooner: {key}={steps / epoch_steps:.2g}'
    ))
  unjudged = (f', without {errors.key("negatives.judge")}'
              if negatives.judge else '')
  if negatives.dense and not negatives.pool:
    return Remedy(frozenset(negatives.dense), every, lambda steps: (
        f'Have the pool made again sooner: {steps_key}={steps}{unjudged}'
    ))
  what = ('Leave negatives.pool out' if negatives.pool
          else 'Let "model" propose negatives too')
  return Remedy(frozenset(names) - _NEVER_OLD, every, lambda steps: (
      f'{what}, and have the pool made again as training goes on: '
      f'{steps_key}={steps} (negatives.sources with model among them)'
      f'{unjudged}'
  ))


def remedy_of_mixture(names: Collection[str]) -> Remedy:
  """What to do about those of several data sets, which are made once.

  Args:
    names: of their sources.
  """
  return Remedy(frozenset(names) - _NEVER_OLD, 0, lambda steps: (
      'Trainings with mixture.sets make them once: name "corpus" beside them '
      f'in {errors.key("negatives.sources")}, which is drawn anew each step'
  ))


class Watch:
  """Looks at the records of a training, one after another."""

  def __init__(self, remedy: Remedy, total_steps: int):
    """Has seen nothing yet.

    Args:
      remedy: what sources to look at, and what to say of them.
      total_steps: of the training.
    """
    self._remedy = remedy
    self._steps = max(_LEAST, min(_MOST, total_steps // _PART))
    self._generation = -1
    self._told: set[str] = set()
    self._seen: dict[str, collections.deque[tuple[float, float]]] = {}

  def see(
      self, step: int, contrast: Mapping[str, Mapping[str, float]]
  ) -> list[dict[str, Any]]:
    """Takes in a step.

    Args:
      step: its number, from 1.
      contrast: source -> `score`, `mass` and `accuracy`.

    Returns:
      Of each source that is found solved, once in a generation: `source`,
      `accuracy`, `mass`, `steps` that these are means of, and `text`.
    """
    every = self._remedy.every
    generation = (step - 1) // every if every else 0
    if generation != self._generation:
      self._generation = generation
      self._told, self._seen = set(), {}
    return [self._tell(step, source)
            for source in self._solved(contrast, self._remedy.sources)]

  def _solved(
      self, contrast: Mapping[str, Mapping[str, float]],
      sources: Collection[str],
  ) -> list[str]:
    """Sources that are solved as of this step, and were not said to be."""
    found = []
    for source, values in contrast.items():
      is_there = values['mass'] or values['score']  # Else it gave none.
      if source not in sources or source in self._told or not is_there:
        continue
      seen = self._seen.setdefault(
          source, collections.deque(maxlen=self._steps)
      )
      seen.append((values['accuracy'], values['mass']))
      accuracy, mass = self._means(source)
      if len(seen) == self._steps and accuracy >= ACCURACY and mass <= MASS:
        found.append(source)
        self._told.add(source)
    return found

  def _means(self, source: str) -> tuple[float, float]:
    seen = self._seen[source]
    accuracy, mass = (sum(column) / len(seen)
                      for column in zip(*seen, strict=True))
    return accuracy, mass

  def _tell(self, step: int, source: str) -> dict[str, Any]:
    accuracy, mass = self._means(source)
    return {
        'source': source, 'accuracy': accuracy, 'mass': mass,
        'steps': self._steps,
        'text': f'the negatives of {source} are solved: over the last '
                f'{self._steps} steps the positives beat them in '
                f'{100 * accuracy:.1f}% of the queries, and they have '
                f'{100 * mass:.2f}% of the softmax. '
                f'{self._remedy.advice(self._better(step))}',
    }

  def _better(self, step: int) -> int:
    """Steps of a generation that would have ended before it was solved."""
    every = self._remedy.every
    age = step - self._generation * every
    steps = max(self._steps, age - self._steps)
    return max(1, min(steps, every // 2)) if every else steps
