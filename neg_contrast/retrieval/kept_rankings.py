"""Rankings of many queries, kept in parts: an interruption loses one of them.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from neg_contrast.artifacts import failures, kept_parts
from neg_contrast.retrieval import hits

Search = Callable[[slice], hits.Hits]
"""Some of the queries -> what is found for them."""


@dataclasses.dataclass(frozen=True)
class KeptRankings:
  """What was found for some queries; who asks the same later searches nothing.

  Attributes:
    folder: named by all that the rankings depend on.
    queries: how many.
    depth: passages of each.
    at_once: queries of a part, at least.
  """

  folder: pathlib.Path
  queries: int
  depth: int
  at_once: int

  @property
  def blocks(self) -> list[slice]:
    """The queries of each part."""
    return kept_parts.divide(self.queries, self.at_once)

  def are_made(self) -> bool:
    """Whether all parts are there."""
    return self._parts.are_made()

  def can_be_kept(self) -> bool:
    """Whether they are there, or the folder can be written to."""
    return self.are_made() or failures.can_be_written(self.folder)

  def make(self, search: Search) -> None:
    """Searches what is missing; processes divide the parts."""

    def fill(number: int, scratch: pathlib.Path, _: dict[str, Any]) -> None:
      _write(search(self.blocks[number]), scratch)

    self._parts.make(fill)

  def make_together(self, search: Search) -> None:
    """Searches what is missing; processes search each part together."""
    self._parts.make_together(
        lambda number: search(self.blocks[number]),
        lambda found, scratch, _: _write(found, scratch),
    )

  def read(self) -> hits.Hits:
    """All of them, in the order of the queries.

    Raises:
      UserError: a part is damaged.
    """
    found = hits.Hits(np.empty((self.queries, self.depth), np.int32),
                      np.empty((self.queries, self.depth), np.float32))
    for number, lines in enumerate(self.blocks):
      shape = lines.stop - lines.start, self.depth
      found.rows[lines] = self._parts.array(number, 'rows', shape, np.int32)
      found.scores[lines] = self._parts.array(
          number, 'scores', shape, np.float32
      )
    return found

  @functools.cached_property
  def _parts(self) -> kept_parts.KeptParts:
    return kept_parts.KeptParts(self.folder, len(self.blocks))


def _write(found: hits.Hits, scratch: pathlib.Path) -> None:
  np.save(scratch / 'rows.npy', found.rows)
  np.save(scratch / 'scores.npy', found.scores)
