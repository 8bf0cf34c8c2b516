"""How `negatives.sources` names sources and their numbers.

    ('bm25:1', 'coarse+fine:1', 'shared_corpus:100', 'queue:4096')

One by BM25, one of what coarse or fine find, 100 of the corpus that all queries
of a batch share, and a queue of 4,096. Nothing: the other rows of the batch.
"""

import dataclasses
import functools
import re
from collections.abc import Iterable

from neg_contrast.settings import keys

DRAWN = keys.Table('negatives.sources', 'SOURCES')
"""What is drawn for each example while training, without a pool."""

SHARED = keys.Table('negatives.sources', 'SHARED')
"""What all queries of a batch have as candidates."""

MINED = keys.Table('mining.strategies', 'STRATEGIES')
"""Strategies that `job=mine` lists for every query; what is not in `DRAWN` too
is drawn from a pool of that."""

DENSE = keys.Table('mining.strategies', 'DENSE')
"""Those of `MINED` that a dual encoder finds."""

POOL = 'pool'
"""The sources of `negatives.pool` that no other entry names."""

BATCH = 'random'
"""What a list without entries is called: the other rows of the batch alone."""

FORM = keys.matching(
    r'\w+(\+\w+)*:[1-9][0-9]*',
    'NAME:N, or NAME+NAME:N for N of their union, such as bm25:2',
)


@dataclasses.dataclass(frozen=True)
class Entry:
  """Sources, and how many passages they give together.

  Attributes:
    names: of the sources; of several, the union is drawn from.
    count: passages; of a query, or of the batch if all queries share them.
  """

  names: tuple[str, ...]
  count: int

  def __str__(self) -> str:
    """As a config has it."""
    return f'{"+".join(self.names)}:{self.count}'


def parse(text: str) -> Entry:
  """The entry that a text of the `FORM` is."""
  names, _, count = text.partition(':')
  return Entry(tuple(names.split('+')), int(count))


def without(entries: Iterable[Entry], names: Iterable[str]) -> tuple[str, ...]:
  """Entries as a config has them, but for some sources."""
  names = {*names}
  kept = [Entry(tuple(name for name in entry.names if name not in names),
                entry.count) for entry in entries]
  return tuple(str(entry) for entry in kept if entry.names)


def label(sources: Iterable[str]) -> str:
  """A list for people, such as `bm25 (2)`."""
  return ' and '.join(re.sub(':(.*)', r' (\1)', text) for text in sources) or (
      BATCH)


class NamedSources:
  """What a section says of negatives by its keys `sources` and `pool`.

  Attributes:
    sources: texts of the `FORM`.
    pool: folder of a pool; empty: none is given.
  """

  sources: tuple[str, ...]
  pool: str

  @functools.cached_property
  def entries(self) -> tuple[Entry, ...]:
    """The sources with their numbers."""
    return tuple(map(parse, self.sources))

  @property
  def names(self) -> tuple[str, ...]:
    """The sources."""
    return tuple(name for entry in self.entries for name in entry.names)

  @property
  def own(self) -> tuple[Entry, ...]:
    """What each query has of its own."""
    return tuple(entry for entry in self.entries
                 if not {*entry.names} & {*SHARED.names})

  @property
  def listed(self) -> tuple[Entry, ...]:
    """Those of `own` that list passages, and give what others of them lack."""
    return tuple(entry for entry in self.own
                 if {*entry.names} <= {POOL, *MINED.names})

  @property
  def per_query(self) -> int:
    """Hard negatives of a query."""
    return sum(entry.count for entry in self.own)

  @property
  def shared(self) -> tuple[Entry, ...]:
    """What all queries of a batch have."""
    return tuple(entry for entry in self.entries if entry not in self.own)

  @property
  def shared_corpus(self) -> int:
    """Passages of the corpus that all queries of a batch share."""
    return self.count_of('shared_corpus')

  @property
  def queue(self) -> int:
    """Positives of earlier batches that all queries share."""
    return self.count_of('queue')

  @property
  def strategies(self) -> tuple[str, ...]:
    """Those of the sources that list passages."""
    return tuple(name for name in self.names if name in MINED.names)

  @property
  def drawn(self) -> tuple[str, ...]:
    """Those of `strategies` that a training draws from without a pool."""
    return () if self.pool else tuple(
        name for name in self.strategies if name in DRAWN.names
    )

  @property
  def pooled(self) -> tuple[str, ...]:
    """Those of `strategies` that a training draws from a pool of."""
    return tuple(name for name in self.strategies if name not in self.drawn)

  @property
  def dense(self) -> tuple[str, ...]:
    """Those of `pooled` that `refresh_steps` replaces."""
    return tuple(name for name in self.pooled if name in DENSE.names)

  @property
  def label(self) -> str:
    """The sources, for people."""
    return label(self.sources)

  def count_of(self, name: str) -> int:
    """Passages that a source gives on its own; 0: it is not named so."""
    return sum(entry.count for entry in self.entries if entry.names == (name,))
