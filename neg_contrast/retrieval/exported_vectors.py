"""The vectors of a corpus and its queries as files, for others."""

import abc
import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from neg_contrast import errors, progress
from neg_contrast.artifacts import arrays, artifact, folders
from neg_contrast.data import prepared as prepared_lib
from neg_contrast.data import records
from neg_contrast.models import exported, given
from neg_contrast.retrieval import (
  corpus_vectors,
  embedder,
  encoding,
  text_encoder,
  vector_files,
)
from neg_contrast.retrieval.stores import vector_store
from neg_contrast.settings import config as config_lib

FOLDER = 'embeddings'  # Of a workdir.
_ROWS_AT_ONCE = 65536


@dataclasses.dataclass(frozen=True)
class ExportedVectors(artifact.Named):
  """The folder `embeddings` of a workdir.

  It holds `passages.npy` and `queries.npy`, and the ids of their rows; or
  files of both that databases import, see `vector_files`.

  Attributes:
    data: corpus and queries.
    workdir: of the folder.
    files: which files.
  """

  kind = 'exported vectors'
  format = 2
  name = 'embeddings'
  data: artifact.Artifact
  workdir: pathlib.Path
  files: config_lib.ExportConfig

  @property
  def folder(self) -> pathlib.Path:
    """Its place in the workdir."""
    return self.workdir / FOLDER

  def describe(self) -> str:
    """Where it lies."""
    kind = self._kind
    what = '.npy and ids' if kind is None else f'{kind.suffix} files'
    return f'{what} in {self.folder}'

  def settings(self) -> dict[str, Any]:
    """Which files they are."""
    if self._kind is None:
      return {}
    return {'files': self.files.vectors, 'shard_rows': self.files.shard_rows}

  def build(self) -> None:
    """Writes the folder, whole or not at all."""
    with exported.while_writing(self.folder):
      super().build()

  def write(self, scratch: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Writes vectors, and the ids of their rows.

    Raises:
      UserError: an id can't be written.
    """
    prepared, source = self.data.load().prepared, self._source()
    manifest |= {'source': source.name, 'environment': folders.environment()}
    for role, name, ids in (('passage', 'passages', prepared.passage_ids),
                            ('query', 'queries', prepared.query_ids)):
      if not len(ids):
        continue
      manifest |= {name: len(ids), 'features': source.dim}
      if self._kind is not None:
        with self._shards(
            scratch, role, ids, source.dim, prepared.passages
        ) as shards:
          source.fill(role, shards)
        continue
      write_ids(scratch / f'{name}.ids.txt', ids)
      vecs = arrays.create_array(
          scratch / f'{name}.npy', np.float32, (len(ids), source.dim)
      )
      source.fill(role, vecs)
      vecs.flush()

  def shards(self) -> vector_store.ExportedShards:
    """The files of the passages, for a database."""
    made = folders.read_manifest(self.folder, self._format)
    assert made is not None and self._kind is not None
    return vector_store.ExportedShards(
        self.folder, folders.sha256_json(made['identity']), made['passages'],
        made['features'],
    )

  def usage(self) -> str:
    """Says what is there, for the terminal.

    Raises:
      UserError: a file is damaged.
    """
    arrays.check_folder(self.folder)  # Before a database has it, too.
    if self._kind is not None:
      made = self.shards()
      return (f'{self.folder}: {made.rows} passages of {made.dim} features, in '
              f'{self._kind.suffix} files for {self._kind.use}')
    path = self.folder / 'passages.npy'
    vecs = arrays.map_array(path, (None, None)).values
    return (f'{self.folder}: {len(vecs)} passages of {vecs.shape[1]} features; '
            'their ids are in passages.ids.txt, a line each')

  @property
  def _kind(self) -> vector_files.VectorFile | None:
    """None: `.npy`."""
    return vector_files.VECTOR_FILES.get(self.files.vectors)

  def _shards(
      self,
      folder: pathlib.Path,
      role: str,
      ids: Sequence[bytes],
      dim: int,
      passages: prepared_lib.Records[records.Passage],
  ) -> vector_files.VectorShards:
    assert self._kind is not None
    is_passage = role == 'passage'
    return vector_files.VectorShards(
        folder, 'passages' if is_passage else 'queries', self._kind,
        (len(ids), dim), self.files.shard_rows,
        lambda rows: [ids[row].decode() for row in rows],
        (lambda rows: [one.title for one in passages.some(rows)])
        if is_passage else None,
    )

  @abc.abstractmethod
  def _source(self) -> 'Source':
    """What makes the vectors."""


@dataclasses.dataclass(frozen=True)
class Source:
  """What makes vectors of the texts of a dataset.

  Attributes:
    name: of the model.
    dim: features of a vector.
    fill: fills `out`, `[texts, features] float32`, with those of a role, by
      slices that follow each other.
  """

  name: str
  dim: int
  fill: Callable[[str, Any], None]


@dataclasses.dataclass(frozen=True)
class ModelVectors(ExportedVectors):
  """The vectors by one model.

  Attributes:
    model: encodes passages and queries.
    encoding: how it does.
  """

  model: given.Checkpoint
  encoding: encoding.EncodingSettings

  def needs(self) -> dict[str, artifact.Artifact]:
    """Texts and model."""
    return {'texts': self.data, 'model': self.model}

  def settings(self) -> dict[str, Any]:
    """How vectors are computed."""
    return {**super().settings(), **embedder.vectors_identity(
        self.encoding, self.data.load(), self.model.load()
    )}

  def _source(self) -> Source:
    model = self.model.load()
    encoder = text_encoder.TextEncoder(model, self.encoding)
    return Source(model.name, encoder.dim,
                  functools.partial(self._encode, encoder))

  def _encode(
      self, encoder: text_encoder.TextEncoder, role: str, out: Any
  ) -> None:
    encoder.encode(
        role, self.data.load().tokenize(encoder.model, role), out=out,
        on_progress=progress.Ticker(f'encoding {role} texts', len(out)),
    )


@dataclasses.dataclass(frozen=True)
class EnsembleVectors(ExportedVectors):
  """The vectors by an ensemble, with its weights on the queries.

  Attributes:
    vectors: of the ensemble.
  """

  vectors: corpus_vectors.EnsembleEmbeddings

  def needs(self) -> dict[str, artifact.Artifact]:
    """Texts and vectors."""
    return {'texts': self.data, 'vectors': self.vectors}

  def _source(self) -> Source:
    return Source(self.vectors.checkpoint, self.vectors.load().encoder.dim,
                  self._copy)

  def _copy(self, role: str, out: Any) -> None:
    vectors = self.vectors.load()
    for begin in range(0, len(out), _ROWS_AT_ONCE):
      at = slice(begin, min(begin + _ROWS_AT_ONCE, len(out)))
      out[at] = (
          vectors.passage_vecs[at] if role == 'passage' else
          vectors.query_vecs(np.arange(at.start, at.stop))
      )


def write_ids(path: pathlib.Path, ids: Iterable[bytes]) -> None:
  """Writes ids, one a line, UTF-8.

  Raises:
    UserError: one holds a line break.
  """
  with open(path, 'wb') as f:
    for name in ids:
      if b'\n' in name or b'\r' in name:
        raise errors.UserError(
            f'{path}: id {name.decode()!r} holds a line break, which a file of '
            'one id a line can not express; rename it'
        )
      f.write(name + b'\n')
