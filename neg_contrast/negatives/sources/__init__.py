"""What training draws hard negatives from, one source a file, and their table.
"""

from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives.sources import (
  corpus_source,
  pool_source,
  random_source,
  sampled_source,
)
from neg_contrast.negatives.sources.source import Material, Source

SOURCES: dict[str, type[Source]] = {
    'random': random_source.Random,
    'corpus': corpus_source.Corpus,
    'sampled': sampled_source.Sampled,
}
"""Name in `config.negatives.strategy` -> source. The pool's serves all
strategies that are mined."""


def source_of(strategy: str, pool: pool_lib.Pool | None) -> type[Source]:
  """The source of a strategy, mined or not.

  Args:
    strategy: `config.negatives.strategy`.
    pool: what was mined; None: nothing.
  """
  if strategy in SOURCES:
    return SOURCES[strategy]
  return random_source.Random if pool is None else pool_source.FromPool


__all__ = ['SOURCES', 'Material', 'Source', 'source_of']
