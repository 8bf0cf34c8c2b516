"""A corpus's quantized index: built once, kept by a folder, and measured."""

import dataclasses
import functools
import pathlib
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import scoring
from neg_contrast.artifacts import folders
from neg_contrast.retrieval import (
  hits,
  multi_vector,
  quantized_files,
  quantized_index,
  vector_table,
)

_RECALL_QUERIES = 200


class KeptIndex:
  """The quantized index of a corpus's vectors, read from its folder or built.

  If texts have several vectors, it is one of single vectors, which finds
  candidates.
  """

  def __init__(
      self,
      vecs: vector_table.Rows,
      tie_ranks: np.ndarray,
      score: scoring.ScoreFunction,
      settings: quantized_index.Settings,
      folder: pathlib.Path | None,
  ):
    """Reads nothing yet.

    Args:
      vecs: `[passages, features] float32`.
      tie_ranks: `[passages] int32`, see `hits.tie_ranks`.
      score: of a query's vector and a passage's.
      settings: what it has to reach.
      folder: keeps indexes of any settings; None: memory keeps this one.
    """
    self._vecs, self._tie_ranks, self._score = vecs, tie_ranks, score
    self._settings = settings
    self._folder = None if folder is None else _folder_of(folder, settings)

  def make(self) -> None:
    """Builds it, with all processes that do the same, unless it is there.

    Raises:
      UserError: a library is not installed, or the index is damaged.
    """
    if self._folder is None:
      _ = self.index
    else:
      quantized_files.make(self._folder, *self._table, self._settings)

  @functools.cached_property
  def index(self) -> hits.Index:
    """Searches; raises as `make`."""
    if self._folder is None:
      index = quantized_index.build(*self._table, self._settings)
    else:
      self.make()
      index = quantized_files.load(self._folder, self._table[0])
    singles = self._table[0]
    if not isinstance(singles, multi_vector.SingleVectors):
      return index
    return multi_vector.CandidateIndex(
        self._vecs, self._tie_ranks, self._score, singles, index,
        self._settings.kind,
    )

  @functools.cached_property
  def _table(self) -> tuple[vector_table.Rows, np.ndarray]:
    """Vectors, one a row, and their tie ranks."""
    if self._score.is_dot:
      return self._vecs, self._tie_ranks
    singles = multi_vector.SingleVectors(
        self._vecs, self._vecs.shape[1] // self._score.passage_vectors
    )
    return singles, np.arange(len(singles), dtype=np.int32)


def is_kept(folder: pathlib.Path, settings: quantized_index.Settings) -> bool:
  """Whether the folder keeps an index of these settings.

  Raises:
    UserError: its manifest is damaged or of another format.
  """
  return quantized_files.is_made(_folder_of(folder, settings), settings)


def measured_places(queries: int) -> np.ndarray:
  """Places `[some] int` of the queries to measure an index with, at most 200.
  """
  return np.linspace(0, queries - 1, min(_RECALL_QUERIES, queries), dtype=int)


def measure(
    index: hits.Index, found: hits.Hits, exact: hits.Hits
) -> dict[str, Any]:
  """What an index missed of what exact search finds, as json for a manifest.

  Args:
    index: of `make`, or approximate.
    found: `[queries, depth]`, its hits.
    exact: `[queries, depth]`, those of exact search.
  """
  queries, depth = found.rows.shape
  recall = hits.recall(found, exact)
  kind, tuned = 'approx', {}
  if isinstance(index, multi_vector.CandidateIndex):
    kind = index.kind
  elif isinstance(index, quantized_index.QuantizedIndex):
    kind = index.settings.kind
    tuned = {'tuned': dataclasses.asdict(index.measured)}
  logging.info('%s found %.2f%% of the exact top %d of %d queries',
               kind, 100 * recall, depth, queries)
  return {
      'kind': kind,
      **tuned,
      'recall': recall,
      'depth': depth,
      'queries': queries,
  }


def _folder_of(
    folder: pathlib.Path, settings: quantized_index.Settings
) -> pathlib.Path:
  code = folders.sha256_json(settings.to_json())[:12]
  return folder / f'{settings.kind}-{code}'
