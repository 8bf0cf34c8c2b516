"""`pool`: mined candidates of each query, by whichever strategies.

With `negatives.refresh_steps` the training makes the pool again by its model as
it is, see `negatives/refresh.py`.
"""

import dataclasses
import functools
from typing import Any

import numpy as np
from absl import logging

from neg_contrast.negatives import drawing, served
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives import refresh as refresh_lib
from neg_contrast.negatives.sources import listed_source, source
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import source_list


class FromPool(listed_source.ListedSource):
  """Draws N of the M negatives of a query, by (seed, step, example)."""

  def __init__(self, material: source.Material):
    """Reads nothing yet."""
    super().__init__(material)
    self.refresh_steps = material.settings.refresh_steps
    self._served = served.Served(material.workdir, material.run)

  @staticmethod
  def names(
      settings: config_lib.NegativesConfig, pool: pool_lib.Pool | None
  ) -> tuple[str, ...]:
    """The strategies that mined it; without a pool, those that will."""
    return settings.pooled if pool is None else pool.sources

  def refresh(self, params: Any, step: int) -> dict[str, Any] | None:
    """Makes the pool of the steps that come; before the first it is mined.

    Or takes the newest that another program made; says so where it is another
    than before.
    """
    if self._material.settings.is_asynchronous:
      return self._take(step)
    moment = self._moment(step)
    if moment is None:
      return None
    assert self._material.remake is not None  # The checks saw to that.
    self._material.remake(params, moment)
    return refresh_lib.facts(moment)

  def _take(self, step: int) -> dict[str, Any] | None:
    every = self.refresh_steps
    made = self._served.choose(step)
    if not made or step >= every and self._served.at(step - every) == made:
      if step:
        logging.info('no newer negatives at step %d: those of step %d stay; is '
                     'configs/refresh.py running?', step, made)
      return None
    moment = self._moment(step)
    assert moment is not None
    return {**refresh_lib.facts(moment), 'generation': made,
            'age': step - made}

  def entries(self, step: int) -> list[source_list.Entry]:
    """Where the model replaced several sources, the first has their numbers."""
    entries = super().entries(step)
    if self._moment(step) is None:
      return entries
    first, *others = self._pool(step).manifest[refresh_lib.FACTS][
        refresh_lib.REPLACED
    ]
    empty = [entry for entry in entries if {*entry.names} <= {*others}]
    more = sum(entry.count for entry in empty)
    return [dataclasses.replace(
        entry, count=entry.count + more * (first in entry.names)
    ) for entry in entries if entry not in empty]

  def listed(
      self, step: int, numbers: np.ndarray, query_rows: np.ndarray
  ) -> drawing.Listed:
    """What no filter dropped.

    Raises:
      UserError: the pool of the step is not there any more.
    """
    del numbers
    return self._pool(step).listed(query_rows)

  def _moment(self, step: int) -> refresh_lib.Moment | None:
    """When the pool of a step was made; None: before training."""
    material, every = self._material, self.refresh_steps
    if not every or step < every:
      return None
    made = step // every * every
    if material.settings.is_asynchronous:
      made = self._served.at(made)
    return refresh_lib.Moment(
        material.workdir, made, every, material.run
    ) if made else None

  def _pool(self, step: int) -> pool_lib.Pool:
    pool, moment = self._material.pool, self._moment(step)
    assert pool is not None  # The plan saw to that.
    return pool if moment is None else self._read(moment)

  @functools.lru_cache(maxsize=2)  # noqa: B019 - lives as long as a run.
  def _read(self, moment: refresh_lib.Moment) -> pool_lib.Pool:
    assert self._material.pool is not None
    return refresh_lib.read(moment, self._material.pool)
