"""BM25 for mining: one index over the worlds of all queries."""

import dataclasses
from typing import Any

from absl import logging

from neg_contrast.artifacts import artifact
from neg_contrast.mining import mining_task as task_lib
from neg_contrast.retrieval import bm25, bm25_search
from neg_contrast.settings import config as config_lib


@dataclasses.dataclass(frozen=True)
class WorldsIndex(artifact.InMemory):
  """BM25 over the passages that queries of a task are searched among.

  It is in memory; loads as a `Bm25Index`.

  Attributes:
    task: whose queries.
  """

  kind = 'bm25'
  name = 'bm25 index'
  is_large = True
  task: task_lib.Task

  def describe(self) -> str:
    """Where it lies."""
    return 'in memory'

  def needs(self) -> dict[str, artifact.Artifact]:
    """Passages and queries."""
    return {'texts': self.task.data}

  def settings(self) -> dict[str, Any]:
    """Its own; which passages it has follows from what needs it."""
    return {'k1': self.task.k1, 'b': self.task.b}

  def read(self) -> bm25.Bm25Index:
    """Indexes the passages."""
    logging.info('indexing the corpus for BM25')
    return bm25_search.index_bm25(
        config_lib.EvaluationConfig(bm25_k1=self.task.k1, bm25_b=self.task.b),
        self.task.data.load(), self.task.open().among,
    )


def index_of(task: task_lib.Task) -> WorldsIndex:
  """The index of a task, which others share that read no more of it."""
  return WorldsIndex(dataclasses.replace(task.only(('k1', 'b')), depth=0))
