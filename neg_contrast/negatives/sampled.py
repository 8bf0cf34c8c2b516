"""Draws from a corpus that streams over the devices, once for all examples.

For the source `sampled`: see `negatives/sources/sampled_source.py`, and
`negatives/sampling.py` for the mathematics.

Vectors are encoded, take part in the draws of all examples, and are forgotten.
Processes divide the corpus; what they draw is joined in the end.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, Key

from neg_contrast import hosts, scoring
from neg_contrast.negatives import sampling

EXAMPLES_AT_ONCE = 256
_BLOCK_BYTES = 2**26  # Of vectors, on a device.
_BLOCK_ROWS = 16_384  # Noise of a block takes 64 bytes a passage and example.
_UNITS = 256  # Parts of a corpus that processes divide.

Turn = tuple[Array, Array, Array]
"""(vectors, rows, groups), `[devices, block, ...]`; row -1 pads."""


@dataclasses.dataclass(frozen=True)
class Corpus:
  """The passages that are drawn from, some at a time, each device its own.

  Units and blocks are cut by place alone, so that what is drawn does not depend
  on devices and processes.

  Attributes:
    among: `[passages] int32`, their rows in the corpus.
    groups: `[passages] int32`, equal for equal texts.
    features: of a vector.
    encode: the vectors of adjacent passages, `[n, features] float32`, of whole
      blocks of `encode_rows`.
    encode_rows: passages that are encoded at once.
    mesh: this process's devices share the passages along `data`.
  """

  among: Int[np.ndarray, ' passages']
  groups: Int[np.ndarray, ' passages']
  features: int
  encode: Callable[[range], np.ndarray]
  encode_rows: int
  mesh: Mesh

  @property
  def units(self) -> range:
    """Those of this process."""
    return hosts.share_of(-(-len(self.among) // self._unit_rows))

  def unit(self, number: int) -> range:
    """The places of the passages of a unit."""
    first = number * self._unit_rows
    return range(first, min(first + self._unit_rows, len(self.among)))

  def turns(self, unit: int) -> Iterator[Turn]:
    """The blocks of a unit, as many at a time as there are devices."""
    devices, waiting = self.mesh.shape['data'], []
    for block, vecs in self._blocks(self.unit(unit)):
      waiting.append((block, vecs))
      if len(waiting) == devices:
        yield self._place(waiting)
        waiting = []
    if waiting:
      yield self._place(waiting)

  def _blocks(self, unit: range) -> Iterator[tuple[range, np.ndarray]]:
    for start in range(unit.start, unit.stop, self.encode_rows):
      span = range(start, min(start + self.encode_rows, unit.stop))
      vecs = self.encode(span)
      for first in range(0, len(span), self._rows):
        yield (span[first : first + self._rows],
               vecs[first : first + self._rows])

  def _place(self, blocks: list[tuple[range, np.ndarray]]) -> Turn:
    shape = self.mesh.shape['data'], self._rows
    vecs = np.zeros((*shape, self.features), np.float32)
    rows, groups = np.full((2, *shape), -1, np.int32)
    for device, (places, own) in enumerate(blocks):
      size = len(places)
      vecs[device, :size] = own
      rows[device, :size] = self.among[places.start : places.stop]
      groups[device, :size] = self.groups[places.start : places.stop]
    turn: Turn = jax.device_put(
        (vecs, rows, groups), NamedSharding(self.mesh, PartitionSpec('data'))
    )
    return turn

  @property
  def _unit_rows(self) -> int:
    blocks = -(-len(self.among) // self.encode_rows)
    return max(1, -(-blocks // _UNITS)) * self.encode_rows

  @property
  def _rows(self) -> int:
    """Passages of a block."""
    return max(1, min(
        len(self.among), self.encode_rows, _BLOCK_ROWS,
        _BLOCK_BYTES // (4 * self.features),
    ))


class Drawer:
  """Draws the negatives of all examples."""

  def __init__(
      self,
      how: sampling.Sampling,
      is_iid: bool,
      score: scoring.ScoreFunction,
      scale: float,
      corpus: Corpus,
  ):
    """Reads nothing yet.

    Args:
      how: many of which kind.
      is_iid: draw with replacement instead, and tell the chance.
      score: of a query and a passage.
      scale: of scores.
      corpus: what is drawn from.
    """
    self._how, self._is_iid, self._corpus = how, is_iid, corpus
    self._score, self._scale = score, scale
    self._run = jax.jit(self._run_block)

  def __call__(
      self,
      key: Key[Array, ''],
      query_vecs: Float[np.ndarray, 'examples query_features'],
      positive_groups: Int[np.ndarray, 'examples positives'],
      on_progress: Callable[[int], None] = lambda passages: None,
  ) -> dict[str, np.ndarray]:
    """Draws; all processes come here.

    Args:
      key: of the epoch, see `sampling.draw_key`.
      query_vecs: `[examples, query_features] float32`.
      positive_groups: `[examples, positives] int32`, groups that are excluded;
        -1: none.
      on_progress: called with the number of passages that this process has
        seen.

    Returns:
      `rows`, `[examples, K - 1] int32`, -1 where there is no passage left; with
      replacement also `log_proposal`, `[examples, K - 1] float32`.
    """
    count, seen = len(query_vecs), 0
    batches = self._batches(query_vecs, positive_groups)
    races: list[Any] = [self._start() for _ in batches]
    totals = []
    for unit in self._corpus.units:
      for turn in self._corpus.turns(unit):
        races = [self._run(race, key, *batch, *turn)
                 for race, batch in zip(races, batches, strict=True)]
        jax.block_until_ready(races)
      if self._is_iid:
        totals.append(_together([race.log_total for race in races], count))
        races = [dataclasses.replace(
            race, log_total=jnp.full(EXAMPLES_AT_ONCE, -jnp.inf)
        ) for race in races]
      seen += len(self._corpus.unit(unit))
      on_progress(seen)
    race = jax.tree.map(lambda *parts: _together(parts, count), *races)
    return self._finish(race, np.stack(
        [np.zeros(count, np.float32), *totals]
    )[1:])

  def _batches(self, query_vecs, positive_groups) -> list[tuple[Array, ...]]:
    """(numbers, vectors, groups) of examples; one shape for all."""
    count = len(query_vecs)
    missing = -count % EXAMPLES_AT_ONCE
    width = max(1, 1 << (positive_groups.shape[1] - 1).bit_length())
    arrays = (
        np.pad(np.arange(count, dtype=np.int32), (0, missing)),
        np.pad(query_vecs, ((0, missing), (0, 0))),
        np.pad(positive_groups, (
            (0, missing), (0, width - positive_groups.shape[1])
        ), constant_values=-1),
    )
    place = NamedSharding(self._corpus.mesh, PartitionSpec())
    return [
        jax.device_put(tuple(
            array[start : start + EXAMPLES_AT_ONCE] for array in arrays
        ), place) for start in range(0, count, EXAMPLES_AT_ONCE)
    ]

  def _start(self) -> Any:
    if self._is_iid:
      return sampling.start_iid(EXAMPLES_AT_ONCE, self._how.count)
    return sampling.start_race(EXAMPLES_AT_ONCE, self._how)

  def _finish(
      self, race: Any, totals: Float[np.ndarray, 'units examples']
  ) -> dict[str, np.ndarray]:
    """What all processes have drawn."""
    join = sampling.join_iid if self._is_iid else sampling.join_races
    every = jax.tree.map(lambda array: hosts.gather(array[None]), race)
    race = functools.reduce(join, [
        jax.tree.map(lambda array, at=process: jnp.asarray(array[at]), every)
        for process in range(hosts.count())
    ])
    if isinstance(race, sampling.IidRace):
      # Sums depend on their order, which is that of the corpus.
      race = dataclasses.replace(race, log_total=jnp.asarray(
          functools.reduce(np.logaddexp, hosts.gather(totals))
      ))
      made = {'rows': race.kept.rows, 'log_proposal': race.log_proposal}
    else:
      made = {'rows': sampling.finish_race(race, self._how).rows}
    return {name: np.asarray(values) for name, values in made.items()}

  def _run_block(
      self,
      race: Any,
      key: Array,
      ids: Int[Array, ' examples'],
      query_vecs: Float[Array, 'examples query_features'],
      positive_groups: Int[Array, 'examples positives'],
      vecs: Float[Array, 'devices block features'],
      rows: Int[Array, 'devices block'],
      groups: Int[Array, 'devices block'],
  ) -> Any:
    """Lets a block take part in the race, each device with its passages."""

    def of_device(vecs, rows, groups):
      scores = self._scale * self._score(query_vecs, vecs)
      usable = (rows >= 0)[None] & ~jnp.any(
          groups[None, :, None] == positive_groups[:, None, :], axis=2
      )
      where = key, ids, rows, scores, usable
      if self._is_iid:
        return sampling.run_iid(
            sampling.start_iid(len(ids), self._how.count), *where
        )
      return sampling.run_race(
          sampling.start_race(len(ids), self._how), *where, self._how
      )

    races = jax.vmap(of_device)(vecs, rows, groups)
    join = sampling.join_iid if self._is_iid else sampling.join_races
    for device in range(len(rows)):
      race = join(race, jax.tree.map(lambda a, at=device: a[at], races))
    return race


def _together(parts: Any, count: int) -> np.ndarray:
  """Arrays of batches as one, of the examples that there are."""
  return np.concatenate([np.asarray(part) for part in parts])[:count]
