"""What training draws hard negatives from, one source a file, and their table.
"""

from neg_contrast.artifacts import artifact
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives.sources import (
  context_source,
  corpus_source,
  gold_source,
  mixed_source,
  pool_source,
  random_source,
  retrieved_source,
  sampled_source,
)
from neg_contrast.negatives.sources.source import Asked, Material, Source
from neg_contrast.settings import config as config_lib

SOURCES: dict[str, type[Source]] = {
    'random': random_source.Random,
    'corpus': corpus_source.Corpus,
    'gold': gold_source.Gold,
    'sampled': sampled_source.Sampled,
    'context': context_source.Context,
    'retrieved': retrieved_source.Retrieved,
}
"""Name in `config.negatives.strategy` -> source. The pool's serves all
strategies that are mined."""


def source_of(
    settings: config_lib.NegativesConfig, pool: pool_lib.Pool | None
) -> type[Source]:
  """The source of a training.

  Args:
    settings: strategy, and its members.
    pool: what was mined; None: nothing, or nothing yet.
  """
  if settings.strategy in SOURCES and not settings.pool:
    return SOURCES[settings.strategy]
  if pool is None:
    return random_source.Random
  return mixed_source.Mixed if settings.drawn else pool_source.FromPool


def needs_of(
    settings: config_lib.NegativesConfig, asked: Asked
) -> dict[str, artifact.Artifact]:
  """What a training draws from beside data and pool, by role."""
  names = settings.drawn or (
      () if settings.pool or settings.strategy not in SOURCES
      else (settings.strategy,)
  )
  return {role: need for name in names
          for role, need in SOURCES[name].needs(asked).items()}


__all__ = ['SOURCES', 'Asked', 'Material', 'Source', 'needs_of', 'source_of']
