"""Which queries two rankings answer differently. Pure."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping

Ranks = dict[str, int | None]
"""The rank from 1 of a query's first positive; None if it was not found."""


@dataclasses.dataclass(frozen=True)
class Movement:
  """Queries by what became of their first positive.

  Attributes:
    risen: those whose first positive ranks better afterwards, the biggest gain
      of reciprocal rank first.
    fallen: those where it ranks worse, the biggest loss first.
    same: how many did not move.
  """

  risen: tuple[str, ...]
  fallen: tuple[str, ...]
  same: int


def compare(
    before: Mapping[str, int | None], after: Mapping[str, int | None]
) -> Movement:
  """Sorts the queries that both sides have by their change.

  The change is that of the reciprocal rank, 0 where no positive was found: from
  rank 2 to 1 is more than from 100 to 3. Queries of equal change stay in the
  order of `before`.

  Args:
    before: rank from 1 of each query's first positive, None if not found.
    after: the same by the other system.
  """
  gains = {
      query: _reciprocal(after[query]) - _reciprocal(rank)
      for query, rank in before.items() if query in after
  }
  risen = sorted((q for q in gains if gains[q] > 0), key=lambda q: -gains[q])
  fallen = sorted((q for q in gains if gains[q] < 0), key=gains.__getitem__)
  return Movement(
      tuple(risen), tuple(fallen), len(gains) - len(risen) - len(fallen)
  )


def first_ranks(
    lines: Iterable[bytes], positives: Mapping[str, Collection[str]]
) -> tuple[Ranks, int]:
  """Where a run has the first positive of each query.

  Reads as it goes: a million lines take a second, and no memory.

  Args:
    lines: of a TREC run as `trec.write_run` leaves it: the passages of a query
      together, best first.
    positives: passage ids of each query.

  Returns:
    (ranks of all queries of `positives`, passages of the longest ranking).
  """
  ranks: Ranks = dict.fromkeys(positives)
  depth = rank = 0
  current: bytes | None = None
  wanted: Collection[bytes] = ()
  query = ''
  for line in lines:
    name, _, rest = line.partition(b' ')
    if name != current:
      current, query, rank = name, name.decode(), 0
      wanted = {passage.encode() for passage in positives.get(query, ())}
    rank += 1
    depth = max(depth, rank)
    if wanted and rest.split(b' ', 2)[1] in wanted:
      ranks[query], wanted = rank, ()
  return ranks, depth


def first_cuts(values: Mapping[int, Mapping[str, float]]) -> Ranks:
  """The least cut-off at which a query counts as answered, in place of a rank.

  Args:
    values: cut-off k -> query id -> accuracy@k.
  """
  ranks: Ranks = {}
  for k in sorted(values):
    for query, value in values[k].items():
      if ranks.get(query) is None:
        ranks[query] = k if value > 0 else None
  return ranks


def rankings(
    lines: Iterable[bytes], queries: Collection[str]
) -> dict[str, list[tuple[str, float]]]:
  """(passage id, score) pairs of some queries of a run, in its order.

  Args:
    lines: of a TREC run.
    queries: ids; those without any line get an empty list.
  """
  found: dict[str, list[tuple[str, float]]] = {query: [] for query in queries}
  wanted = {query.encode() for query in queries}
  for line in lines:
    name, _, rest = line.partition(b' ')
    if name in wanted:
      _, passage, _, score, _ = rest.split(b' ', 4)
      found[name.decode()].append((passage.decode(), float(score)))
  return found


def _reciprocal(rank: int | None) -> float:
  return 0.0 if rank is None else 1 / rank
