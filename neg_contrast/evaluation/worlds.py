"""Means of metrics over the worlds of an entity linking corpus."""

import collections
import csv
import pathlib
from collections.abc import Iterable, Mapping

import numpy as np

from neg_contrast.artifacts import atomic


def by_world(
    per_query: Mapping[str, Mapping[str, float]],
    worlds: Mapping[str, str] | None,
) -> dict[str, dict[str, float]]:
  """Means of each world.

  Args:
    per_query: metric -> query -> value.
    worlds: of each query; None: all are of one, called "all".

  Returns:
    World, in the order of the queries -> `queries` (those with any value) and
    metric -> mean over its queries; a metric that none of them has is left out.
  """
  world_of = lambda query: 'all' if worlds is None else worlds[query]
  queries = dict.fromkeys(q for values in per_query.values() for q in values)
  counts = collections.Counter(map(world_of, queries))
  found: dict[str, dict[str, float]] = {
      world: {'queries': float(count)} for world, count in counts.items()
  }
  for name, values in per_query.items():
    of: dict[str, list[float]] = collections.defaultdict(list)
    for query, value in values.items():
      of[world_of(query)].append(value)
    for world, some in of.items():
      found[world][name] = _mean(some)
  return found


def over_worlds(
    per_world: Mapping[str, Mapping[str, float]], metric: str
) -> float:
  """The mean over the worlds that have a metric; 0 where none has."""
  return _mean(values[metric] for values in per_world.values()
               if metric in values)


def write_worlds(
    path: pathlib.Path,
    systems: Mapping[str, Mapping[str, Mapping[str, float]]],
    kind: str = 'world',
) -> None:
  """Writes a table: a line for each system and world, a column a metric.

  Args:
    path: of the tab-separated file, written atomically.
    systems: system -> world -> metric -> value, as `by_world` gives them.
    kind: what the worlds are, for the head of the table.
  """
  names = dict.fromkeys(name for worlds in systems.values()
                        for values in worlds.values() for name in values)
  with atomic.writing(path) as f:
    lines = csv.writer(f, delimiter='\t', lineterminator='\n')
    lines.writerow(('system', kind, *names))
    for system, worlds in systems.items():
      for world, values in worlds.items():
        lines.writerow((system, world, *(
            format(values[name], '.10g') if name in values else ''
            for name in names
        )))


def _mean(values: Iterable[float]) -> float:
  some = list(values)
  return float(np.mean(some)) if some else 0.0
