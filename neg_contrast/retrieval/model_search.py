"""Searches of one corpus by models that settings name."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from neg_contrast.data import dataset as dataset_lib
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import loading
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import encoding as encoding_lib
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import search_settings, text_encoder


@dataclasses.dataclass(frozen=True)
class ModelSearch:
  """Reads models and searches one corpus by them, to one depth.

  Attributes:
    dataset: makes the data.
    encoding: how models compute.
    search: how passages are searched, and how deep, which an index is tuned
      for.
    seed: of weights that a checkpoint lacks.
    folder: keeps embeddings and indexes, for all that search with one model.
  """

  dataset: Callable[[], dataset_lib.Dataset]
  encoding: encoding_lib.EncodingSettings
  search: search_settings.SearchSettings
  seed: int
  folder: pathlib.Path

  def load(self, checkpoint: str) -> loading.Model:
    """The model of a checkpoint, with all its own settings.

    Raises:
      UserError: there is no such model.
    """
    return model_lib.load_as_it_comes(checkpoint, self.seed)

  def embeddings_identity(self, model: loading.Model) -> dict[str, Any]:
    """What the embeddings of the corpus depend on."""
    return embedder_lib.identity(self.encoding, self.dataset(), model)

  def index_identity(self) -> dict[str, Any] | str:
    """Settings of the ScaNN index, or `exact`."""
    return self.search.index_identity(self.dataset().prepared)

  def retriever(
      self, model: loading.Model, among: np.ndarray | None = None
  ) -> retriever_lib.Retriever:
    """A search by a model.

    Args:
      model: encodes queries and passages.
      among: `[rows] int32`, the passages that are searched; None: all.
    """
    encoder = text_encoder.TextEncoder(model, self.encoding)
    return retriever_lib.Retriever(
        self.search, self.dataset(),
        embedder_lib.Embedder(self.dataset(), encoder, self.folder),
        self.folder, among=among,
    )
