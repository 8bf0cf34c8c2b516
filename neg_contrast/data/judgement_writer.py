"""The judgements of a source as tables of rows."""

import array
import hashlib
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from neg_contrast.data import fingerprints, records
from neg_contrast.data import prepared as prepared_lib

RowOf = Callable[[str], int | None]


class JudgementWriter:
  """Writes the judgements of one source, split by split.

  Attributes:
    digest: of all that was written.
    weighted: the splits whose judgements have weights.
  """

  def __init__(
      self,
      source: records.Source,
      invalid: records.InvalidRecords,
      folder: pathlib.Path,
      query_row: RowOf,
      passage_row: RowOf,
      worlds_of: Mapping[str, Sequence[int]],
  ):
    """Takes what tells the rows.

    Args:
      source: gives judgements, and queries that name their split.
      invalid: where to report judgements that can't be used.
      folder: gets the tables.
      query_row: the row of the query with an id, if there is one.
      passage_row: the same of passages.
      worlds_of: numbers of the worlds of all `passages` and `queries`; empty:
        there are none.
    """
    self._source, self._invalid, self._folder = source, invalid, folder
    self._query_row, self._passage_row = query_row, passage_row
    self._worlds_of = worlds_of
    self.digest = hashlib.sha256()
    self.weighted: list[str] = []

  def own_queries(self) -> dict[str, Any]:
    """Rows of the queries that name their split, by split."""
    rows: dict[str, Any] = {}
    with self._invalid.quiet():
      for query in self._source.queries():
        row = self._query_row(query.id) if query.split else None
        if row is not None:
          rows.setdefault(query.split, array.array('i')).append(row)
    return rows

  def write(
      self, split: str, own_queries: Sequence[int]
  ) -> tuple[int, int]:
    """Stores a split; returns how many judgements and unjudged queries.

    Args:
      split: name of it.
      own_queries: rows of the queries that name this split.
    """
    pairs, grades = array.array('q'), array.array('i')
    weights = _Weights()
    for judgement, (query, passage) in self._known(split):
      pairs.append(query << 32 | passage)
      grades.append(judgement.grade << 1 | judgement.is_example)
      weights.add(judgement.weight if judgement.grade > 0 else 1.0)
    table, conflicts, kept_weights = unique(
        np.frombuffer(pairs, np.int64), np.frombuffer(grades, np.int32),
        weights.array(),
    )
    if len(conflicts):
      self._report_conflicts(split, set(conflicts.tolist()))
    unjudged = np.setdiff1d(np.array(own_queries, np.int32), table[:, 0])
    np.save(self._folder / f'judgements-{split}.npy', table)
    np.save(self._folder / f'unjudged-{split}.npy', unjudged)
    self.digest.update(fingerprints.digested(split))
    self.digest.update(table.tobytes() + unjudged.tobytes())
    if kept_weights is not None:
      np.save(self._folder / prepared_lib.weights_file(split), kept_weights)
      self.digest.update(kept_weights.tobytes())
      self.weighted.append(split)
    return len(table), len(unjudged)

  def _known(
      self, split: str
  ) -> Iterator[tuple[records.Judgement, tuple[int, int]]]:
    """Judgements of the split with their (query row, passage row)."""
    for judgement in self._source.judgements(split):
      if not records.is_weight(judgement.weight):
        self._invalid.report(
            'broken_record', judgement.where,
            f'the weight of query "{judgement.query_id}" and passage '
            f'"{judgement.passage_id}" is {judgement.weight}; weights are '
            f'numbers from 0 to {records.MOST_WEIGHT:g}',
        )
        continue
      query = self._query_row(judgement.query_id)
      passage = self._passage_row(judgement.passage_id)
      if query is not None and passage is not None:
        if self._are_apart(query, passage):
          self._invalid.report(
              'unknown_id', judgement.where,
              f'passage "{judgement.passage_id}" is of another world than '
              f'query "{judgement.query_id}", which is searched in its own',
          )
        else:
          yield judgement, (query, passage)
        continue
      kind, name = (('query', judgement.query_id) if query is None else
                    ('passage', judgement.passage_id))
      self._invalid.report('unknown_id', judgement.where,
                           f'judgement of an unknown {kind} "{name}"')

  def _are_apart(self, query: int, passage: int) -> bool:
    """Whether the query and the passage of two rows are of two worlds."""
    return bool(self._worlds_of) and (
        self._worlds_of['queries'][query]
        != self._worlds_of['passages'][passage]
    )

  def _report_conflicts(self, split: str, numbers: set[int]) -> None:
    with self._invalid.quiet():
      wanted = [judgement for number, (judgement, _)
                in enumerate(self._known(split)) if number in numbers]
    for judgement in wanted:
      self._invalid.report(
          'duplicate_id', judgement.where,
          f'query "{judgement.query_id}" and passage '
          f'"{judgement.passage_id}" were judged before, with another grade '
          f'than {judgement.grade}'
          + (f' or another weight than {judgement.weight}'
             if judgement.weight != 1 else ''),
      )


