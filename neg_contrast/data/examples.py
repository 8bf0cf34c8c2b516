"""Training examples: (query, positive) pairs with all they must not contrast.

The tune split is made here too, where the data has none.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int, Integer

from neg_contrast import errors
from neg_contrast.data import inputs
from neg_contrast.data import prepared as prepared_lib

GIVEN, GRADED, EQUAL = 'given', 'graded', 'equal'
"""`loss.example_weights`: those of the data, these times grades, or none."""


class Positives:
  """Known positives by query; as many bytes as there are of them.

  Of millions of queries, one may have thousands: a padded table would not fit.
  """

  def __init__(self, pairs: Int[np.ndarray, 'pairs 2'], queries: int):
    """Takes (query row, group) pairs, sorted by query, then by group.

    Args:
      pairs: `[pairs, 2] int32`.
      queries: how many queries there are.
    """
    self._groups = np.ascontiguousarray(pairs[:, 1], np.int32)
    self._ends = np.searchsorted(pairs[:, 0], np.arange(queries), 'right')

  def __len__(self) -> int:
    return len(self._ends)

  @property
  def pairs(self) -> Int[np.ndarray, 'pairs 2']:
    """`[pairs, 2] int32`: (query row, group), as they were given."""
    counts = np.diff(self._ends, prepend=0)
    queries = np.repeat(np.arange(len(self), dtype=np.int32), counts)
    return np.stack([queries, self._groups], axis=1)

  @property
  def most(self) -> int:
    """Positives of the query that has most of them."""
    return int(np.diff(self._ends, prepend=0).max(initial=0))

  def __getitem__(
      self, queries: Integer[np.ndarray, '*some'] | int | np.integer
  ) -> Int[np.ndarray, '*some positives']:
    """`[..., positives] int32` of some queries; -1 pads."""
    queries = np.asarray(queries)
    ends = self._ends[queries]
    begins = np.where(queries > 0, self._ends[queries - 1], 0)
    width = max(1, int(np.max(ends - begins, initial=0)))
    places = begins[..., None] + np.arange(width)
    is_there = places < ends[..., None]
    table = np.full(places.shape, -1, np.int32)
    table[is_there] = self._groups[places[is_there]]
    return table

  def joined(self, pairs: Int[np.ndarray, 'pairs 2']) -> 'Positives':
    """These and more: (query row, group) pairs, in any order."""
    return Positives(np.unique(np.concatenate([self.pairs, pairs]), axis=0),
                     len(self))

  def holds(
      self,
      queries: Integer[np.ndarray, ' lines'],
      groups: Integer[np.ndarray, 'lines some'],
  ) -> Bool[np.ndarray, 'lines some']:
    """Which groups are known positives of the query of their line.

    By bisection: memory depends on no query's number of positives.

    Args:
      queries: `[lines] int`.
      groups: `[lines, some] int`.
    """
    ends = self._ends[queries]
    begins = np.where(queries > 0, self._ends[queries - 1], 0)
    most = int(np.max(ends - begins, initial=0))
    if not most:
      return np.zeros(groups.shape, bool)
    last = len(self._groups) - 1
    low, high = (np.broadcast_to(some[:, None], groups.shape)
                 for some in (begins, ends))
    for _ in range(most.bit_length()):
      middle = (low + high) // 2
      is_less = self._groups[np.minimum(middle, last)] < groups
      is_open = low < high
      low = np.where(is_open & is_less, middle + 1, low)
      high = np.where(is_open & ~is_less, middle, high)
    return (low < ends[:, None]) & (
        self._groups[np.minimum(low, last)] == groups
    )


@dataclasses.dataclass(frozen=True)
class Examples:
  """Pairs to train on; a query with several positives has several.

  Attributes:
    query_rows: `[examples] int32`.
    positive_rows: `[examples] int32` passage rows.
    positive_groups: groups of equal text of all known positives of each query,
      in any split. A group is named by its first row, so these are passage rows
      too.
    cuts: `[examples, 3] int32`: which part of the positive is meant, see
      `inputs.cut`; None: the whole passages.
    weights: `[examples] float32`, above 0, how much each counts in a loss;
      None: each has 1.
  """

  query_rows: Int[np.ndarray, ' examples']
  positive_rows: Int[np.ndarray, ' examples']
  positive_groups: Positives
  cuts: Int[np.ndarray, 'examples 3'] | None = None
  weights: Float[np.ndarray, ' examples'] | None = None

  def __len__(self) -> int:
    return len(self.query_rows)

  @functools.cached_property
  def count_alike(self) -> bool:
    """Whether all have the same weight, which then means nothing."""
    return self.weights is None or bool(
        (self.weights == self.weights[0]).all())

  def weights_of(
      self, numbers: Integer[np.ndarray, ' some']
  ) -> Float[np.ndarray, ' some'] | None:
    """`weights` of some examples; None: all examples count alike."""
    if self.weights is None or self.count_alike:
      return None
    return self.weights[numbers]

  def relabelled(
      self, pairs: Int[np.ndarray, 'pairs 2'],
      groups: Int[np.ndarray, ' passages'],
  ) -> 'Examples':
    """These, and what a judge believes positive; that is known from then on.

    Pairs of queries without an example are left out: those of the tune split.
    So are copies of known positives. Where examples have weights, these have 1.

    Args:
      pairs: `[pairs, 2] int32`, query and passage rows.
      groups: of equal text, of all passages.
    """
    pairs = pairs[np.isin(pairs[:, 0], self.query_rows)]
    found = np.stack([pairs[:, 0], groups[pairs[:, 1]]], axis=1)
    is_new = ~self.positive_groups.holds(
        found[:, 0], found[:, 1, None]
    )[:, 0] if len(found) else np.zeros(0, bool)
    _, first = np.unique(found[is_new], axis=0, return_index=True)
    added = pairs[is_new][np.sort(first)].astype(np.int32)
    whole = np.tile(np.array(inputs.WHOLE, np.int32), (len(added), 1))
    return Examples(
        np.concatenate([self.query_rows, added[:, 0]]),
        np.concatenate([self.positive_rows, added[:, 1]]),
        self.positive_groups.joined(found[is_new]),
        None if self.cuts is None else np.concatenate([self.cuts, whole]),
        None if self.weights is None else np.concatenate(
            [self.weights, np.ones(len(added), np.float32)]
        ),
    )


def make_examples(
    prepared: prepared_lib.Prepared,
    judgements: prepared_lib.Judgements,
    cuts: Int[np.ndarray, 'judgements 3'] | None = None,
    weigh: str = GIVEN,
) -> Examples:
  """The examples of a split.

  A positive of weight 0 is known, and not trained on.

  Args:
    prepared: the corpus and its queries.
    judgements: of the split to train on.
    cuts: `Examples.cuts`, a line for each judgement.
    weigh: what their weights are, see `loss.example_weights`.

  Raises:
    UserError: the split holds no positive.
  """
  trained = are_trained(judgements, weigh)
  weights = _weights(judgements, weigh)
  if not trained.any():
    raise errors.UserError(
        f'{prepared.manifest["spec"]}: no judgement of the training split has '
        f'a grade {"and a weight " if weights is not None else ""}above 0, so '
        'there is nothing to train on'
    )
  return Examples(
      query_rows=judgements.query_rows[trained],
      positive_rows=judgements.passage_rows[trained],
      positive_groups=known_positives(prepared),
      cuts=None if cuts is None else cuts[trained],
      weights=None if weights is None else weights[trained],
  )


def are_trained(
    judgements: prepared_lib.Judgements, weigh: str = GIVEN
) -> Bool[np.ndarray, ' judgements']:
  """`[judgements] bool`: positives that become examples (`make_examples`)."""
  weights = _weights(judgements, weigh)
  trained = (judgements.grades > 0) & judgements.is_example
  return trained if weights is None else trained & (weights > 0)


def _weights(
    judgements: prepared_lib.Judgements, weigh: str
) -> Float[np.ndarray, ' judgements'] | None:
  """`[judgements] float32`; of negatives anything; None: all count alike."""
  given = None if weigh == EQUAL else judgements.weights
  if weigh != GRADED:
    return given
  grades = judgements.grades.astype(np.float32)
  return grades if given is None else grades * given


def joined_weights(
    parts: Sequence[Examples],
) -> Float[np.ndarray, ' examples'] | None:
  """`Examples.weights` of several data sets; 1 where a set has none."""
  if all(part.weights is None for part in parts):
    return None
  return np.concatenate([
      np.ones(len(part), np.float32) if part.weights is None else part.weights
      for part in parts
  ])


def known_positives(
    prepared: prepared_lib.Prepared,
) -> Positives:
  """`Examples.positive_groups`.

  Positives of every split are known positives, so that a passage judged
  relevant only among the test judgements is never a negative either.
  """
  counts = prepared.manifest['counts']['judgements']
  known = [prepared.judgements(split) for split in counts if counts[split]]
  query_rows = np.concatenate([j.query_rows[j.grades > 0] for j in known])
  passage_rows = np.concatenate([j.passage_rows[j.grades > 0] for j in known])
  groups = prepared.passage_groups[passage_rows]
  pairs = np.unique(np.stack([query_rows, groups], axis=1), axis=0)
  return Positives(pairs, len(prepared.queries))


def split_by_document(
    prepared: prepared_lib.Prepared,
    judgements: prepared_lib.Judgements,
    fraction: float,
    documents: Int[np.ndarray, ' passages'] | None = None,
) -> tuple[prepared_lib.Judgements, prepared_lib.Judgements]:
  """Sets the judgements of some documents apart for tuning.

  A document goes to the tune split by a hash of its first passage's id, so the
  split does not depend on the order of anything. A query goes with the document
  of its first positive, and then all its judgements do. Where documents are
  unknown, passages of equal text stand for them.

  Args:
    prepared: the corpus.
    judgements: the training judgements.
    fraction: part of the documents to set apart.
    documents: `[passages] int32`, number of the document, -1 where unknown;
      default: what the reader says.

  Returns:
    (judgements to train on, judgements to tune on).

  Raises:
    UserError: one of the two would hold no positive.
  """
  if documents is None:
    documents = prepared.passage_documents
  documents = np.where(
      documents >= 0,
      documents.astype(np.int64),
      -1 - prepared.passage_groups.astype(np.int64),
  )
  positive = judgements.grades > 0
  queries, first = np.unique(
      judgements.query_rows[positive], return_index=True
  )
  of_query = np.full(len(prepared.queries), np.iinfo(np.int64).min)
  of_query[queries] = documents[judgements.passage_rows[positive][first]]
  names, first_rows = np.unique(documents, return_index=True)
  count = len(np.unique(of_query[queries]))
  ids = prepared.passage_ids
  chosen = [name for name, row in zip(names, first_rows, strict=True)
            if _fraction(ids[row]) < fraction]
  is_tune = np.isin(of_query[judgements.query_rows], chosen)
  parts = judgements.select(~is_tune), judgements.select(is_tune)
  has_some = [bool((part.grades > 0).any()) for part in parts]
  if not all(has_some):
    raise errors.UserError(
        f'{errors.key("data.tune_fraction")}={fraction}: of {count} documents '
        f'with positives it leaves {count * has_some[1]} for tuning, '
        'and training or tuning would be empty. Change it, or name a '
        + errors.key('data.tune_split')
    )
  return parts


def _fraction(key: bytes) -> float:
  """A number in [0, 1) that depends on nothing but the key."""
  return int.from_bytes(hashlib.sha256(key).digest()[:8], 'big') / 2.0**64
