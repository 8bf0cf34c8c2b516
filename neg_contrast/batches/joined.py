"""Batches of several data sets: each has its rows behind those of the others.

A joined row of a query or a passage names one data set and a row of it, so that
positives, copies and halves of different corpora are never taken for each
other. Halves of passages come behind the passages of all.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Integer

from neg_contrast.batches import batcher as batcher_lib
from neg_contrast.batches import mixture_order
from neg_contrast.data import examples as examples_lib
from neg_contrast.data import inputs
from neg_contrast.data import sequences as sequences_lib


@dataclasses.dataclass(frozen=True)
class Joined:
  """What batches are made of, from what each data set makes batches of.

  Attributes:
    parts: one of each data set, in the order of their numbers.
    sources: `[sources] int` of each: what number a source of negatives has in
      the joined batches, by its number in the data set.
  """

  parts: Sequence[batcher_lib.Batcher]
  sources: Sequence[np.ndarray]

  def batcher(
      self, order: mixture_order.MixtureOrder, names: Sequence[str]
  ) -> batcher_lib.Batcher:
    """Makes the batches, with the settings of the first part.

    Args:
      order: of the examples.
      names: of the data sets, for the log.
    """
    def facts(step):
      return {f'drawn_{name}': int(count) for name, count
              in zip(names, order.drawn(step + 1), strict=True)}

    return dataclasses.replace(
        self.parts[0],
        examples=self.examples(),
        draw=self.draw,
        query_tokens=self.query_tokens,
        passage_tokens=self.passage_tokens,
        passage_groups=np.concatenate([
            first + part.passage_groups
            for first, part in zip(self._passages, self.parts, strict=False)
        ]).astype(np.int32),
        own_passages=self.own_passages(),
        parents=np.concatenate([
            first + part.parents
            for first, part in zip(self._passages, self.parts, strict=False)
        ]).astype(np.int32),
        order=order,
        facts=facts,
    )

  def examples(self) -> examples_lib.Examples:
    """The examples of all, those of the first data set first."""
    given = [part.examples for part in self.parts]
    shift = lambda firsts, arrays: np.concatenate([
        first + array for first, array in zip(firsts, arrays, strict=False)
    ]).astype(np.int32)
    pairs = [
        one.positive_groups.pairs + np.array([query, passage])
        for query, passage, one in zip(
            self._queries, self._passages, given, strict=False
        )
    ]
    cuts = None
    if any(one.cuts is not None for one in given):
      cuts = np.concatenate([
          np.tile(np.array(inputs.WHOLE, np.int32), (len(one), 1))
          if one.cuts is None else one.cuts for one in given
      ])
    return examples_lib.Examples(
        shift(self._queries, [one.query_rows for one in given]),
        shift(self._passages, [one.positive_rows for one in given]),
        examples_lib.Positives(
            np.concatenate(pairs).astype(np.int32), int(self._queries[-1])
        ),
        cuts,
        examples_lib.joined_weights(given),
    )

  def own_passages(self) -> np.ndarray | None:
    """Those of all; see `masks.Known`."""
    owns = [part.own_passages for part in self.parts]
    if all(one is None for one in owns):
      return None
    return np.concatenate([
        np.full(len(part.examples.positive_groups), -1) if own is None
        else np.where(own < 0, -1, own + first)
        for own, part, first in zip(
            owns, self.parts, self._passages, strict=False)
    ]).astype(np.int32)

  def draw(
      self, step: int, numbers: np.ndarray, query_rows: np.ndarray
  ) -> batcher_lib.Drawn:
    """The negatives of each example, from its own data set; see `Draw`."""
    of = _part_of(query_rows, self._queries)
    shape = len(numbers), self.parts[0].negatives
    rows, sources = np.full(shape, -1, np.int32), np.full(shape, -1, np.int32)
    for number in np.unique(of):
      lines = np.flatnonzero(of == number)
      drawn = self.parts[number].draw(
          step, numbers[lines] - self._examples[number],
          query_rows[lines] - self._queries[number],
      )
      rows[lines] = self._joined_rows(number, drawn.rows)
      if drawn.sources.size:
        sources[lines] = np.where(
            drawn.sources >= 0, self.sources[number][drawn.sources], -1
        )
    return batcher_lib.Drawn(rows, sources)

  def query_tokens(
      self, rows: Integer[np.ndarray, ' rows']
  ) -> sequences_lib.Interleaved:
    """Input sequences of joined query rows, each as its data set has them."""
    of = _part_of(rows, self._queries)
    return self._interleave(of, lambda number, lines: self.parts[
        number].query_tokens(rows[lines] - self._queries[number]))

  def passage_tokens(
      self, rows: Integer[np.ndarray, ' rows'], cuts: np.ndarray
  ) -> sequences_lib.Interleaved:
    """Input sequences of joined passage rows, whole, cut or halves."""
    of, own = self._own_rows(rows)
    return self._interleave(of, lambda number, lines: self.parts[
        number].passage_tokens(own[lines], cuts[lines]))

  def _interleave(
      self, of: np.ndarray,
      tokens: Callable[[int, np.ndarray], sequences_lib.AnySequences],
  ) -> sequences_lib.Interleaved:
    parts, place = [], np.zeros(len(of), np.int64)
    for number in range(len(self.parts)):
      lines = np.flatnonzero(of == number)
      place[lines] = np.arange(len(lines))
      parts.append(tokens(number, lines))
    return sequences_lib.Interleaved(tuple(parts), of, place)

  def _joined_rows(self, number, rows):
    """Rows of passages and halves of a data set; -1 stays."""
    passages = len(self.parts[number].passage_groups)
    halves = self._passages[-1] + self._halves[number] - passages
    return np.where(rows < 0, -1, np.where(
        rows < passages, rows + self._passages[number], rows + halves
    )).astype(np.int32)

  def _own_rows(self, rows):
    """The data set of each joined row, and its row there."""
    total = self._passages[-1]
    is_half = rows >= total
    of = np.where(
        is_half, _part_of(rows - total, self._halves),
        _part_of(rows, self._passages),
    )
    at = np.minimum(of, len(self.parts) - 1)
    passages = np.diff(self._passages)[at]
    own = np.where(
        is_half, rows - total - self._halves[at] + passages,
        rows - self._passages[at],
    )
    return of, own

  @functools.cached_property
  def _examples(self) -> np.ndarray:
    return _firsts(len(part.examples) for part in self.parts)

  @functools.cached_property
  def _queries(self) -> np.ndarray:
    return _firsts(len(part.examples.positive_groups) for part in self.parts)

  @functools.cached_property
  def _passages(self) -> np.ndarray:
    return _firsts(len(part.passage_groups) for part in self.parts)

  @functools.cached_property
  def _halves(self) -> np.ndarray:
    return _firsts(len(part.parents) for part in self.parts)


def _firsts(counts) -> np.ndarray:
  """`[parts + 1] int64`: the first row of each part, and the end of the last.
  """
  return np.cumsum([0, *counts])


def _part_of(rows, firsts) -> np.ndarray:
  """The part that each row lies in."""
  return np.searchsorted(firsts[1:], rows, 'right')
