"""What a room needs to search a corpus by models that are named by settings."""

from typing import Any, Protocol, runtime_checkable

import numpy as np

from neg_contrast.models import loading
from neg_contrast.retrieval import retriever as retriever_lib


@runtime_checkable
class ModelSearch(Protocol):
  """Reads models and searches one dataset by them, to one depth."""

  def load(self, checkpoint: str) -> loading.Model:
    """The model of a checkpoint, with all its own settings.

    Raises:
      UserError: there is no such model.
    """
    ...

  def embeddings_identity(self, model: loading.Model) -> dict[str, Any]:
    """What the embeddings of the corpus depend on."""
    ...

  def index_identity(self) -> dict[str, Any] | str:
    """Settings of the ScaNN index, or `exact`."""
    ...

  def retriever(
      self, model: loading.Model, among: np.ndarray | None = None
  ) -> retriever_lib.Retriever:
    """A search by a model.

    Args:
      model: encodes queries and passages.
      among: `[rows] int32`, the passages that are searched; None: all.
    """
    ...
