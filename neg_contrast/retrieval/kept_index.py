"""The ScaNN index of a corpus: built once, kept by a folder, and measured."""

import dataclasses
import pathlib
from typing import Any

import numpy as np
from absl import logging

from neg_contrast import scoring
from neg_contrast.artifacts import folders
from neg_contrast.retrieval import (
  hits,
  multi_vector,
  scann_files,
  scann_index,
  searched_parts,
  vector_table,
)

_RECALL_QUERIES = 200


def make(
    vecs: vector_table.Rows,
    tie_ranks: np.ndarray,
    score: scoring.ScoreFunction,
    settings: scann_index.Settings,
    folder: pathlib.Path | None,
) -> hits.Index:
  """The index of a corpus's vectors, read from the folder or built.

  Args:
    vecs: `[passages, features] float32`.
    tie_ranks: `[passages] int32`, see `hits.tie_ranks`.
    score: of a query's vector and a passage's. If texts have several vectors,
      the index is one of single vectors, which finds candidates.
    settings: what it has to reach.
    folder: keeps the index; None: memory keeps it.

  Raises:
    UserError: ScaNN is not installed, or the index is damaged.
  """
  if score.is_dot:
    return _open_or_build(vecs, tie_ranks, settings, folder)
  singles = multi_vector.SingleVectors(
      vecs, vecs.shape[1] // score.passage_vectors
  )
  index = _open_or_build(
      singles, np.arange(len(singles), dtype=np.int32), settings, folder
  )
  return multi_vector.CandidateIndex(vecs, tie_ranks, score, singles, index)


def is_kept(folder: pathlib.Path, settings: scann_index.Settings) -> bool:
  """Whether the folder has an index of these settings.

  Raises:
    UserError: its manifest is damaged or of another format.
  """
  manifest = folders.read_manifest(folder, scann_files.FORMAT)
  return manifest is not None and (
      manifest.get('settings') == dataclasses.asdict(settings)
  )


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
  kind = ('approx' if isinstance(index, searched_parts.SearchedParts)
          else 'scann')
  logging.info('%s found %.2f%% of the exact top %d of %d queries',
               kind, 100 * recall, depth, queries)
  tuned = {} if not isinstance(index, scann_index.ScannIndex) else {
      'tuned': dataclasses.asdict(index.measured)
  }
  return {
      'kind': kind,
      **tuned,
      'recall': recall,
      'depth': depth,
      'queries': queries,
  }


def _open_or_build(
    vecs: vector_table.Rows,
    tie_ranks: np.ndarray,
    settings: scann_index.Settings,
    folder: pathlib.Path | None,
) -> scann_index.ScannIndex:
  if folder is None:
    return scann_index.build(vecs, tie_ranks, settings)
  with folders.only_one(folder):
    if not is_kept(folder, settings):
      logging.info('building a ScaNN index of %d vectors', len(vecs))
      scann_files.save(scann_index.build(vecs, tie_ranks, settings), folder)
  return scann_files.load(folder, vecs)
