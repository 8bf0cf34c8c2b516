"""The members of an ensemble and their embedding fusion, to be searched."""

import dataclasses
import pathlib

from neg_contrast.artifacts import artifact
from neg_contrast.models import by_name
from neg_contrast.retrieval import (
  corpus_vectors,
  embedder,
  fused_vectors,
  search_settings,
)
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import vectors as vectors_lib

EMBEDDING = 'fusion_embedding'  # System.


@dataclasses.dataclass(frozen=True)
class DenseMembers:
  """Models that search one corpus, each alone and all together.

  Attributes:
    vectors: by each of them.
    search: how their vectors are searched, and how deep.
    folder: keeps the index of all together.
  """

  vectors: tuple[corpus_vectors.CorpusVectors, ...]
  search: search_settings.SearchSettings
  folder: pathlib.Path

  def __len__(self) -> int:
    return len(self.vectors)

  def needs(self) -> dict[str, artifact.Artifact]:
    """The vectors of each, for what is made of them."""
    return {f'member-{number}': one for number, one in enumerate(self.vectors)}

  def fused(self, weights: tuple[float, ...]) -> vectors_lib.Vectors:
    """The vectors of all, with weights of their scores.

    Raises:
      UserError: texts have several vectors for a member.
    """
    if len(self) == 1:
      return self._load(0)
    return fused_vectors.FusedVectors(
        [self._load(number) for number in range(len(self))], weights
    )

  def retriever(self, number: int) -> retriever_lib.Retriever:
    """Searches with a member."""
    return self._make_retriever(self._load(number), self.vectors[number].folder)

  def fused_retriever(
      self, weights: tuple[float, ...]
  ) -> retriever_lib.Retriever:
    """Searches with all of them: with the index of the only one, if it is."""
    if len(self) == 1:
      return self.retriever(0)
    return self._make_retriever(self.fused(weights), self.folder)

  def _load(self, number: int) -> vectors_lib.Vectors:
    made = self.vectors[number].load()
    if isinstance(made, embedder.Embedder):
      by_name.check_one_vector(made.encoder.model,
                               'a member of an ensemble has')
    return made

  def _make_retriever(
      self, of: vectors_lib.Vectors, folder: pathlib.Path
  ) -> retriever_lib.Retriever:
    dataset = self.vectors[0].data.load()
    return retriever_lib.Retriever(self.search, dataset, of, folder)
