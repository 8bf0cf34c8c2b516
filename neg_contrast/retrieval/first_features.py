"""The first features of vectors, which a Matryoshka loss makes usable alone."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from neg_contrast import scoring
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import vector_table
from neg_contrast.retrieval import vectors as vectors_lib

_LEAST_NORM = 1e-12


class NarrowTable:
  """The first features of a table; a view, nothing is copied.

  Attributes:
    shape: (passages, features kept).
  """

  def __init__(self, table: vector_table.Rows, dim: int, normalize: bool):
    """Keeps a reference.

    Args:
      table: `[passages, features] float32`.
      dim: features kept.
      normalize: to length 1.
    """
    self._table, self._dim, self._normalize = table, dim, normalize
    self.shape = (len(table), dim)

  def __len__(self) -> int:
    return self.shape[0]

  @property
  def nbytes(self) -> int:
    """Bytes of the features kept."""
    return 4 * self.shape[0] * self.shape[1]

  def __getitem__(
      self, rows: slice | int | Int[np.ndarray, '*some']
  ) -> Float[np.ndarray, '*some features']:
    """Vectors of some passages."""
    return narrow(self._table[rows], self._dim, self._normalize)


def narrow(
    vecs: Float[np.ndarray, '*some features'], dim: int, normalize: bool
) -> Float[np.ndarray, '*some dim']:
  """The first features of vectors, of length 1 if wanted."""
  vecs = np.asarray(vecs[..., :dim], np.float32)
  if not normalize:
    return np.ascontiguousarray(vecs)
  norms = np.linalg.norm(vecs, axis=-1, keepdims=True)
  return vecs / np.maximum(norms, np.float32(_LEAST_NORM))


class NarrowEncoder(vectors_lib.Encoder):
  """The first features of what a model makes of any texts."""

  def __init__(self, encoder: vectors_lib.Encoder, dim: int, normalize: bool):
    """Encodes nothing yet."""
    self._encoder = encoder
    self._narrow = functools.partial(narrow, dim=dim, normalize=normalize)
    self._dim = dim

  @property
  def dim(self) -> int:
    """Features kept."""
    return self._dim

  @property
  def score(self) -> scoring.ScoreFunction:
    """The dot product."""
    return self._encoder.score

  def encode_queries(
      self, queries: Sequence[vectors_lib.QueryLike]
  ) -> np.ndarray:
    """`[queries, features] float32` of any queries."""
    return self._narrow(self._encoder.encode_queries(queries))

  def encode_passages(
      self, passages: Sequence[vectors_lib.PassageLike]
  ) -> np.ndarray:
    """`[passages, features] float32` of any passages."""
    return self._narrow(self._encoder.encode_passages(passages))


class FirstFeatures(vectors_lib.Vectors):
  """The first features of a dual encoder's vectors of a dataset."""

  def __init__(self, vectors: embedder_lib.Embedder, dim: int):
    """Encodes nothing yet; vectors are normalized where the model's are."""
    self._vectors, self._dim = vectors, dim
    self._normalize = vectors.encoder.model.spec.normalize
    self._encoder = NarrowEncoder(vectors.encoder, dim, self._normalize)

  @property
  def identity(self) -> dict[str, Any]:
    """That of the whole vectors, and the width."""
    return {**self._vectors.identity, 'first_features': self._dim}

  @property
  def encoder(self) -> NarrowEncoder:
    """Encodes texts that are not in the dataset."""
    return self._encoder

  def query_vecs(self, query_rows: np.ndarray) -> np.ndarray:
    """`[queries, features] float32` of queries of the dataset."""
    return narrow(self._vectors.query_vecs(query_rows), self._dim,
                  self._normalize)

  @functools.cached_property
  def passage_vecs(self) -> NarrowTable:
    """`[passages, features] float32` of the dataset: a view."""
    return NarrowTable(self._vectors.passage_vecs, self._dim, self._normalize)

  def is_made(self) -> bool:
    """Whether the whole vectors lie on disk already."""
    return self._vectors.is_made()
