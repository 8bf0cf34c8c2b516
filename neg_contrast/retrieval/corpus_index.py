"""A corpus that is ready to be searched, as an artifact."""

import dataclasses
import pathlib
from typing import Any

from neg_contrast.artifacts import artifact
from neg_contrast.retrieval import corpus_vectors, retriever, search_settings


@dataclasses.dataclass(frozen=True)
class CorpusIndex(artifact.Artifact):
  """The vectors of a corpus and their index, if any; loads as a `Retriever`.

  Attributes:
    vectors: of the corpus.
    search: how they are searched.
    folder: keeps indexes of any number of models.
  """

  kind = 'index'
  name = 'index'
  is_large = True
  vectors: corpus_vectors.CorpusVectors
  search: search_settings.SearchSettings
  folder: pathlib.Path

  def describe(self) -> str:
    """Of what, and where."""
    return f'vectors of all passages, ready to be searched, in {self.folder}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """Texts and vectors."""
    return {'texts': self.vectors.data, 'vectors': self.vectors}

  def settings(self) -> dict[str, Any]:
    """Which index it is."""
    prepared = self.vectors.data.load().prepared
    return {'index': self.search.index_identity(prepared)}

  def is_made(self) -> bool:
    """Whether vectors and index lie on disk."""
    return self.identity is not None and self.load().is_made()

  def build(self) -> None:
    """Indexes the vectors, where search is not exact."""
    self.load().make()

  def read(self) -> retriever.Retriever:
    """Searches with vectors and index, which are made if they are not there."""
    return retriever.Retriever(
        self.search, self.vectors.data.load(), self.vectors.load(), self.folder
    )
