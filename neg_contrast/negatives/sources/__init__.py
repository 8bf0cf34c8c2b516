"""What training draws hard negatives from, one source a file, and their tables.
"""

from collections.abc import Callable

import numpy as np

from neg_contrast.artifacts import artifact
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives.sources import (
  composed,
  context_source,
  corpus_source,
  gold_source,
  mixed_source,
  pool_source,
  queue_source,
  retrieved_source,
  sampled_source,
  shared_corpus_source,
)
from neg_contrast.negatives.sources.shared import Shared
from neg_contrast.negatives.sources.source import Asked, Material, Source
from neg_contrast.settings import config as config_lib

SOURCES: dict[str, type[Source]] = {
    'corpus': corpus_source.Corpus,
    'gold': gold_source.Gold,
    'sampled': sampled_source.Sampled,
    'context': context_source.Context,
    'retrieved': retrieved_source.Retrieved,
}
"""Name in `config.negatives.sources` -> what a query has of its own. What is
mined is drawn by the source of pools."""

SHARED: dict[str, type[Shared]] = {
    'shared_corpus': shared_corpus_source.SharedCorpus,
    'queue': queue_source.Queue,
}
"""Name there -> what all queries of a batch have."""


def parts_of(
    settings: config_lib.NegativesConfig,
) -> list[composed.Part]:
  """What draws the hard negatives of a query, in the order of columns.

  All that lists passages is one part, in the place of the first.

  Args:
    settings: the sources.
  """
  parts, listed = [], settings.listed
  for entry in settings.own:
    if entry not in listed:
      parts.append(composed.Part(SOURCES[entry.names[0]], entry.count))
    elif entry is listed[0]:
      parts.append(composed.Part(
          _lists(settings), sum(entry.count for entry in listed)
      ))
  return parts


def make(material: Material) -> Source:
  """What draws all hard negatives of a training."""
  return composed.Composed(material, parts_of(material.settings))


def make_shared(
    settings: config_lib.NegativesConfig, seed: int, among: np.ndarray | int
) -> Callable[[int], np.ndarray]:
  """Step -> `[passages] int32`, what it encodes for all queries; -1: none.

  Args:
    settings: the sources.
    seed: of the run.
    among: `[rows] int32`, the passages of the queries' worlds; or how many
      there are in all.
  """
  parts = [SHARED[entry.names[0]](entry.count, seed, among)
           for entry in settings.shared]
  return lambda step: np.concatenate(
      [np.zeros(0, np.int32), *(part.draw(step) for part in parts)]
  )


def names_of(
    settings: config_lib.NegativesConfig, pool: pool_lib.Pool | None
) -> tuple[str, ...]:
  """What the numbers of `Drawn.sources` mean.

  Args:
    settings: the sources.
    pool: what was mined; None: nothing, or nothing yet.
  """
  return tuple(name for part in parts_of(settings)
               for name in part.kind.names(settings, pool))


def in_steps(settings: config_lib.NegativesConfig) -> bool:
  """Whether steps find the negatives themselves, see `Source.in_steps`."""
  return any(part.kind.in_steps for part in parts_of(settings))


def knows_chances(settings: config_lib.NegativesConfig) -> bool:
  """Whether all draws are independent, each with a known chance."""
  parts = parts_of(settings)
  return len(parts) == 1 and parts[0].kind.knows_chances(settings)


def needs_of(
    settings: config_lib.NegativesConfig, asked: Asked
) -> dict[str, artifact.Artifact]:
  """What a training draws from beside data and pool, by role."""
  return {role: need for name in settings.names if name in SOURCES
          and (name in settings.drawn or name not in settings.strategies)
          for role, need in SOURCES[name].needs(asked).items()}


def _lists(settings: config_lib.NegativesConfig) -> type[Source]:
  """The source of all that lists passages."""
  if not settings.drawn:
    return pool_source.FromPool
  return mixed_source.Mixed if settings.pooled else context_source.Context


__all__ = [
    'SHARED', 'SOURCES', 'Asked', 'Material', 'Shared', 'Source', 'in_steps',
    'knows_chances', 'make', 'make_shared', 'names_of', 'needs_of', 'parts_of',
]
