"""Several models that search as one, saved as a list of members and weights."""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.models import by_name as model_lib
from neg_contrast.models import kinds, loading
from neg_contrast.retrieval import embedder as embedder_lib
from neg_contrast.retrieval import fusion, text_encoder
from neg_contrast.retrieval import retriever as retriever_lib
from neg_contrast.settings import config as config_lib


@dataclasses.dataclass(frozen=True)
class Ensemble:
  """What `ensemble.json` of a workdir says.

  Attributes:
    members: their checkpoints, as the job was given them.
    fingerprints: of the members' weights and settings.
    weights: of the members' scores.
  """

  members: tuple[str, ...]
  fingerprints: tuple[str, ...]
  weights: tuple[float, ...]

  def save(self, workdir: pathlib.Path) -> None:
    """Makes the workdir a checkpoint."""
    folders.write_json(workdir / kinds.ENSEMBLE.file,
                         dataclasses.asdict(self))


def read(workdir: pathlib.Path) -> Ensemble:
  """What `Ensemble.save` wrote.

  Raises:
    UserError: the file is missing or is no ensemble.
  """
  path = workdir / kinds.ENSEMBLE.file
  saved = folders.read_json(path)
  try:
    made = Ensemble(**{
        field.name: tuple(saved[field.name])
        for field in dataclasses.fields(Ensemble)
    })
    config_lib.EnsembleConfig(members=made.members, weights=made.weights)
    if len(made.fingerprints) != len(made.members):
      raise ValueError('a fingerprint for each member is expected')
  except (KeyError, TypeError, ValueError, errors.UserError) as e:
    raise errors.UserError(
        f'{path}: not a whole ensemble ({e}); run the job that made it again'
    ) from None
  return made


class FusedVectors(retriever_lib.Vectors):
  """Embedding fusion: vectors of several models, concatenated.

  Weights are on the query side, so that passages and their index serve any.
  """

  def __init__(
      self, members: Sequence[retriever_lib.Vectors], weights: Sequence[float]
  ):
    """Encodes nothing yet.

    Args:
      members: vectors of each model, of the same dataset.
      weights: of the members' scores.
    """
    self.members, self._weights = tuple(members), tuple(weights)

  @property
  def identity(self) -> dict[str, Any]:
    """What the passages' vectors depend on."""
    return {'fused': [member.identity for member in self.members]}

  @property
  def search_identity(self) -> dict[str, Any]:
    """What its rankings depend on: the weights too."""
    return {**self.identity, 'weights': list(self._weights)}

  @property
  def dim(self) -> int:
    """Features of all members."""
    return sum(member.dim for member in self.members)

  def encode_queries(self, queries: Sequence[str]) -> np.ndarray:
    """`[queries, features] float32` of any queries."""
    return self._fuse([m.encode_queries(queries) for m in self.members])

  def encode_passages(
      self, passages: Sequence[text_encoder.PassageLike]
  ) -> np.ndarray:
    """`[passages, features] float32` of any passages."""
    return np.concatenate(
        [m.encode_passages(passages) for m in self.members], axis=1
    )

  def query_vecs(self, query_rows: np.ndarray) -> np.ndarray:
    """`[queries, features] float32` of queries of the dataset."""
    return self._fuse([m.query_vecs(query_rows) for m in self.members])

  @functools.cached_property
  def passage_vecs(self) -> fusion.ConcatenatedTable:
    """`[passages, features] float32` of the dataset: a view."""
    return fusion.ConcatenatedTable([m.passage_vecs for m in self.members])

  def is_made(self) -> bool:
    """Whether the vectors of all members lie on disk already."""
    return all(member.is_made() for member in self.members)

  def _fuse(self, query_vecs: list[np.ndarray]) -> np.ndarray:
    return fusion.fuse_queries(query_vecs, self._weights)


def load_vectors(
    config: config_lib.Config,
    dataset: dataset_lib.Dataset,
    checkpoint: str,
    folder: pathlib.Path | None,
) -> retriever_lib.Vectors:
  """The vectors of a dataset by any checkpoint: a model, or an ensemble.

  Args:
    config: settings of model and encoding.
    dataset: corpus and queries.
    checkpoint: a workdir, or a folder or name of others.
    folder: keeps the embeddings, but for members of an ensemble that have a
      workdir; None: memory keeps them.

  Raises:
    UserError: there is no such model, or a member changed since its weight was
      tuned.
  """
  if not model_lib.is_ensemble(checkpoint):
    return _vectors_of(config, dataset, folder,
                       model_lib.load_checkpoint(
                           checkpoint, config.model, config.seed
                       ))
  made = read(pathlib.Path(checkpoint))
  members = [load_member(config, dataset, name, folder)
             for name in made.members]
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


def load_member(
    config: config_lib.Config,
    dataset: dataset_lib.Dataset,
    checkpoint: str,
    folder: pathlib.Path | None,
) -> embedder_lib.Embedder:
  """The vectors of a dataset by a model as it comes; see `load_vectors`."""
  return _vectors_of(config, dataset, folder_of(checkpoint, folder),
                     model_lib.check_one_vector(
                         model_lib.load_as_it_comes(checkpoint, config.seed),
                         'a member of an ensemble has',
                     ))


def folder_of(
    member: str, folder: pathlib.Path | None
) -> pathlib.Path | None:
  """What keeps a member's vectors: its own workdir, which may have them."""
  if folder is not None and model_lib.is_workdir(member):
    return pathlib.Path(member) / retriever_lib.FOLDER
  return folder


def _vectors_of(
    config: config_lib.Config,
    dataset: dataset_lib.Dataset,
    folder: pathlib.Path | None,
    model: loading.Model,
) -> embedder_lib.Embedder:
  return embedder_lib.Embedder(
      config, dataset, embedder_lib.make_encoder(config, model), folder
  )
