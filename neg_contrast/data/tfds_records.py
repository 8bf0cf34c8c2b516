"""Text records as a tensorflow-datasets ArrayRecord data set.

Written shard by shard: tensorflow-datasets' own writer holds and sorts a whole
split in memory.
"""

import contextlib
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from array_record.python import array_record_module
from tensorflow_datasets.core import decode
from tensorflow_datasets.proto import tf_example_pb2

from neg_contrast import errors
from neg_contrast.artifacts import arrays, checksums, failures, places

_NAME, _SPLIT = 'text_records', 'rows'
_DESCRIPTIONS = ('dataset_info.json', 'features.json')
_LISTS = frozenset(('answers', 'context'))  # Fields that hold several texts.
ROWS_PER_SHARD = 200_000
"""An open writer holds some bytes of each row."""


class Shard:
  """A file of rows, `ROWS_PER_SHARD` at most.

  Attributes:
    rows: how many are written.
    size: their bytes.
  """

  def __init__(self, path: pathlib.Path):
    """Makes the file."""
    self.rows = self.size = 0
    self._path = path
    # A group of one record: the fastest random access.
    self._writer = array_record_module.ArrayRecordWriter(
        str(path), 'group_size:1'
    )

  def write(self, row: bytes) -> None:
    """Writes the next row, as `tf_examples.serialized` gives it."""
    with _write_failures(self._path):
      self._writer.write(row)
    self.rows += 1
    self.size += len(row)

  def close(self) -> None:
    """Completes the file."""
    with _write_failures(self._path):
      self._writer.close()
    del self._writer  # It holds some 50 bytes of each row as long as it lives.


def place(folder: pathlib.Path, number: int) -> pathlib.Path:
  """Where a shard of a data set lies until `finish`."""
  return folder / f'{number}.partial'


def finish(
    folder: pathlib.Path,
    fields: Sequence[str],
    sizes: Sequence[tuple[int, int]],
) -> None:
  """Makes a data set of the shards that are in their places.

  Args:
    folder: of the data set.
    fields: of a row; `answers` and `context` are lists of texts, the others
      are texts.
    sizes: number and bytes of the rows of each shard.
  """
  files = tfds.core.ShardedFileTemplate(
      data_dir=folder, dataset_name=_NAME, split=_SPLIT,
      filetype_suffix='array_record',
  )
  for number, path in enumerate(
      files.sharded_filepaths(num_shards=len(sizes))
  ):
    place(folder, number).rename(path)
  lengths, in_bytes = zip(*sizes, strict=True)
  text = tfds.features.Text()
  tfds.folder_dataset.write_metadata(
      data_dir=str(folder),
      features=tfds.features.FeaturesDict({
          name: tfds.features.Sequence(text) if name in _LISTS else text
          for name in fields
      }),
      split_infos=[tfds.core.SplitInfo(
          name=_SPLIT, shard_lengths=list(lengths), num_bytes=sum(in_bytes),
          filename_template=files,
      )],
      check_data=False,
  )


class Writer:
  """Writes rows as a data set, in the order they come.

  Without a row there is no data set, which the library can't store.
  """

  def __init__(self, folder: pathlib.Path, fields: Sequence[str]):
    """Writes nothing yet; the folder is new, fields are those of `finish`."""
    self._folder, self._fields = folder, fields
    self._shards: list[Shard] = []  # The last one may be open.

  def __call__(self, rows: Sequence[bytes] | None) -> None:
    """Writes the next rows, as `tf_examples.serialized` gives them.

    Args:
      rows: None: there are no more; now the data set is whole.
    """
    if rows is not None:
      for row in rows:
        self._shard().write(row)
    elif self._shards:
      self._shards[-1].close()
      finish(self._folder, self._fields,
             [(shard.rows, shard.size) for shard in self._shards])

  def _shard(self) -> Shard:
    """The one that has room."""
    if not self._shards:
      self._folder.mkdir(parents=True, exist_ok=True)
    elif self._shards[-1].rows < ROWS_PER_SHARD:
      return self._shards[-1]
    else:
      self._shards[-1].close()
    self._shards.append(Shard(place(self._folder, len(self._shards))))
    return self._shards[-1]


@contextlib.contextmanager
def _write_failures(path: pathlib.Path) -> Iterator[None]:
  """The library has one exception for all that goes wrong."""
  try:
    yield
  except RuntimeError as e:
    raise failures.not_written(path, str(e).split(';')[0]) from e


class Rows(Sequence[dict[str, Any]]):
  """The rows of a finished data set; texts are bytes.

  A shard is fetched, if it lies in a bucket, and verified as a whole before the
  first of its rows is read.
  """

  def __init__(self, folder: pathlib.Path):
    """Opens what `write` wrote; the artifact is the folder around it.

    Raises:
      UserError: a file is missing or damaged.
    """
    self._folder = folder
    here = places.local_folder(folder, *_DESCRIPTIONS)
    for name in _DESCRIPTIONS:
      self._map(folder / name).check()
    with self._reading():
      builder = tfds.builder_from_directory(str(here))
      split = builder.info.splits[_SPLIT]
      self._ends = np.cumsum(split.shard_lengths)
      self._shards = [folder / os.path.basename(path)
                      for path in split.filepaths]
      self._fields = tuple(builder.info.features)
      # It opens a shard when its first row is read. To make examples of the
      # bytes would take it six times as long.
      self._source = builder.as_data_source(
          _SPLIT, deserialize_method=decode.DeserializeMethod.RAW_BYTES
      )
    self._is_verified = np.zeros(len(self._shards), bool)

  def __len__(self) -> int:
    return int(self._ends[-1])

  def __getitem__(self, row):
    """A row; raises as `take` does."""
    if isinstance(row, slice):
      return self.take(range(*row.indices(len(self))))
    return self.take([row])[0]

  def take(self, rows: Sequence[int]) -> list[dict[str, Any]]:
    """Some rows.

    Raises:
      IndexError: there is no such row.
      UserError: a shard is damaged.
    """
    rows = [int(row) for row in rows]
    for row in rows:
      if not 0 <= row < len(self):  # -1, which pads pools, is no row.
        raise IndexError(f'row {row} of {len(self)}')
    for shard in np.unique(np.searchsorted(self._ends, rows, 'right')):
      if not self._is_verified[shard]:
        self._map(self._shards[shard]).check()
        self._is_verified[shard] = True
    with self._reading():
      # Several are read by threads, which are started each time.
      read = (self._source.__getitems__(rows) if len(rows) > 1
              else map(self._source.__getitem__, rows))
      return list(map(self._example, read))

  def _example(self, data: bytes) -> dict[str, Any]:
    values = tf_example_pb2.Example.FromString(data).features.feature
    lists = ((name, values[name].bytes_list.value) for name in self._fields)
    return {name: list(value) if name in _LISTS else value[0]
            for name, value in lists}

  def _map(self, path: pathlib.Path) -> checksums.MappedFile:
    return arrays.map_file(path, self._folder.parent)

  @contextlib.contextmanager
  def _reading(self) -> Iterator[None]:
    """The libraries raise all sorts of things."""
    try:
      yield
    except errors.UserError:
      raise
    except Exception as e:
      raise checksums.damaged(
          self._folder, f'{type(e).__name__}: {e}', self._folder.parent
      ) from e
