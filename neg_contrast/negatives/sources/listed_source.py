"""Sources that list what an example may get, and draw N of it."""

import abc
import dataclasses

import numpy as np

from neg_contrast.batches import batcher
from neg_contrast.negatives import drawing
from neg_contrast.negatives.sources import source
from neg_contrast.settings import source_list


class ListedSource(source.Source):
  """Draws N of what it lists, by (seed, step, example) and entry."""

  @abc.abstractmethod
  def listed(
      self, step: int, numbers: np.ndarray, query_rows: np.ndarray
  ) -> drawing.Listed:
    """What some examples may get; arguments as those of `draw`."""

  def draw(
      self, step: int, numbers: np.ndarray, query_rows: np.ndarray
  ) -> batcher.Drawn:
    """So many of each entry, as far as it has them."""
    return self._draw(self.listed(step, numbers, query_rows), step, numbers)

  def _draw(
      self, listed: drawing.Listed, step: int, numbers: np.ndarray
  ) -> batcher.Drawn:
    material = self._material
    names = self.names(material.settings, material.pool)
    entries = self.entries(step)
    entry_of = {name: number for number, entry in enumerate(entries)
                for name in entry.names}
    rest = entry_of.get(source_list.POOL, -1)
    places = np.array([entry_of.get(name, rest) for name in names])
    if (places < 0).any():  # A pool holds more than what is named.
      listed = dataclasses.replace(listed, rows=np.where(
          places[listed.sources] < 0, np.int32(-1), listed.rows
      ))
    return listed.draw(
        material.count, material.seed, step, numbers, places,
        [entry.count for entry in entries],
    )

  def entries(self, step: int) -> list[source_list.Entry]:
    """How many of the N which sources give at a step."""
    del step
    return list(self._material.settings.listed)
