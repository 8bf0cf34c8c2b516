"""The training of a dual encoder on several data sets.

Each data set has its own corpus, negatives, prompts and tune queries: all that
a training on it alone would have. Batches join them, see `batches/joined.py`;
loop, step and loss are those of any training.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
from absl import logging
from jax.sharding import Mesh

from neg_contrast import errors
from neg_contrast.artifacts import artifact
from neg_contrast.artifacts import checkpoints as checkpoints_lib
from neg_contrast.batches import joined, mixture_order
from neg_contrast.negatives import sources
from neg_contrast.training import (
  encoder_run,
  encoder_tuning,
  recipe,
  run_log,
  run_settings,
  solved,
)

FOLDER = 'sets'  # Of a workdir: what belongs to one data set.
_TUNE = '/tune/'  # Between a set and its metric.
_SEED_STEP = 7_919_111  # So that no two data sets draw by the same numbers.


def folder_of(workdir: pathlib.Path, name: str) -> pathlib.Path:
  """Of what belongs to one data set; the workdir itself, where there is one.

  Args:
    workdir: of the training.
    name: of the set; empty: it is the only one.
  """
  return workdir / FOLDER / name if name else workdir


@dataclasses.dataclass(frozen=True)
class TrainedSet:
  """A data set of a mixture.

  Attributes:
    name: of the set.
    weight: how often it is drawn from; None: by its size.
    config: settings of a training on it alone.
    data: loads as its `Dataset`.
    pool: loads as the `Pool` of its hard negatives; None: it needs none.
    drawn_from: (role, artifact) of what else its negatives are drawn from.
    stop_rows: loads as the passages that early stopping searches; None: it
      searches none.
  """

  name: str
  weight: float | None
  config: run_settings.RunSettings
  data: artifact.Artifact
  pool: artifact.Artifact | None = None
  drawn_from: tuple[tuple[str, artifact.Artifact], ...] = ()
  stop_rows: artifact.Artifact | None = None

  def needs(self) -> dict[str, artifact.Artifact]:
    """What it is made of, by role."""
    given = {'data': self.data, 'pool': self.pool, **dict(self.drawn_from)}
    return {f'{role} of {self.name}': need for role, need in given.items()
            if need is not None}


@dataclasses.dataclass(frozen=True)
class Mixture:
  """Data sets that are trained on together.

  Attributes:
    sets: at least one.
    temperature: of sizes, for sets without weights.
    is_mixed: whether a batch mixes data sets.
  """

  sets: tuple[TrainedSet, ...] = ()
  temperature: float = 1.0
  is_mixed: bool = False

  def order(
      self,
      sizes: tuple[int, ...],
      batch_size: int,
      seed: int,
      orders: tuple[Callable[[int], np.ndarray] | None, ...] = (),
  ) -> mixture_order.MixtureOrder:
    """The order of examples.

    Args:
      sizes: examples of each data set.
      batch_size: examples of a step.
      seed: of the run.
      orders: of each data set, see `MixtureOrder`.

    Raises:
      UserError: a data set would never be drawn from.
    """
    cycle = mixture_order.cycle_of([
        size if one.weight is None else one.weight for size, one in zip(
            mixture_order.weights_of_sizes(sizes, self.temperature), self.sets,
            strict=True,
        )
    ])
    for draws, one in zip(cycle, self.sets, strict=True):
      if not draws:
        more = ('its weight' if one.weight is not None
                else 'mixture.temperature')
        raise errors.UserError(
            f'{errors.key(f"mixture.sets.{one.name}")}: is less than 1 of '
            f'{mixture_order.MOST_DRAWS:,} draws, so it would never be trained '
            f'on; raise {more}, or leave it out'
        )
    return mixture_order.MixtureOrder(
        sizes, tuple(map(int, cycle)), batch_size, seed, self.is_mixed, orders
    )


class MixtureTraining(encoder_run.DualEncoderTraining):
  """Trains a dual encoder on a mixture."""

  def __init__(
      self,
      config: run_settings.RunSettings,
      workdir: pathlib.Path,
      given: recipe.Given,
      identity: dict[str, Any] | None,
      mixture: Mixture,
      mesh: Mesh | None = None,
  ):
    """Reads nothing yet; arguments as those of any training, and the sets."""
    super().__init__(config, workdir, given, identity, mesh)
    self._mixture = mixture

  @functools.cached_property
  def _trainings(self) -> list[encoder_run.DualEncoderTraining]:
    """A training on each data set alone, of which batches are made."""
    config = self._config
    return [
        encoder_run.DualEncoderTraining(
            dataclasses.replace(
                one.config, seed=config.seed + _SEED_STEP * number
            ), self.workdir,
            recipe.Given(one.data, self._given.start, one.pool,
                         dict(one.drawn_from)),
            self._identity, self._mesh,
        ) for number, one in enumerate(self._mixture.sets)
    ]

  @functools.cached_property
  def _sources(self):
    """Those of all data sets, each once."""
    return tuple(dict.fromkeys(
        name for names in map(_sources_of, self._mixture.sets)
        for name in names
    ))

  def _make_batch(self):
    config, sets = self._config, self._mixture.sets
    parts = []
    for one, training in zip(sets, self._trainings, strict=True):
      with errors.within(f'mixture.sets.{one.name}'):
        parts.append(training.make_unfitted())
    order = self._mixture.order(
        tuple(len(part.examples) for part in parts), config.data.batch_size,
        config.seed, tuple(part.order for part in parts),
    )
    logging.info('mixture, batches of %s: %s',
                 'several sets' if order.is_mixed else 'one set', ', '.join(
        f'{one.name} {draws:,} of {sum(order.cycle):,} draws '
        f'({size:,} examples)' for one, draws, size in zip(
            sets, order.cycle, order.sizes, strict=True
        )))
    numbers = [
        np.array([self._sources.index(name) for name in _sources_of(one)], int)
        for one in sets
    ]
    batcher = joined.Joined(parts, numbers).batcher(
        order, [one.name for one in sets]
    )
    batcher = encoder_run.fitted(batcher, config, self.model)
    self.row_lengths = batcher.row_lengths
    return batcher, sum(order.sizes)

  def _remedy(self, examples):
    del examples
    return solved.remedy_of_mixture(self._sources)

  @property
  def _tune_queries(self):
    """Several splits, of which none is too small alone."""
    return None

  def _tune(self):
    measures = {one.name: encoder_tuning.make_measure(
        one.config, one.data.load(), self.model, one.stop_rows
    ) for one in self._mixture.sets}

    def measure(params):
      return with_means({
          name: of_set(params) for name, of_set in measures.items()
      })

    return measure


def _sources_of(one: TrainedSet) -> tuple[str, ...]:
  """Names of the sources of hard negatives of a set, by number."""
  pool = None if one.pool is None else one.pool.load()
  return sources.names_of(one.config.negatives, pool)


def tuned_metrics(workdir: pathlib.Path) -> dict[str, float]:
  """Metrics of the kept checkpoint on the tune split of each set.

  Args:
    workdir: of a training that has ended.

  Returns:
    `<set>/tune/trained/<metric>` -> value; empty: it was not tuned, or not on
    several sets.
  """
  with checkpoints_lib.reading(workdir) as checkpoints:
    step = checkpoints.latest_step()
    best = -1 if step is None else checkpoints.progress(step).best_step
  for record in run_log.read(workdir / run_log.FILE):
    if record['step'] == best and 'evaluation' in record:
      return {
          name.replace(_TUNE, f'{_TUNE}trained/'): value
          for name, value in record['evaluation'].items() if _TUNE in name
      }
  return {}


def with_means(by_set: dict[str, dict[str, float]]) -> dict[str, float]:
  """Metrics of a mixture: means over its sets, which have equal weight.

  Args:
    by_set: name of the set -> metric -> value.

  Returns:
    Metric -> mean over the sets that have it; then `<set>/tune/<metric>`.
  """
  names = dict.fromkeys(name for values in by_set.values() for name in values)
  means = {
      name: float(np.mean([
          values[name] for values in by_set.values() if name in values
      ])) for name in names
  }
  return means | {
      f'{of}{_TUNE}{name}': value for of, values in by_set.items()
      for name, value in values.items()
  }
