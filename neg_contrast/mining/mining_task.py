"""The data and the settings that strategies mine by."""

import dataclasses
import functools
import pathlib
from collections.abc import Collection
from typing import Any

import numpy as np

from neg_contrast import errors
from neg_contrast.artifacts import artifact
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.mining import miners as miners_lib
from neg_contrast.mining import texts as texts_lib
from neg_contrast.models import given
from neg_contrast.retrieval import encoding as encoding_lib
from neg_contrast.retrieval import search_settings

_COMMON = ('data', 'split', 'depth', 'mined_dir', 'max_queries')


@dataclasses.dataclass(frozen=True)
class Task:
  """Mining for the queries of a split.

  Attributes:
    data: whose queries need negatives; loads as a `Dataset`.
    split: the judgements of these queries.
    depth: candidates that are kept of each source.
    mined_dir: where miners, embeddings and candidates are kept for reuse.
    max_queries: where there are more, so many of them, drawn at random; 0: all.
    k1: of BM25.
    b: of BM25.
    answer_rule: finds answers.
    document: what makes a document.
    tokenizer: halves passages.
    checkpoint: what `model` mines with.
    seed: of weights that the checkpoint lacks.
    runs: files that `run` reads.
    coarse_dim: features of the coarse miner.
    fine_dim: features of the fine miner.
    miners: trains them.
    encoding: how models encode.
    search: how passages are searched, to the depth.
  """

  data: artifact.Artifact
  split: str
  depth: int
  mined_dir: pathlib.Path
  max_queries: int = 0
  k1: float = 0.0
  b: float = 0.0
  answer_rule: str = ''
  document: str = ''
  tokenizer: given.Tokenizer | None = None
  checkpoint: str = ''
  seed: int = 0
  runs: tuple[str, ...] = ()
  coarse_dim: int = 0
  fine_dim: int = 0
  miners: miners_lib.Miners | None = None
  encoding: encoding_lib.EncodingSettings | None = None
  search: search_settings.SearchSettings | None = None

  def only(self, names: Collection[str]) -> 'Task':
    """The same, with defaults for all fields but the common ones and some.

    What differs in nothing that is read is equal then.
    """
    return Task(**{name: getattr(self, name) for name in (*_COMMON, *names)})

  def settings(self) -> dict[str, Any]:
    """What all candidates depend on beside the data, as json."""
    most = {'max_queries': self.max_queries} if self.max_queries else {}
    return {'split': self.split, 'depth': self.depth, **most}

  def open(self) -> 'OpenTask':
    """What follows from the data, which is prepared."""
    return OpenTask(self)

  def texts(self, halves: np.ndarray) -> texts_lib.Texts:
    """Passages by row; `[halves, 3] int32` are those beyond the corpus."""
    assert self.tokenizer is not None
    return texts_lib.Texts(
        self.data.load().prepared.passages, halves, self.tokenizer.load
    )

  def key_of(self, strategy: str) -> str:
    """The key that asks for a strategy, for error messages."""
    return f'{errors.key("negatives.sources")}: "{strategy}"'


class OpenTask:
  """What follows from the data of a task; each is computed once, when asked.

  Attributes:
    dataset: whose queries need negatives.
  """

  def __init__(self, task: Task):
    """Reads the data."""
    self._task, self.dataset = task, task.data.load()

  @property
  def prepared(self) -> prepared_lib.Prepared:
    """Passages and queries."""
    dataset: dataset_lib.Dataset = self.dataset
    return dataset.prepared

  @property
  def source(self) -> str:
    """Where passages and queries come from, for error messages."""
    return self.prepared.manifest['spec']

  @functools.cached_property
  def judgements(self) -> prepared_lib.Judgements:
    """Those of the split, negative ones too."""
    return self.prepared.judgements(self._task.split)

  @functools.cached_property
  def query_rows(self) -> np.ndarray:
    """`[queries] int32`, those with a positive, or `max_queries` of them."""
    rows = np.unique(self.judgements.query_rows[self.judgements.grades > 0])
    if not 0 < self._task.max_queries < len(rows):
      return rows
    rng = np.random.default_rng(0)
    return np.sort(rng.choice(rows, self._task.max_queries, replace=False))

  @functools.cached_property
  def positives(self) -> examples.Positives:
    """Known positives of all queries, of any split."""
    return examples.known_positives(self.prepared)

  @functools.cached_property
  def among(self) -> np.ndarray | None:
    """Passages that are searched: of the queries' worlds; None: all."""
    return self.prepared.rows_of_worlds(self.query_rows)
