"""What a quantized index of some rows of a corpus is, whatever quantizes them.

To add one: write a `Shard` and end its file with a `Quantizer`, as
`binary_shards.py` does; add that to `quantized_index.QUANTIZERS`, and its kind
to `index_settings.KINDS`.
"""

import abc
import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float32, Int32


class Shard(abc.ABC):
  """Some rows of a corpus, which propose candidates.

  Attributes:
    first: row of the corpus.
    last: the row after its last.
    leaves: parts of it, of which a search may look at some.
  """

  def __init__(self, first: int, last: int, leaves: int = 1):
    """Says which rows they are."""
    self.first, self.last, self.leaves = first, last, leaves

  @property
  def rows(self) -> int:
    """How many there are."""
    return self.last - self.first

  @abc.abstractmethod
  def use_threads(self, count: int) -> None:
    """Searches with so many from now on; results are the same."""

  @abc.abstractmethod
  def best(
      self,
      queries: Float32[np.ndarray, 'queries features'],
      leaves: int,
      count: int,
  ) -> tuple[Int32[np.ndarray, 'queries count'],
             Float32[np.ndarray, 'queries count']]:
    """Rows of the shard, -1 where there are fewer, and approximate scores.

    Args:
      queries: `[queries, features] float32`.
      leaves: that are searched, not more than there are.
      count: rows wanted, not more than there are.

    Returns:
      Best first. Scores of all shards of an index can be compared.
    """

  @abc.abstractmethod
  def write(self, folder: pathlib.Path) -> None:
    """Writes files that `Quantizer.read` reads, into a folder that exists."""


@dataclasses.dataclass(frozen=True)
class Quantizer:
  """A way to propose candidates.

  Attributes:
    kind: name in `config.index.kind`.
    library: what the other two take first, imported. Raises UserError where it
      is not installed.
    build: (library, `[rows, features] float32` finite vectors, row of the
      corpus that is their first, threads) -> their shard, the same with any
      number of threads.
    read: (library, folder that a shard was written to, first row, row after
      the last, leaves) -> the shard. The files are verified; what they hold
      may be refused with OSError, RuntimeError, ValueError or the like.
    packages: whose versions the manifest keeps.
  """

  kind: str
  library: Callable[[], Any]
  build: Callable[[Any, Float32[np.ndarray, 'rows features'], int, int], Shard]
  read: Callable[[Any, pathlib.Path, int, int, int], Shard]
  packages: tuple[str, ...] = ()


def propose(
    shards: Sequence[Shard],
    queries: Float32[np.ndarray, 'queries features'],
    leaves: int,
    count: int,
) -> tuple[Int32[np.ndarray, 'queries found'],
           Float32[np.ndarray, 'queries found']]:
  """The best passages by approximate score, best first.

  Scores of all shards estimate the same products and are compared, so that the
  number of candidates does not grow with the shards.

  Args:
    shards: of the corpus.
    queries: `[queries, features] float32`.
    leaves: of each shard to search.
    count: candidates wanted.

  Returns:
    Rows, -1 where there are fewer, and approximate scores; found <= count.
  """
  if not shards:
    empty = np.zeros((len(queries), 0))
    return empty.astype(np.int32), empty.astype(np.float32)
  parts = []
  for shard in shards:
    rows, scores = shard.best(
        queries, min(leaves, shard.leaves), min(count, shard.rows)
    )
    parts.append((
        np.where(rows >= 0, rows + np.int32(shard.first), np.int32(-1)), scores
    ))
  if len(parts) == 1:
    return parts[0]
  rows = np.concatenate([p[0] for p in parts], axis=1)
  scores = np.concatenate([p[1] for p in parts], axis=1)
  order = np.argsort(-scores, axis=1, kind='stable')[:, :count]
  return (np.take_along_axis(rows, order, 1),
          np.take_along_axis(scores, order, 1))
