"""The interface of what training draws hard negatives from."""

import abc
import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jax.sharding import Mesh

from neg_contrast.artifacts import artifact
from neg_contrast.batches import batcher
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives import refresh
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.settings import config as config_lib

Embed = Callable[[Any, np.ndarray | None], embedder_lib.Embedder]
"""(parameters of the encoder, passages or None for all) -> their vectors."""


@dataclasses.dataclass(frozen=True)
class Asked:
  """What a source may make artifacts of, before any training.

  Attributes:
    data: that is trained on; loads as a `Dataset`.
    split: the judgements that are trained on.
    mined_dir: where what several trainings share is kept.
    document: what makes a document.
    answer_rule: finds answers.
    tokenizer: of the model.
    bm25: of these texts; loads as a `bm25_search.Bm25Search`.
    key: that asks for the source, for error messages.
  """

  data: artifact.Artifact
  split: str
  mined_dir: pathlib.Path
  document: str
  answer_rule: str
  tokenizer: artifact.Artifact
  bm25: artifact.Artifact
  key: str


@dataclasses.dataclass(frozen=True)
class Material:
  """What the sources of one training may draw from.

  Attributes:
    settings: how they are drawn.
    loss: whether draws have to be independent, and the scale of scores.
    seed: of the run.
    batch_size: examples of a step.
    dataset: that is trained on.
    pairs: the training examples.
    pool: mined negatives; None: there are none.
    made: what the artifacts that the source needs load as, by role.
    mesh: over which a corpus is divided; that of all processes where they
      train together.
    embed: encodes the corpus with the model as it is.
    workdir: of the run.
    remake: (parameters, moment) -> makes the pool again; None: nothing can.
    run: code of the run's identity.
    count: N, hard negatives that a source gives a query.
  """

  settings: config_lib.NegativesConfig
  loss: config_lib.LossConfig
  seed: int
  batch_size: int
  dataset: dataset_lib.Dataset
  pairs: examples.Examples
  pool: pool_lib.Pool | None
  made: Mapping[str, Any]
  mesh: Mesh
  embed: Embed
  workdir: pathlib.Path
  remake: Callable[[Any, refresh.Moment], None] | None = None
  run: str = ''
  count: int = 0

  @functools.cached_property
  def among(self) -> np.ndarray | None:
    """`[rows] int32`, passages of the queries' worlds; None: all."""
    return self.dataset.prepared.rows_of_worlds(self.pairs.query_rows)


class Source(abc.ABC):
  """Gives the hard negatives of any step.

  Attributes:
    refresh_steps: steps between calls of `refresh`; 0: it needs none.
    in_steps: whether steps find them in a table of the corpus themselves, and
      `draw` gives none.
  """

  refresh_steps: int = 0
  in_steps: bool = False

  def __init__(self, material: Material):
    """Draws nothing yet."""
    self._material = material

  @staticmethod
  @abc.abstractmethod
  def names(
      settings: config_lib.NegativesConfig, pool: pool_lib.Pool | None
  ) -> tuple[str, ...]:
    """What `Drawn.sources` numbers; known before there is any data."""

  @staticmethod
  def needs(asked: Asked) -> dict[str, artifact.Artifact]:
    """What it draws from beside data and pool, by role."""
    del asked
    return {}

  @property
  def halves(self) -> np.ndarray:
    """`[halves, 3] int32`, what drawn rows beyond the corpus are."""
    pool = self._material.pool
    return np.zeros((0, 3), np.int32) if pool is None else pool.halves

  @staticmethod
  def knows_chances(settings: config_lib.NegativesConfig) -> bool:
    """Whether draws are independent, each with a known chance."""
    del settings
    return False

  @abc.abstractmethod
  def draw(
      self, step: int, numbers: np.ndarray, query_rows: np.ndarray
  ) -> batcher.Drawn:
    """The negatives of some examples; see `batcher.Draw`.

    Args:
      step: of training.
      numbers: `[batch] int`, of the examples.
      query_rows: `[batch] int32`, of their queries.
    """

  def excluded(self, query_rows: np.ndarray) -> np.ndarray:
    """Groups that are no negatives: of known positives, and of own passages.

    Args:
      query_rows: `[queries] int32`.

    Returns:
      `[queries, some] int32`; -1 pads.
    """
    dataset = self._material.dataset
    known = self._material.pairs.positive_groups[query_rows]
    if dataset.own_passages is None:
      return known
    own = dataset.own_passages[query_rows]
    groups = np.where(own >= 0, dataset.prepared.passage_groups[own], own)
    return np.concatenate([known, groups[:, None]], axis=1)

  def refresh(self, params: Any, step: int) -> dict[str, Any] | None:
    """Makes the negatives of the steps that come, where parameters count.

    Args:
      params: of the training, as they are before this step.
      step: a multiple of `refresh_steps`.

    Returns:
      Its cost and effect, for `RunLog.write_refresh`; None: nothing to tell.
    """
    del params, step
    return None
