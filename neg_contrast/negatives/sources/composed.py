"""Several sources for a query, one after another in its columns.

A text that one of them drew is not drawn again by those behind it: its column
stays empty there.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from neg_contrast.batches import batcher
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives.sources import source
from neg_contrast.settings import config as config_lib

_SEED_STEP = 1_000_003  # So that no two parts draw by the same numbers.


@dataclasses.dataclass(frozen=True)
class Part:
  """A source, and how many columns it gives.

  Attributes:
    kind: of source.
    count: N of a query.
  """

  kind: type[source.Source]
  count: int


class Composed(source.Source):
  """Draws from parts, of which one at most is made again while training."""

  def __init__(self, material: source.Material, parts: Sequence[Part]):
    """Draws nothing yet.

    Args:
      material: of the training.
      parts: in the order of columns.
    """
    super().__init__(material)
    self._parts = [part.kind(dataclasses.replace(
        material, count=part.count, seed=material.seed + _SEED_STEP * number
    )) for number, part in enumerate(parts)]
    self._first = np.cumsum([0] + [
        len(part.kind.names(material.settings, material.pool))
        for part in parts
    ]).tolist()  # Number of each part's first source.
    self.in_steps = any(part.in_steps for part in self._parts)
    self.refresh_steps = max(
        (part.refresh_steps for part in self._parts), default=0
    )

  @staticmethod
  def names(
      settings: config_lib.NegativesConfig, pool: pool_lib.Pool | None
  ) -> tuple[str, ...]:
    """Those of its parts: see `sources.names_of`."""
    raise NotImplementedError

  @property
  def halves(self) -> np.ndarray:
    """Those of the part that lists passages: others draw whole ones."""
    return next((part.halves for part in self._parts if len(part.halves)),
                super().halves)

  def refresh(self, params: Any, step: int) -> dict[str, Any] | None:
    """Has the part made again that can be."""
    for part in self._parts:
      if part.refresh_steps:
        return part.refresh(params, step)
    return None

  def draw(
      self, step: int, numbers: np.ndarray, query_rows: np.ndarray
  ) -> batcher.Drawn:
    """The columns of all parts; of several each text once."""
    drawn = [part.draw(step, numbers, query_rows) for part in self._parts]
    if len(drawn) == 1:
      return drawn[0]
    nothing = np.full((len(query_rows), 0), -1, np.int32)
    rows = np.concatenate([nothing, *(one.rows for one in drawn)], axis=1)
    sources = np.concatenate([nothing, *(
        np.where(one.sources >= 0, one.sources + first, np.int32(-1))
        for first, one in zip(self._first, drawn, strict=False)
    )], axis=1)
    groups = np.where(rows >= 0, pool_lib.groups_of(
        self._material.dataset.prepared.passage_groups, rows
    ), -1)
    twice = np.tril(
        (groups[:, :, None] == groups[:, None, :]) & (groups >= 0)[:, :, None],
        -1,
    ).any(axis=2)
    return batcher.Drawn(np.where(twice, np.int32(-1), rows),
                         np.where(twice, np.int32(-1), sources))