class _Weights:
  """Weights of judgements in their order; nothing is kept while all are 1."""

  def __init__(self) -> None:
    self._count, self._values = 0, array.array('f')

  def add(self, weight: float) -> None:
    """That of the next judgement."""
    if weight != 1 and not self._values:
      self._values.extend([1.0] * self._count)
    if self._values or weight != 1:
      self._values.append(weight)
    self._count += 1

  def array(self) -> Float[np.ndarray, ' judgements'] | None:
    """`[judgements] float32`; None: all are 1."""
    values = np.frombuffer(self._values, np.float32)
    return values if len(values) else None


class Unique(NamedTuple):
  """One judgement of each pair.

  Attributes:
    table: `[kept, 4] int32`, query row, passage row, grade, is_example.
    conflicts: `[conflicts] int`, numbers of the judgements that differ from the
      first of their pair.
    weights: `[kept] float32`; None: there are none.
  """

  table: Int[np.ndarray, 'kept 4']
  conflicts: Int[np.ndarray, ' conflicts']
  weights: Float[np.ndarray, ' kept'] | None


def unique(
    pairs: Int[np.ndarray, ' judgements'],
    grades: Int[np.ndarray, ' judgements'],
    weights: Float[np.ndarray, ' judgements'] | None = None,
) -> Unique:
  """The first judgement of each pair, by pair; numbers of those that differ.

  A positive is trained on if any of its judgements says so.

  Args:
    pairs: `[judgements] int64`: query row * 2**32 + passage row; is sorted, in
      place, since there may be many.
    grades: `[judgements] int32`: grade * 2 + whether it is an example.
    weights: `[judgements] float32`; None: there are none.
  """
  order = np.argsort(pairs, kind='stable')
  pairs.sort()
  grades = grades[order]
  is_first = np.ones(len(pairs), bool)
  is_first[1:] = pairs[1:] != pairs[:-1]
  starts, repeats = np.flatnonzero(is_first), np.flatnonzero(~is_first)
  of = np.searchsorted(starts, repeats, 'right') - 1
  first, again = grades[starts], grades[repeats]
  differs = again >> 1 != first[of] >> 1
  if weights is not None:
    weights = weights[order]
    differs |= weights[repeats] != weights[starts][of]
    weights = weights[starts]
  conflicts = np.sort(order[repeats[differs]])
  first[of[(first[of] > 1) & (again > 1) & (again & 1 == 1)]] |= 1
  del order, grades, starts
  table = np.empty((len(first), 4), np.int32)
  kept = pairs[is_first]
  table[:, 1] = kept
  kept >>= 32
  table[:, 0] = kept
  table[:, 2] = first >> 1
  table[:, 3] = first & 1
  return Unique(table, conflicts, weights)
