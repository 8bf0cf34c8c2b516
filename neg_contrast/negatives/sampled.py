"""Draws from a corpus in one pass of the search, for all examples.

For the source `sampled`: see `negatives/sources/sampled_source.py`, and
`negatives/sampling.py` for the mathematics. A draw is a fold of
`retrieval/mesh_search.py`: it keeps the best by score and noise, where `search`
keeps the best by score.
"""

import functools
from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from neg_contrast import scoring
from neg_contrast.negatives import sampling
from neg_contrast.retrieval import device_scan, mesh_search

_EXAMPLES_AT_ONCE = 256
"""Noise takes 64 bytes for each of these and each passage of a block: 256 MiB
for blocks of 16,384."""


@flax.struct.dataclass
class _Fold:
  """A `device_scan.Fold`: the races of the examples.

  Queries are (numbers, vectors, excluded groups); a passage has its row in the
  corpus and its group in the columns after its rank.

  Attributes:
    key: of the epoch, `[2] uint32`.
    scale: of scores, float32.
    score: of a query and a passage.
    how: many of which kind.
    is_iid: draw with replacement; what is told of a block is the logsumexp of
      its scores.
  """

  key: Any
  scale: Any
  score: scoring.ScoreFunction = flax.struct.field(pytree_node=False)
  how: sampling.Sampling = flax.struct.field(pytree_node=False)
  is_iid: bool = flax.struct.field(pytree_node=False)

  def start(self, queries: int) -> Any:
    """No passage has been seen."""
    if self.is_iid:
      return sampling.start_iid(queries, self.how.count)
    return sampling.start_race(queries, self.how)

  def add(self, kept: Any, queries: Any, block: Any) -> tuple[Any, Any]:
    """Lets a block take part in the races."""
    numbers, query_vecs, excluded = queries
    vecs, (ranks, rows, groups) = block
    usable = (ranks != device_scan.PAD)[None] & ~jnp.any(
        groups[None, :, None] == excluded[:, None, :], axis=2
    )
    where = (jax.random.wrap_key_data(self.key, impl='threefry2x32'), numbers,
             rows, self.scale * self.score(query_vecs, vecs), usable)
    if not self.is_iid:
      return sampling.run_race(kept, *where, self.how), None
    own = sampling.run_iid(self.start(len(numbers)), *where)
    return sampling.join_iid(kept, own), own.log_total

  def join(self, kept: Any) -> Any:
    """What the passages of all devices come to."""
    join = sampling.join_iid if self.is_iid else sampling.join_races
    return functools.reduce(join, [
        jax.tree.map(lambda array, at=device: array[at], kept)
        for device in range(len(jax.tree.leaves(kept)[0]))
    ])


def draw(
    search: mesh_search.MeshSearch,
    rows: Int[np.ndarray, ' passages'],
    groups: Int[np.ndarray, ' passages'],
    how: sampling.Sampling,
    key: Key[Array, ''],
    query_vecs: Float[np.ndarray, 'examples query_features'],
    excluded: Int[np.ndarray, 'examples some'],
    scale: float = 1.0,
    is_iid: bool = False,
    on_progress: Callable[[int], None] = lambda passages: None,
) -> dict[str, np.ndarray]:
  """Draws the negatives of all examples.

  All processes come here, if the search is that of several. What is drawn does
  not depend on devices and processes.

  Args:
    search: of the passages that are drawn from, by its score.
    rows: `[passages] int32`, theirs in the corpus, ascending.
    groups: `[passages] int32`, equal for equal texts.
    how: many of which kind.
    key: of the epoch, see `sampling.draw_key`.
    query_vecs: `[examples, query_features] float32`.
    excluded: `[examples, some] int32`, groups that are not drawn; -1: none.
    scale: of scores.
    is_iid: draw with replacement instead, and tell the chance.
    on_progress: called with the number of passages that this process has seen.

  Returns:
    `rows`, `[examples, K - 1] int32`, -1 where there is no passage left; with
    replacement also `log_proposal`, `[examples, K - 1] float32`.

  Raises:
    ValueError: the vector of a passage is not finite.
  """
  width = max(1, 1 << (excluded.shape[1] - 1).bit_length())  # Few shapes.
  race, totals = search.fold(
      _Fold(np.asarray(jax.random.key_data(key)), np.float32(scale),
            search.score, how, is_iid),
      (np.arange(len(query_vecs), dtype=np.int32), query_vecs,
       np.pad(excluded, ((0, 0), (0, width - excluded.shape[1])),
              constant_values=-1)),
      (rows, groups), _EXAMPLES_AT_ONCE, on_progress,
  )
  if not is_iid:
    return {'rows': np.asarray(sampling.finish_race(race, how).rows)}
  # Sums depend on their order, which is that of the corpus. 4 bytes a block and
  # example.
  race = jax.tree.map(jnp.asarray, race.replace(
      log_total=functools.reduce(np.logaddexp, totals)
  ))
  return {'rows': np.asarray(race.kept.rows),
          'log_proposal': np.asarray(race.log_proposal)}
