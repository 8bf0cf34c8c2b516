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
  is_divided = True
  vectors: corpus_vectors.CorpusVectors
  search: search_settings.SearchSettings
  folder: pathlib.Path

  def describe(self) -> str:
    """Of what, and where."""
    data, how = self.vectors.data, 'ready to be searched'
    if data.contents('corpus') is not None:
      quantized = self.search.quantized(data.load().prepared)
      how = ('searched exactly' if quantized is None
             else f'and their {quantized.kind} index')
    return f'vectors of all passages, {how}, in {self.folder}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """Texts and vectors."""
    return {'texts': self.vectors.data, 'vectors': self.vectors}

  def settings(self) -> dict[str, Any]:
    """Which index it is."""
    prepared = self.vectors.data.load().prepared
    return {'index': self.search.index_identity(prepared)}

  @property
  def is_on_mesh(self) -> bool:
    """Whether processes search together, with the same queries."""
    return self.search.quantized(self.vectors.data.load().prepared) is None

  def is_made(self) -> bool:
    """Whether vectors and index lie on disk."""
    return self.identity is not None and self.load().is_made()

  def build(self) -> None:
    """Indexes the vectors with all processes, where search is not exact."""
    self.load().make()

  def read(self) -> retriever.Retriever:
    """Searches with vectors and index, which are made if they are not there."""
    return retriever.Retriever(
        self.search, self.vectors.data.load(), self.vectors.load(), self.folder
    )
