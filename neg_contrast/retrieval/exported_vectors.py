"""The vectors of a corpus and its queries as `.npy` files, for others."""

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from neg_contrast import progress
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.models import exported
from neg_contrast.retrieval import embeddings, fused_vectors, text_encoder

_ROWS_AT_ONCE = 65536

Encode = Callable[[str, np.ndarray], None]
"""Fills `out`, `[texts, features] float32`, with the vectors of a role."""


def write(
    folder: pathlib.Path,
    manifest: dict[str, Any],
    prepared: prepared_lib.Prepared,
    dim: int,
    encode: Encode,
) -> None:
  """Writes `passages.npy` and `queries.npy`, and the ids of their rows.

  Args:
    folder: to be written, whole or not at all.
    manifest: of the folder.
    prepared: gives the ids.
    dim: features of a vector.
    encode: makes the vectors.

  Raises:
    UserError: the disk is full, or the like.
  """
  with exported.writing(folder, manifest) as scratch:
    for role, name, ids in (('passage', 'passages', prepared.passage_ids),
                            ('query', 'queries', prepared.query_ids)):
      if not len(ids):
        continue
      embeddings.write_ids(scratch / f'{name}.ids.txt', ids)
      embeddings.write_vectors(scratch / f'{name}.npy', (len(ids), dim),
                               functools.partial(encode, role))


def of_encoder(
    encoder: text_encoder.TextEncoder, dataset: dataset_lib.Dataset
) -> Encode:
  """Vectors of the texts of a dataset by one model."""

  def encode(role: str, out: np.ndarray) -> None:
    encoder.encode(
        role, dataset.tokenize(encoder.model, role), out=out,
        on_progress=progress.Ticker(f'encoding {role} texts', len(out)),
    )

  return encode


def of_ensemble(vectors: fused_vectors.FusedVectors) -> Encode:
  """Vectors of an ensemble, with its weights on the queries."""

  def copy(role: str, out: np.ndarray) -> None:
    for begin in range(0, len(out), _ROWS_AT_ONCE):
      at = slice(begin, min(begin + _ROWS_AT_ONCE, len(out)))
      out[at] = (
          vectors.passage_vecs[at] if role == 'passage' else
          vectors.query_vecs(np.arange(at.start, at.stop))
      )

  return copy
