"""Pools that a training makes again by its own model, as it is at some steps.

Xiong et al., "Approximate Nearest Neighbor Negative Contrastive Learning for
Dense Text Retrieval" (ANCE), 2021; here synchronously: step s draws from
generation s // `refresh_steps`, and generation g is a function of the
parameters of step g · `refresh_steps`. Generation 0 is the mined pool.
"""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.retrieval import hits, own_passages
from neg_contrast.retrieval import retriever as retriever_lib

FOLDER = 'refreshed'  # Of a workdir.
FACTS = 'refresh'  # Key of a generation's manifest.
REPLACED = 'replaced'  # Key of these facts.

OpenRetriever = Callable[
    [pathlib.Path, np.ndarray | None], retriever_lib.Retriever
]
"""(folder that keeps vectors, `[n] int32` passages or None for all) -> what
searches them by a training's model, as it is."""


@dataclasses.dataclass(frozen=True)
class Moment:
  """When a pool is made again, and for whom.

  Attributes:
    workdir: of the training.
    step: steps that are done.
    every: steps between generations.
    run: code of the training's identity; pools of another one are not used.
  """

  workdir: pathlib.Path
  step: int
  every: int
  run: str

  @property
  def folder(self) -> pathlib.Path:
    """Of the generation that is made now."""
    return self.workdir / FOLDER / f'{self.step:07d}'

  @property
  def before(self) -> 'Moment | None':
    """That of the generation before; None: it is the mined pool."""
    step = self.step - self.every
    return dataclasses.replace(self, step=step) if step else None


@runtime_checkable
class Remakes(Protocol):
  """A pool that can be made again; all processes come to it together."""

  def remake(self, moment: Moment, open_retriever: OpenRetriever) -> None:
    """Writes the pool of a moment, unless it is there."""
    ...


class Searcher:
  """The nearest passages of queries, by a model as it is."""

  def __init__(
      self,
      retriever: retriever_lib.Retriever,
      dataset: dataset_lib.Dataset,
      depth: int,
      among: Int[np.ndarray, ' rows'] | None,
  ):
    """Encodes nothing yet.

    Args:
      retriever: of these passages.
      dataset: corpus and queries.
      depth: passages wanted.
      among: `[rows] int32`, the passages that are searched, ascending; None:
        all.
    """
    self._retriever, self._dataset = retriever, dataset
    self._depth, self._among = depth, among

  def encode(self) -> None:
    """Encodes the passages, unless that is done; all processes divide them."""
    _ = self._retriever.vectors.passage_vecs

  def __call__(
      self,
      query_rows: Int[np.ndarray, ' queries'],
      groups: Int[np.ndarray, 'queries some'],
  ) -> tuple[hits.Hits, Float[np.ndarray, 'queries some']]:
    """Searches; all processes come here.

    Args:
      query_rows: `[queries] int32`.
      groups: `[queries, some] int32`, of passages to score; -1 pads.

    Returns:
      Passages other than the queries' own, and `[queries, some] float32`
      scores; -inf for padding, and for groups that are not searched.
    """
    found, scores = self._retriever.search_and_score(
        query_rows, own_passages.depth_for(self._dataset, self._depth),
        self._places_of(groups),
    )
    return own_passages.drop(
        self._dataset, query_rows, found, self._depth
    ), scores

  def _places_of(self, groups: np.ndarray) -> np.ndarray:
    """Groups as places among the passages that are searched; -1: none."""
    if self._among is None:
      return groups
    known, places = np.unique(
        self._dataset.prepared.passage_groups[self._among], return_index=True
    )
    at = np.minimum(np.searchsorted(known, groups), len(known) - 1)
    return np.where(known[at] == groups, places[at], -1).astype(np.int32)


def read(moment: Moment, mined: pool_lib.Pool) -> pool_lib.Pool:
  """Maps the pool of a moment.

  Args:
    moment: that it was made at.
    mined: generation 0.

  Raises:
    UserError: it is not there, is damaged, or belongs to something else.
  """
  try:
    pool = pool_lib.read(moment.folder)
  except errors.UserError as e:
    is_there = (moment.folder / folders.MANIFEST).exists()
    raise _gone(moment, f'is damaged ({str(e).partition(". Remove")[0]})'
                if is_there else 'is not there') from None
  if pool.manifest['identity']['settings'].get('run') != moment.run or (
      pool.sources != mined.sources
      or not np.array_equal(pool.query_rows, mined.query_rows)):
    raise _gone(moment, 'is of another training')
  return pool


def facts(moment: Moment) -> dict[str, Any]:
  """Cost and effect of a generation that is there, as json.

  Raises:
    UserError: it is not there any more.
  """
  manifest = folders.read_manifest(moment.folder, pool_lib.FORMAT)
  if manifest is None:
    raise _gone(moment, 'is not there')
  found: dict[str, Any] = manifest[FACTS]
  return found


def _gone(moment: Moment, what: str) -> errors.UserError:
  return errors.UserError(
      f'{moment.folder}: the pool of negatives that was made again after step '
      f'{moment.step} {what}, and the model that made it is gone; put it back, '
      f'or train in another {errors.flag("workdir")}'
  )
