"""Several models that search as one, saved as a list of members and weights."""

import contextlib
import dataclasses
import functools
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from neg_contrast import errors, scoring
from neg_contrast.artifacts import folders, places
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import kinds
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import encoding, fusion, text_encoder
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.retrieval import vectors as vectors_lib
from neg_contrast.settings import config as config_lib


@dataclasses.dataclass(frozen=True)
class Ensemble:
  """What `ensemble.json` of a workdir says.

  Members that are folders of a disk are kept there by their way from the
  workdir, too, so that they are found from any folder.

  Attributes:
    members: their checkpoints, as the job was given them; where that leads
      nowhere from the current folder, where they lie.
    fingerprints: of the members' weights and settings.
    weights: of the members' scores.
  """

  members: tuple[str, ...]
  fingerprints: tuple[str, ...]
  weights: tuple[float, ...]

  def save(self, workdir: pathlib.Path) -> None:
    """Makes the workdir a checkpoint."""
    folders.write_sealed(workdir / kinds.ENSEMBLE.file, {
        **dataclasses.asdict(self),
        'folders': [_way(member, workdir) for member in self.members],
    })


def _way(member: str, workdir: pathlib.Path) -> str | None:
  """The way from a workdir to a folder; None: one of both is on no disk."""
  folder = places.path(member)
  if places.is_remote(workdir) or places.is_remote(folder) or (
      not folder.is_dir()):
    return None
  return os.path.relpath(os.path.realpath(folder), os.path.realpath(workdir))


def _found(member: str, way: str | None, path: pathlib.Path) -> str:
  """A member's name; its place, where the name leads somewhere else from here.

  Args:
    member: as the job was given it.
    way: see `_way`.
    path: of `ensemble.json`.

  Returns:
    Where it was, if it is gone: whoever loads it says so.
  """
  if way is None:
    return member
  folder = os.path.normpath(
      os.path.join(os.path.realpath(path.parent), way)
  )
  named = places.path(member)
  is_same = named.is_dir() and (
      not os.path.isdir(folder) or os.path.samefile(named, folder))
  return member if is_same else folder


def read(workdir: pathlib.Path) -> Ensemble:
  """What `Ensemble.save` wrote.

  Raises:
    UserError: the file is missing, damaged or no ensemble.
  """
  path = workdir / kinds.ENSEMBLE.file
  saved = folders.read_sealed(path, path)
  try:
    made = Ensemble(**{
        field.name: tuple(saved[field.name])
        for field in dataclasses.fields(Ensemble)
    })
    config_lib.EnsembleConfig(members=made.members, weights=made.weights)
    if len(made.fingerprints) != len(made.members):
      raise ValueError('a fingerprint for each member is expected')
    ways = list(saved.get('folders', [None] * len(made.members)))
    if len(ways) != len(made.members) or not all(
        isinstance(way, str | None) for way in ways):
      raise ValueError('a folder or null for each member is expected')
  except (KeyError, TypeError, ValueError, errors.UserError) as e:
    raise errors.UserError(
        f'{path}: not a whole ensemble ({e}); run the job that made it again'
    ) from None
  return dataclasses.replace(made, members=tuple(
      _found(member, way, path)
      for member, way in zip(made.members, ways, strict=True)
  ))


class FusedEncoder(vectors_lib.Encoder):
  """Embedding fusion of any texts; see `FusedVectors`."""

  def __init__(
      self, members: Sequence[vectors_lib.Encoder], weights: Sequence[float]
  ):
    """Encodes nothing yet.

    Args:
      members: encoders, whose vectors are concatenated.
      weights: of the members' scores.
    """
    self._members, self._weights = tuple(members), tuple(weights)

  @property
  def dim(self) -> int:
    """Features of all members."""
    return sum(member.dim for member in self._members)

  @property
  def score(self) -> scoring.ScoreFunction:
    """The dot product."""
    return scoring.DUAL

  def encode_queries(
      self, queries: Sequence[vectors_lib.QueryLike]
  ) -> np.ndarray:
    """`[queries, features] float32` of any queries."""
    return fusion.fuse_queries(
        [member.encode_queries(queries) for member in self._members],
        self._weights,
    )

  def encode_passages(
      self, passages: Sequence[vectors_lib.PassageLike]
  ) -> np.ndarray:
    """`[passages, features] float32` of any passages."""
    return np.concatenate(
        [member.encode_passages(passages) for member in self._members], axis=1
    )


