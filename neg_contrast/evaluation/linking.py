"""Accuracies of entity linking in two stages: a retriever, then a reranker.

Logeswaran et al., 2019; Zhang and Stratos, 2021, section 6.1. Unnormalised
accuracy is over all mentions. Normalised accuracy is over those whose entity is
among the candidates of the retriever, so that it is the reranker's alone. Both
are averaged over worlds; the retriever's recall is over mentions.
"""

import collections
import csv
import dataclasses
import pathlib
from collections.abc import Iterable, Mapping

import numpy as np

from neg_contrast.artifacts import atomic
from neg_contrast.evaluation import trec


@dataclasses.dataclass(frozen=True)
class Accuracies:
  """What a retriever and a reranker reach together.

  Attributes:
    mean: `accuracy@k` (of the candidates, over mentions),
      `unnormalized_accuracy` and `normalized_accuracy` (means over worlds), and
      the same two over mentions as `micro_unnormalized_accuracy` and
      `micro_normalized_accuracy`.
    per_world: world -> `queries` (how many mentions), `accuracy@k`,
      `unnormalized_accuracy` and, where it has a mention whose entity was
      found, `normalized_accuracy`.
    per_query: `accuracy@k` and `unnormalized_accuracy` -> mention -> 0 or 1;
      `normalized_accuracy` -> those mentions whose entity was found.
  """

  mean: dict[str, float]
  per_world: dict[str, dict[str, float]]
  per_query: dict[str, dict[str, float]]


def accuracies(
    qrels: Mapping[str, Mapping[str, int]],
    candidates: Mapping[str, Iterable[tuple[str, float]]],
    reranked: Mapping[str, Iterable[tuple[str, float]]],
    worlds: Mapping[str, str] | None = None,
    depth: int = 64,
) -> Accuracies:
  """Accuracies of a reranked run, given the candidates that it ranks anew.

  Args:
    qrels: grade of each judged entity, by mention; above 0 is right.
    candidates: (entity, score) pairs of each mention, by the retriever, in any
      order; ranked by `trec.ranked`, and cut to `depth`.
    reranked: the same by the reranker.
    worlds: of each mention; None: all are of one.
    depth: k, candidates of a mention.

  Returns:
    Means are over the mentions of `qrels`; one without candidates is wrong. A
    world in which no entity was found has no normalised accuracy, and is left
    out of its mean, which is 0 if there are no others.

  Raises:
    ValueError: nothing is judged, or a reranked entity is no candidate.
  """
  if not qrels:
    raise ValueError('there are no judgements to evaluate against')
  found: dict[str, float] = {}
  right: dict[str, float] = {}
  for mention, judged in qrels.items():
    best = trec.ranked(candidates.get(mention, ()))[:depth]
    some = {name for name, _ in best}
    ranking = trec.ranked(reranked.get(mention, ()))
    strange = next((name for name, _ in ranking if name not in some), None)
    if strange is not None:
      raise ValueError(
          f'mention {mention!r}: {strange!r} is reranked and not among the '
          f'first {depth} candidates'
      )
    gold = {name for name, grade in judged.items() if grade > 0}
    found[mention] = float(bool(gold & some))
    right[mention] = float(bool(ranking) and ranking[0][0] in gold)
  per_query = {
      f'accuracy@{depth}': found,
      'unnormalized_accuracy': right,
      'normalized_accuracy': {
          mention: right[mention] for mention in qrels if found[mention]
      },
  }
  per_world = by_world(per_query, worlds)
  over_mentions = {name: _mean(values.values())
                   for name, values in per_query.items()}
  mean = {f'accuracy@{depth}': over_mentions[f'accuracy@{depth}']}
  for name in ('unnormalized_accuracy', 'normalized_accuracy'):
    mean[name] = over_worlds(per_world, name)
    mean[f'micro_{name}'] = over_mentions[name]
  return Accuracies(mean, per_world, per_query)


def by_world(
    per_query: Mapping[str, Mapping[str, float]],
    worlds: Mapping[str, str] | None,
) -> dict[str, dict[str, float]]:
  """Means of each world.

  Args:
    per_query: metric -> query -> value; the first one has all queries.
    worlds: of each query; None: all are of one, called "all".

  Returns:
    World, in the order of the queries -> `queries` and metric -> mean over its
    queries; a metric that none of them has is left out.
  """
  world_of = lambda query: 'all' if worlds is None else worlds[query]
  first = next(iter(per_query.values()))
  counts = collections.Counter(map(world_of, first))
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


def write_worlds(
    path: pathlib.Path,
    systems: Mapping[str, Mapping[str, Mapping[str, float]]],
) -> None:
  """Writes a table: a line for each system and world, a column a metric.

  Args:
    path: of the tab-separated file, written atomically.
    systems: system -> world -> metric -> value, as `by_world` gives them.
  """
  names = dict.fromkeys(name for worlds in systems.values()
                        for values in worlds.values() for name in values)
  with atomic.writing(path) as f:
    lines = csv.writer(f, delimiter='\t', lineterminator='\n')
    lines.writerow(('system', 'world', *names))
    for system, worlds in systems.items():
      for world, values in worlds.items():
        lines.writerow((system, world, *(
            format(values[name], '.10g') if name in values else ''
            for name in names
        )))


def over_worlds(
    per_world: Mapping[str, Mapping[str, float]], metric: str
) -> float:
  """The mean over the worlds that have a metric; 0 where none has."""
  return _mean(values[metric] for values in per_world.values()
               if metric in values)


def _mean(values: Iterable[float]) -> float:
  some = list(values)
  return float(np.mean(some)) if some else 0.0
