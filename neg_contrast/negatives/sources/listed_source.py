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
      self, step: int, numbers: np.ndarray, query_rows: np.ndarray
  ) -> drawing.Listed:
    """What some examples may get; arguments as those of `draw`."""

  def draw(
      self, step: int, numbers: np.ndarray, query_rows: np.ndarray
  ) -> batcher.Drawn:
    """As quotas say, or uniformly."""
    return self._draw(self.listed(step, numbers, query_rows), step, numbers)

  def _draw(
      self, listed: drawing.Listed, step: int, numbers: np.ndarray
  ) -> batcher.Drawn:
    material = self._material
    by_name = self.quotas(step)
    return listed.draw(
        material.settings.per_query, material.seed, step, numbers,
        [by_name[name] for name in self.names(material.pool) if by_name],
    )

  def quotas(self, step: int) -> dict[str, int]:
    """How many of the N each source gives at a step; empty: any number."""
    del step
    settings = self._material.settings
    return dict(zip(settings.members, settings.quotas, strict=False))