class FusedVectors(vectors_lib.Vectors):
  """Embedding fusion: vectors of several models, concatenated.

  Weights are on the query side, so that passages and their index serve any.
  """

  def __init__(
      self, members: Sequence[vectors_lib.Vectors], weights: Sequence[float]
  ):
    """Encodes nothing yet.

    Args:
      members: vectors of each model, of the same dataset.
      weights: of the members' scores.
    """
    self.members, self._weights = tuple(members), tuple(weights)
    self._encoder = FusedEncoder(
        [member.encoder for member in self.members], self._weights
    )

  @property
  def identity(self) -> dict[str, Any]:
    """What the passages' vectors depend on."""
    return {'fused': [member.identity for member in self.members]}

  @property
  def search_identity(self) -> dict[str, Any]:
    """What its rankings depend on: the weights too."""
    return {**self.identity, 'weights': list(self._weights)}

  @property
  def encoder(self) -> FusedEncoder:
    """Encodes texts that are not in the dataset."""
    return self._encoder

  def query_vecs(self, query_rows: np.ndarray) -> np.ndarray:
    """`[queries, features] float32` of queries of the dataset."""
    return fusion.fuse_queries(
        [member.query_vecs(query_rows) for member in self.members],
        self._weights,
    )

  @functools.cached_property
  def passage_vecs(self) -> fusion.ConcatenatedTable:
    """`[passages, features] float32` of the dataset: a view."""
    return fusion.ConcatenatedTable([m.passage_vecs for m in self.members])

  def is_made(self) -> bool:
    """Whether the vectors of all members lie on disk already."""
    return all(member.is_made() for member in self.members)


def load_vectors(
    settings: encoding.EncodingSettings,
    dataset: dataset_lib.Dataset,
    checkpoint: str,
    folder: pathlib.Path | None,
    seed: int = 0,
) -> vectors_lib.Vectors:
  """The vectors of a dataset by any checkpoint: a model, or an ensemble.

  Args:
    settings: of model and encoding.
    dataset: corpus and queries.
    checkpoint: a workdir, or a folder or name of others.
    folder: keeps the embeddings, but for members of an ensemble that have a
      workdir; None: memory keeps them.
    seed: of weights that a checkpoint lacks, such as those of a projection.

  Raises:
    UserError: there is no such model, or a member changed since its weight was
      tuned.
  """
  if not model_lib.is_ensemble(checkpoint):
    model = model_lib.load_checkpoint(checkpoint, settings.model, seed)
    return embedder_lib.Embedder(
        dataset, text_encoder.TextEncoder(model, settings), folder
    )
  made = read(places.path(checkpoint))
  members = []
  for name in made.members:
    with _naming(places.path(checkpoint)):
      members.append(load_member(settings, dataset, name, folder, seed))
  for name, member, wanted in zip(
      made.members, members, made.fingerprints, strict=True
  ):
    found = member.encoder.model.fingerprint
    if found != wanted:
      raise errors.UserError(
          f'{name}: this member of the ensemble {checkpoint} is another model '
          f'now (fingerprint {found[:12]}) than the one whose weight was tuned '
          f'({wanted[:12]}); run the job that made the ensemble again'
      )
  return FusedVectors(members, made.weights)


@contextlib.contextmanager
def _naming(workdir: pathlib.Path) -> Iterator[None]:
  """What fails inside, with a member, says which file names the member."""
  try:
    yield
  except errors.UserError as e:
    raise errors.UserError(
        f'{e} (a member that {workdir / kinds.ENSEMBLE.file} names; relative '
        'places are looked up from the current folder)'
    ) from None


def load_member(
    settings: encoding.EncodingSettings,
    dataset: dataset_lib.Dataset,
    checkpoint: str,
    folder: pathlib.Path | None,
    seed: int = 0,
) -> embedder_lib.Embedder:
  """The vectors of a dataset by a model as it comes; see `load_vectors`."""
  model = model_lib.check_one_vector(
      model_lib.load_as_it_comes(checkpoint, seed),
      'a member of an ensemble has',
  )
  return embedder_lib.Embedder(
      dataset, text_encoder.TextEncoder(model, settings),
      folder_of(checkpoint, folder),
  )


def folder_of(
    member: str, folder: pathlib.Path | None
) -> pathlib.Path | None:
  """What keeps a member's vectors: its own workdir, which may have them."""
  if folder is not None and model_lib.is_workdir(member):
    return places.path(member) / retriever_lib.FOLDER
  return folder
