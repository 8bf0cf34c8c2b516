"""`mixed`: mined candidates of the query, and what is drawn for the example."""

from typing import Any

import numpy as np

from neg_contrast.batches import batcher
from neg_contrast.negatives import drawing
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives.sources import (
  context_source,
  listed_source,
  pool_source,
  source,
)
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import source_list


class Mixed(listed_source.ListedSource):
  """Draws from the union of pool and context, each text counted once."""

  def __init__(self, material: source.Material):
    """Reads what both need."""
    super().__init__(material)
    self._pool = pool_source.FromPool(material)
    self._context = context_source.Context(material)
    self.refresh_steps = self._pool.refresh_steps

  @staticmethod
  def names(
      settings: config_lib.NegativesConfig, pool: pool_lib.Pool | None
  ) -> tuple[str, ...]:
    """The strategies that mined the pool, and `context`."""
    return (*pool_source.FromPool.names(settings, pool),
            *context_source.Context.names(settings, pool))

  @property
  def halves(self) -> np.ndarray:
    """Those of the context: the pool has none then."""
    return self._context.halves

  def refresh(self, params: Any, step: int) -> dict[str, Any] | None:
    """Makes the pool again; the context stays."""
    return self._pool.refresh(params, step)

  def entries(self, step: int) -> list[source_list.Entry]:
    """Those of the pool, as it is at the step, and of the context."""
    return self._pool.entries(step)

  def listed(
      self, step: int, numbers: np.ndarray, query_rows: np.ndarray
  ) -> drawing.Listed:
    """Both, the pool first; texts that are in both stand there twice."""
    mined = self._pool.listed(step, numbers, query_rows)
    context = self._context.listed(step, numbers, query_rows)
    assert self._material.pool is not None
    number = len(self._material.pool.sources)
    return drawing.Listed(
        np.concatenate([mined.rows, context.rows], axis=1),
        np.concatenate([mined.sources, context.sources + number], axis=1),
    )

  def draw(
      self, step: int, numbers: np.ndarray, query_rows: np.ndarray
  ) -> batcher.Drawn:
    """So many of each entry, as far as it has them, each text once.

    Where a text that is drawn stands in the list twice, one place is taken
    out and all are drawn again by the same random numbers: what comes out is
    what the deduplicated list gives, of which only this is ever looked at. Of a
    union the pool's place stays. Where `context` has a number of its own, it
    keeps its passages, whatever miners have found of them: else it would give
    none where the pool holds the document, which is where it is hard.
    """
    listed = self.listed(step, numbers, query_rows)
    own = context_source.Context.names(
        self._material.settings, self._material.pool)
    is_apart = any(entry.names == own for entry in self.entries(step))
    while True:
      drawn = self._draw(listed, step, numbers)
      twice = self._are_twice(listed, drawn, is_apart)
      if not twice.any():
        return drawn
      listed.rows[twice] = -1

  def _are_twice(
      self, listed: drawing.Listed, drawn: batcher.Drawn, is_apart: bool
  ) -> np.ndarray:
    """`[batch, depth] bool`, places of a drawn text that has another one.

    Those of the context, if the pool lists its text; or if it is apart, those
    of the pool, if the context's is drawn, too.
    """
    pool = self._material.pool
    assert pool is not None
    number = len(pool.sources)
    is_context = listed.sources == number
    mined = np.where(is_context, -1, self._groups_of(listed.rows))
    taken = self._groups_of(np.where(drawn.sources == number, -1, drawn.rows))
    twice = np.zeros(listed.rows.shape, bool)
    for rows, sources in zip(drawn.rows.T, drawn.sources.T, strict=True):
      groups = self._groups_of(rows)[:, None]
      of_context = (sources == number)[:, None]
      is_mined = of_context & (mined == groups) & (groups >= 0)
      if is_apart:
        twice |= is_mined & (taken == groups).any(axis=1, keepdims=True)
      else:
        twice |= (is_mined.any(axis=1, keepdims=True) & is_context
                  & (listed.rows == rows[:, None]))
    return twice

  def _groups_of(self, rows: np.ndarray) -> np.ndarray:
    groups = self._material.dataset.prepared.passage_groups
    return np.where(rows >= 0, pool_lib.groups_of(groups, rows), -1)
