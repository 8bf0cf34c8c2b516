"""Vectors in the files that vector databases import, written block by block.

A new kind of file is a function here and a line in `VECTOR_FILES`.
"""

import csv
import dataclasses
import json
import pathlib
from collections.abc import Callable, Generator, Iterator, Sequence

import numpy as np

from neg_contrast import errors

Rows = tuple[Sequence[str], Sequence[str] | None, np.ndarray]
"""Ids, titles if there are any, and `[rows, features] float32`."""
Writer = Generator[None, Rows, None]
"""Takes rows until it is closed."""


@dataclasses.dataclass(frozen=True)
class VectorFile:
  """A kind of file.

  Attributes:
    suffix: of its name.
    write: opens a file, of so many features, with titles or without.
    use: what reads it, for the terminal.
  """

  suffix: str
  write: Callable[[pathlib.Path, int, bool], Writer]
  use: str


def _parquet(path: pathlib.Path, dim: int, has_titles: bool) -> Writer:
  """Columns id, title and vector: a list of float32, as Milvus imports it."""
  del dim
  pyarrow, parquet = import_parquet()
  titles = [('title', pyarrow.string())] if has_titles else []
  schema = pyarrow.schema([
      ('id', pyarrow.string()), *titles,
      ('vector', pyarrow.list_(pyarrow.float32())),
  ])
  with parquet.ParquetWriter(path, schema) as writer:
    while True:
      ids, titles_now, vecs = yield
      ends = np.arange(len(vecs) + 1, dtype=np.int32) * vecs.shape[1]
      columns = [
          pyarrow.array(ids, pyarrow.string()),
          *([pyarrow.array(titles_now, pyarrow.string())]
            if has_titles else []),
          pyarrow.ListArray.from_arrays(ends, np.ravel(vecs)),
      ]
      writer.write_table(pyarrow.table(columns, schema=schema))


def _json(path: pathlib.Path, dim: int, has_titles: bool) -> Writer:
  """Lines of id and embedding, as Vertex AI Vector Search reads them."""
  del dim, has_titles
  with open(path, 'w', encoding='utf-8') as f:
    while True:
      ids, _, vecs = yield
      f.writelines(
          f'{{"id": {json.dumps(name)}, "embedding": [{numbers}]}}\n'
          for name, numbers in zip(ids, _numbers(vecs), strict=True)
      )


def _csv(path: pathlib.Path, dim: int, has_titles: bool) -> Writer:
  """Rows of id, title and [vector], as COPY of PostgreSQL reads them."""
  del dim
  with open(path, 'w', encoding='utf-8', newline='') as f:
    writer = csv.writer(f, lineterminator='\n')
    while True:
      ids, titles, vecs = yield
      vectors = [f'[{numbers}]' for numbers in _numbers(vecs)]
      writer.writerows(
          zip(ids, titles or (), vectors, strict=True) if has_titles else
          zip(ids, vectors, strict=True)
      )


VECTOR_FILES = {
    'parquet': VectorFile('.parquet', _parquet, 'Milvus, LanceDB, BigQuery'),
    'json': VectorFile('.json', _json, 'Vertex AI Vector Search'),
    'csv': VectorFile('.csv', _csv, 'COPY of AlloyDB and PostgreSQL'),
}
"""Name -> kind of file."""


class VectorShards:
  """Takes adjacent vectors in order, and writes files of so many rows.

  It stands in for the array that an encoder writes to; what is not on disk is
  one block of the encoder. As a context manager it ends the last file, and
  checks that no row is missing unless the block raises.
  """

  def __init__(
      self,
      folder: pathlib.Path,
      name: str,
      kind: VectorFile,
      shape: tuple[int, int],
      shard_rows: int,
      ids: Callable[[range], Sequence[str]],
      titles: Callable[[range], Sequence[str]] | None = None,
  ):
    """Opens nothing yet.

    Args:
      folder: of the files, `NAME-00000-of-00003.SUFFIX`.
      name: of the vectors, such as `passages`.
      kind: of the files.
      shape: (rows, features) of all vectors.
      shard_rows: rows of a file.
      ids: of adjacent rows.
      titles: of adjacent rows; None: they have none.
    """
    self.shape = shape
    self._folder, self._name, self._kind = folder, name, kind
    self._shard_rows, self._ids, self._titles = shard_rows, ids, titles
    self._done = 0
    self._writer: Writer | None = None

  def __len__(self) -> int:
    return self.shape[0]

  def __setitem__(self, rows: slice, vecs: np.ndarray) -> None:
    """Writes the next rows.

    Raises:
      ValueError: they are not the next.
    """
    if rows.start != self._done or rows.stop != self._done + len(vecs):
      raise ValueError(f'rows {rows} do not follow row {self._done}')
    vecs = np.asarray(vecs, np.float32)
    begin = 0
    while begin < len(vecs):
      shard, within = divmod(self._done, self._shard_rows)
      if not within:
        self._open(shard)
      end = min(len(vecs), begin + self._shard_rows - within)
      span = range(self._done, self._done + end - begin)
      assert self._writer is not None
      self._writer.send((
          self._ids(span),
          None if self._titles is None else self._titles(span),
          vecs[begin:end],
      ))
      self._done, begin = span.stop, end

  def __enter__(self) -> 'VectorShards':
    return self

  def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
    self._end_file()
    if kind is None and self._done != len(self):
      raise ValueError(f'{self._done} rows of {len(self)} were written')

  def _end_file(self) -> None:
    if self._writer is not None:
      self._writer.close()
      self._writer = None

  def _open(self, shard: int) -> None:
    self._end_file()
    shards = -(-len(self) // self._shard_rows)
    writer = self._kind.write(
        self._folder / f'{self._name}-{shard:05}-of-{shards:05}'
        f'{self._kind.suffix}', self.shape[1], self._titles is not None,
    )
    next(writer)
    self._writer = writer


def import_parquet():
  """The modules pyarrow and pyarrow.parquet.

  Raises:
    UserError: they are not installed.
  """
  try:
    import pyarrow
    from pyarrow import parquet
  except ImportError:
    raise errors.UserError(
        f'{errors.key("export.vectors")}="parquet": needs pyarrow; pip install '
        '-r launch/requirements-parquet.txt'
    ) from None
  return pyarrow, parquet


def _numbers(vecs: np.ndarray) -> Iterator[str]:
  """Numbers of each row, with as few digits as give the same float32 again.
  """
  for row in vecs:
    yield ','.join(row.astype(str).tolist())
