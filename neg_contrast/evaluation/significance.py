"""Which differences between systems chance explains: every pair, one table."""

import dataclasses
import itertools
import pathlib
from collections.abc import Iterable, Mapping

import numpy as np

from neg_contrast.artifacts import atomic
from neg_contrast.evaluation import confidence

COLUMNS = ('metric', 'system', 'other', 'queries', 'difference', 'low', 'high',
           'p', 'p_holm')
_LEVEL = 0.05


@dataclasses.dataclass(frozen=True)
class Pair:
  """Two systems in one metric, over the queries that both have.

  Attributes:
    metric: its name.
    system: the better one of the two.
    other: the one compared with.
    queries: how many.
    difference: mean of system minus other.
    low: of the 95% bootstrap interval of the difference.
    high: of that interval.
    p: of the paired randomisation test, two-sided.
    p_holm: the same, adjusted for all pairs of the metric.
  """

  metric: str
  system: str
  other: str
  queries: int
  difference: float
  low: float
  high: float
  p: float
  p_holm: float


Values = Mapping[str, Mapping[str, float]]
"""Metric -> query id -> value."""


def compare(systems: Mapping[str, Values]) -> list[Pair]:
  """All pairs of systems in every metric.

  Args:
    systems: system -> values.

  Returns:
    Pairs by metric, the largest difference first.
  """
  return _compare(systems, list(itertools.combinations(systems, 2)))


def against(base: str, systems: Mapping[str, Values]) -> list[Pair]:
  """All systems against one of them; `Pair.other` is that one.

  Args:
    base: one of `systems`.
    systems: system -> values.
  """
  pairs = [(system, base) for system in systems if system != base]
  return [
      pair if pair.other == base else dataclasses.replace(
          pair, system=pair.other, other=base, difference=-pair.difference,
          low=-pair.high, high=-pair.low,
      ) for pair in _compare(systems, pairs)
  ]


def undecided(pairs: Iterable[Pair]) -> list[tuple[str, str]]:
  """Systems that no metric tells apart: adjusted p of .05 or more in all."""
  is_open: dict[tuple[str, str], bool] = {}
  for pair in pairs:
    both = min(pair.system, pair.other), max(pair.system, pair.other)
    is_open[both] = is_open.get(both, True) and pair.p_holm >= _LEVEL
  return [both for both, is_so in is_open.items() if is_so]


def _compare(
    systems: Mapping[str, Values], pairs: list[tuple[str, str]]
) -> list[Pair]:
  metrics = dict.fromkeys(m for values in systems.values() for m in values)
  found = []
  for metric in metrics:
    made = [
        made for first, second in pairs
        if (made := _pair(metric, systems, first, second)) is not None
    ]
    adjusted = confidence.holm({str(i): of.p for i, of in enumerate(made)})
    found += sorted(
        (dataclasses.replace(of, p_holm=value)
         for of, value in zip(made, adjusted.values(), strict=True)),
        key=lambda of: -of.difference,
    )
  return found


def _pair(
    metric: str, systems: Mapping[str, Values], first: str, second: str
) -> Pair | None:
  """Two systems, the better one first; None where they share no query."""
  ours = systems[first].get(metric, {})
  theirs = systems[second].get(metric, {})
  shared = [query for query in ours if query in theirs]
  if not shared:
    return None
  differences = np.array([ours[query] - theirs[query] for query in shared])
  if differences.sum() < 0:
    first, second, differences = second, first, -differences
  low, high = confidence.interval(differences)
  p = confidence.p_value(differences)
  return Pair(metric, first, second, len(shared), float(differences.mean()),
              low, high, p, p)


def write(path: pathlib.Path, pairs: Iterable[Pair]) -> None:
  """Writes pairs as tab-separated lines under a header, atomically."""
  with atomic.writing(path) as f:
    f.write('\t'.join(COLUMNS) + '\n')
    for pair in pairs:
      f.write('\t'.join(
          f'{value:.6g}' if isinstance(value, float) else str(value)
          for value in dataclasses.astuple(pair)
      ) + '\n')
