"""Sources that list what an example may get, and draw N of it."""

import abc

import numpy as np

from neg_contrast.batches import batcher
from neg_contrast.negatives import drawing
from neg_contrast.negatives.sources import source


class ListedSource(source.Source):
  """Draws N of what it lists, by (seed, step, example) and quotas."""

  @abc.abstractmethod
  def listed(
      self, numbers: np.ndarray, query_rows: np.ndarray
  ) -> drawing.Listed:
    """What some examples may get; arguments as those of `draw`."""

  def draw(
      self, step: int, numbers: np.ndarray, query_rows: np.ndarray
  ) -> batcher.Drawn:
    """As quotas say, or uniformly."""
    return self._draw(self.listed(numbers, query_rows), step, numbers)

  def _draw(
      self, listed: drawing.Listed, step: int, numbers: np.ndarray
  ) -> batcher.Drawn:
    material, settings = self._material, self._material.settings
    by_name = dict(zip(settings.members, settings.quotas, strict=False))
    quotas = [by_name[name] for name in self.names(material.pool) if by_name]
    return listed.draw(
        settings.per_query, material.seed, step, numbers, quotas
    )
