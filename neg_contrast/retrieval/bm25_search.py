"""BM25 for the queries of a dataset, each in its own world."""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
from absl import logging

from neg_contrast.artifacts import artifact
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.retrieval import bm25, hits
from neg_contrast.settings import config as config_lib


def index_bm25(
    config: config_lib.EvaluationConfig,
    dataset: dataset_lib.Dataset,
    rows: np.ndarray | None = None,
) -> bm25.Bm25Index:
  """BM25 over title and text of the whole corpus, or of `[rows] int32` of it.
  """
  prepared = dataset.prepared
  passages, ranks = iter(prepared.passages), prepared.tie_ranks
  if rows is not None:
    passages = (prepared.passages[int(row)] for row in rows)
    ranks = ranks[rows]
  return bm25.Bm25Index(
      (f'{p.title} {p.text}' for p in passages), ranks, k1=config.bm25_k1,
      b=config.bm25_b,
  )


class Bm25Search:
  """BM25 for queries of a dataset, which are searched in their own world.

  A world has an index of its own, as if it were a corpus of its own.
  """

  def __init__(
      self, config: config_lib.EvaluationConfig, dataset: dataset_lib.Dataset
  ):
    """Indexes nothing yet."""
    self._config, self._dataset = config, dataset
    self._parts: dict[int, tuple[np.ndarray, bm25.Bm25Index]] = {}

  def search(self, texts: Sequence[str], depth: int) -> hits.Hits:
    """The best passages of any texts, in all worlds."""
    return self._whole.search(texts, depth)

  def search_rows(self, query_rows: np.ndarray, depth: int) -> hits.Hits:
    """The best passages of queries, as rows of the whole corpus."""
    prepared = self._dataset.prepared
    texts = [prepared.queries[int(row)].text for row in query_rows]
    if not prepared.worlds:
      return self.search(texts, depth)

    def search(world: int, lines: np.ndarray) -> hits.Hits:
      rows, index = self._part(world)
      some = [texts[line] for line in np.flatnonzero(lines)]
      return hits.renumber(index.search(some, depth), rows)

    return hits.search_parts(prepared.query_worlds[query_rows], depth, search)

  @functools.cached_property
  def _whole(self) -> bm25.Bm25Index:
    logging.info('indexing the corpus for BM25')
    return index_bm25(self._config, self._dataset)

  def _part(self, world: int) -> tuple[np.ndarray, bm25.Bm25Index]:
    """The rows of a world, ascending, and their index."""
    if world not in self._parts:
      worlds = self._dataset.prepared.passage_worlds
      rows = np.flatnonzero(worlds == world).astype(np.int32)
      self._parts[world] = rows, index_bm25(self._config, self._dataset, rows)
    return self._parts[world]


def search_bm25(
    config: config_lib.EvaluationConfig,
    dataset: dataset_lib.Dataset,
    query_rows: np.ndarray,
    depth: int,
) -> hits.Hits:
  """The best passages of queries by BM25."""
  return Bm25Search(config, dataset).search_rows(query_rows, depth)


@dataclasses.dataclass(frozen=True)
class Bm25(artifact.InMemory):
  """BM25 over a corpus, in memory; loads as a `Bm25Search`.

  Attributes:
    data: corpus and queries.
    k1: saturation of a term's count.
    b: how far the length of a passage counts.
  """

  kind = 'bm25'
  name = 'bm25 index'
  is_large = True
  data: artifact.Artifact
  k1: float
  b: float

  def describe(self) -> str:
    """Where it lies."""
    return 'in memory'

  def needs(self) -> dict[str, artifact.Artifact]:
    """Passages and queries."""
    return {'texts': self.data}

  def settings(self) -> dict[str, float]:
    """Its own."""
    return {'k1': self.k1, 'b': self.b}

  def read(self) -> Bm25Search:
    """Indexes nothing before the first search."""
    return Bm25Search(
        config_lib.EvaluationConfig(bm25_k1=self.k1, bm25_b=self.b),
        self.data.load(),
    )


def bm25_of(
    config: config_lib.EvaluationConfig, data: artifact.Artifact
) -> Bm25:
  """BM25 as the config of an evaluation has it."""
  return Bm25(data, config.bm25_k1, config.bm25_b)
