"""The vectors of a corpus and its queries as `.npy` files, for others."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from neg_contrast import progress
from neg_contrast.artifacts import arrays, folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.models import exported
from neg_contrast.retrieval import embeddings, fused_vectors, text_encoder

_ROWS_AT_ONCE = 65536


@dataclasses.dataclass(frozen=True)
class Source:
  """What makes vectors of the texts of a dataset.

  Attributes:
    name: of the model.
    dim: features of a vector.
    encode: fills `out`, `[texts, features] float32`, with those of a role.
  """

  name: str
  dim: int
  encode: Callable[[str, np.ndarray], None]


def write(
    folder: pathlib.Path,
    identity: dict[str, Any],
    prepared: prepared_lib.Prepared,
    source: Source,
) -> None:
  """Writes `passages.npy` and `queries.npy`, and the ids of their rows.

  Args:
    folder: to be written, whole or not at all.
    identity: what the vectors depend on.
    prepared: gives the ids.
    source: makes the vectors.

  Raises:
    UserError: the disk is full, or the like.
  """
  with exported.writing(folder, {
      'identity': identity,
      'source': source.name,
      'environment': folders.environment(),
  }) as scratch:
    for role, name, ids in (('passage', 'passages', prepared.passage_ids),
                            ('query', 'queries', prepared.query_ids)):
      if not len(ids):
        continue
      embeddings.write_ids(scratch / f'{name}.ids.txt', ids)
      embeddings.write_vectors(
          scratch / f'{name}.npy', (len(ids), source.dim),
          functools.partial(source.encode, role),
      )


def describe(folder: pathlib.Path) -> str:
  """What `write` left, for the terminal."""
  vecs = arrays.map_array(folder / 'passages.npy', (None, None)).values
  return (f'{folder}: {len(vecs)} passages of {vecs.shape[1]} features; their '
          'ids are in passages.ids.txt, a line each')


def of_encoder(
    encoder: text_encoder.TextEncoder, dataset: dataset_lib.Dataset
) -> Source:
  """Vectors of the texts of a dataset by one model."""

  def encode(role: str, out: np.ndarray) -> None:
    encoder.encode(
        role, dataset.tokenize(encoder.model, role), out=out,
        on_progress=progress.Ticker(f'encoding {role} texts', len(out)),
    )

  return Source(encoder.model.name, encoder.dim, encode)


def of_ensemble(vectors: fused_vectors.FusedVectors, name: str) -> Source:
  """Vectors of an ensemble, with its weights on the queries."""

  def copy(role: str, out: np.ndarray) -> None:
    for begin in range(0, len(out), _ROWS_AT_ONCE):
      at = slice(begin, min(begin + _ROWS_AT_ONCE, len(out)))
      out[at] = (
          vectors.passage_vecs[at] if role == 'passage' else
          vectors.query_vecs(np.arange(at.start, at.stop))
      )

  return Source(name, vectors.encoder.dim, copy)
