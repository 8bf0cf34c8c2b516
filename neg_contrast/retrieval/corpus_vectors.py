"""The vectors of a corpus as artifacts: by one model, or by an ensemble."""

import abc
import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

from neg_contrast import beams, errors
from neg_contrast.artifacts import artifact, places
from neg_contrast.models import by_name, dual_encoder, given
from neg_contrast.retrieval import (
  embedder,
  encoding,
  first_features,
  fused_vectors,
  text_encoder,
)
from neg_contrast.retrieval import vectors as vectors_lib
from neg_contrast.settings import config as config_lib


@dataclasses.dataclass(frozen=True)
class CorpusVectors(artifact.Artifact):
  """Vectors of all passages; loads as `Vectors`.

  Attributes:
    data: corpus and queries.
    encoding: how models encode.
    folder: keeps the embeddings of any number of models.
  """

  kind = 'embeddings'
  name = 'embeddings'
  is_large = True
  is_divided = True
  data: artifact.Artifact
  encoding: encoding.EncodingSettings
  folder: pathlib.Path

  @property
  def identity(self) -> dict[str, Any] | None:
    """What a search depends on; tables have what the vectors depend on."""
    if any(need.contents('corpus') is None for need in self.needs().values()):
      return None
    return self.load().search_identity

  def is_made(self) -> bool:
    """Whether all vectors lie on disk."""
    return self.identity is not None and self.load().is_made()

  def build(self) -> None:
    """Encodes the corpus."""
    _ = self.load().passage_vecs

  @abc.abstractmethod
  def read(self) -> vectors_lib.Vectors:
    """The vectors, of queries too."""


@dataclasses.dataclass(frozen=True)
class Embeddings(CorpusVectors):
  """The vectors of a corpus by one model.

  Attributes:
    model: loads as a dual encoder.
  """

  model: artifact.Artifact

  def describe(self) -> str:
    """Whose, and where."""
    return f'vectors of all passages by {_of(self.model)} in {self.folder}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """Texts and model."""
    return {'texts': self.data, 'model': self.model}

  def build(self) -> None:
    """Encodes the corpus; Beam's workers make shards, where it is chosen."""
    if beams.is_chosen() and (missing := self.load().begin().missing()):
      beams.run('encoding passages', [beams.Inferred(self.maker, missing)])
    super().build()

  def maker(self) -> Callable[[int], None]:
    """Loads the model; makes a shard of the table, unless it is there."""
    return self._embedder(is_for_part=True).begin().make_unless_made

  def read(self) -> embedder.Embedder:
    """The vectors, of queries too."""
    return self._embedder(is_for_part=False)

  def _embedder(self, is_for_part: bool) -> embedder.Embedder:
    return embedder.Embedder(
        self.data.load(),
        text_encoder.TextEncoder(self.model.load(), self.encoding), self.folder,
        is_for_part=is_for_part,
    )


@dataclasses.dataclass(frozen=True)
class FirstFeatures(artifact.InMemory):
  """The first features of a model's vectors; loads as `Vectors`.

  Attributes:
    vectors: the whole ones.
    dim: features kept.
  """

  kind = 'first features of embeddings'
  name = 'first features'
  vectors: Embeddings
  dim: int

  def describe(self) -> str:
    """How many."""
    return f'first {self.dim} features of {self.vectors.describe()}'

  def needs(self) -> dict[str, artifact.Artifact]:
    """The whole vectors."""
    return {'vectors': self.vectors}

  def settings(self) -> dict[str, Any]:
    """The width."""
    return {'dim': self.dim}

  def read(self) -> first_features.FirstFeatures:
    """A view.

    Raises:
      UserError: vectors are no wider, or a text has several.
    """
    vectors = self.vectors.load()
    self.check(vectors.encoder.model.spec)
    return first_features.FirstFeatures(vectors, self.dim)

  def check(self, spec: dual_encoder.EncoderSpec) -> None:
    """Refuses a model whose vectors have no such first features.

    Raises:
      UserError: they are no wider, or a text has several.
    """
    key = f'{errors.key("evaluation.dims")}={self.dim}'
    if not spec.score.is_dot:
      raise errors.UserError(
          f'{key}: is of one vector of each text, and the model has several; '
          'leave it out'
      )
    if self.dim >= spec.dim:
      raise errors.UserError(
          f'{key}: the vectors have {spec.dim} features; name fewer'
      )


@dataclasses.dataclass(frozen=True)
class EnsembleEmbeddings(CorpusVectors):
  """The vectors of a corpus by an ensemble, fused.

  Attributes:
    checkpoint: the workdir of `job=ensemble`.
    seed: of weights that members lack.
  """

  checkpoint: str
  seed: int

  def describe(self) -> str:
    """Whose, and where."""
    return (f'vectors of all passages by the members of {self.checkpoint} in '
            f'{self.folder}')

  def needs(self) -> dict[str, artifact.Artifact]:
    """Texts; the members are given."""
    members = fused_vectors.read(places.path(self.checkpoint)).members
    return {'texts': self.data, **{
        f'member-{number}': given.Checkpoint(member, self.seed)
        for number, member in enumerate(members)
    }}

  def read(self) -> vectors_lib.Vectors:
    """The vectors, of queries too."""
    return fused_vectors.load_vectors(
        self.encoding, self.data.load(), self.checkpoint, self.folder,
        self.seed,
    )


def by_checkpoint(
    data: artifact.Artifact,
    settings: encoding.EncodingSettings,
    folder: pathlib.Path,
    checkpoint: str,
    seed: int,
    config: config_lib.ModelConfig | None = None,
) -> CorpusVectors:
  """The vectors of a corpus by any checkpoint: a model, or an ensemble.

  A workdir's own table is taken where it has that of this corpus: its
  evaluation has encoded it.

  Args:
    data: corpus and queries.
    settings: how models encode.
    folder: keeps embeddings that are made.
    checkpoint: its name.
    seed: of weights that it lacks.
    config: settings of the model; None: it brings them all.
  """
  if by_name.is_ensemble(checkpoint):
    return EnsembleEmbeddings(data, settings, folder, checkpoint, seed)
  model = given.Checkpoint(checkpoint, seed, config)
  own = fused_vectors.folder_of(checkpoint, folder)
  if own is not None and own != folder:
    made = Embeddings(data, settings, own, model)
    if made.is_made():
      return made
  return Embeddings(data, settings, folder, model)


def of_member(
    data: artifact.Artifact,
    settings: encoding.EncodingSettings,
    folder: pathlib.Path,
    checkpoint: str,
    seed: int,
) -> Embeddings:
  """The vectors by a member; its own workdir, which may have them, keeps them.

  Args:
    data: corpus and queries.
    settings: how models encode.
    folder: keeps the vectors of members without a workdir.
    checkpoint: name of the member.
    seed: of weights that it lacks.
  """
  own = fused_vectors.folder_of(checkpoint, folder)
  assert own is not None
  return Embeddings(data, settings, own, given.Checkpoint(checkpoint, seed))


def _of(model: artifact.Artifact) -> str:
  return str(getattr(model, 'whose', model.name))
