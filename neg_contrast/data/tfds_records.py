"""Text records as a tensorflow-datasets ArrayRecord data set.

Written shard by shard: tensorflow-datasets' own writer holds and sorts a whole
split in memory.
"""

import contextlib
import itertools
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from array_record.python import array_record_module
from tensorflow_datasets.core import example_serializer

from neg_contrast import errors
from neg_contrast.artifacts import arrays, checksums, failures

_NAME, _SPLIT = 'text_records', 'rows'
_DESCRIPTIONS = ('dataset_info.json', 'features.json')
_LISTS = frozenset(('answers', 'context'))  # Fields that hold several texts.
_ROWS_PER_SHARD = 200_000  # An open writer holds some bytes of each row.


def write(
    folder: pathlib.Path, fields: Sequence[str], rows: Iterable[dict[str, Any]]
) -> None:
  """Writes rows of text fields as a data set, in the order they come.

  Args:
    folder: new, of the data set.
    fields: keys of a row; `answers` and `context` are lists of texts, the
      others are texts.
    rows: at least one; one at a time is in memory.
  """
  text = tfds.features.Text()
  features = tfds.features.FeaturesDict({
      name: tfds.features.Sequence(text) if name in _LISTS else text
      for name in fields
  })
  serializer = example_serializer.ExampleSerializer(
      features.get_serialized_info()
  )
  folder.mkdir(parents=True)
  rows = iter(rows)
  lengths: list[int] = []
  size = 0
  while first := list(itertools.islice(rows, 1)):
    part = itertools.chain(first, itertools.islice(rows, _ROWS_PER_SHARD - 1))
    count, written = _write_shard(
        folder / f'{len(lengths)}.partial',
        map(serializer.serialize_example, part),
    )
    lengths.append(count)
    size += written
  files = tfds.core.ShardedFileTemplate(
      data_dir=folder, dataset_name=_NAME, split=_SPLIT,
      filetype_suffix='array_record',
  )
  for number, path in enumerate(
      files.sharded_filepaths(num_shards=len(lengths))
  ):
    (folder / f'{number}.partial').rename(path)
  tfds.folder_dataset.write_metadata(
      data_dir=str(folder),
      features=features,
      split_infos=[tfds.core.SplitInfo(
          name=_SPLIT, shard_lengths=lengths, num_bytes=size,
          filename_template=files,
      )],
      check_data=False,
  )


def _write_shard(path: pathlib.Path, rows: Iterable[bytes]) -> tuple[int, int]:
  """Number and bytes of the rows written."""
  # A group of one record: the fastest random access.
  writer = array_record_module.ArrayRecordWriter(str(path), 'group_size:1')
  count = size = 0
  try:
    for count, row in enumerate(rows, 1):  # noqa: B007 - read after the loop
      size += len(row)
      with _write_failures(path):
        writer.write(row)
  finally:
    with _write_failures(path):
      writer.close()
  return count, size


@contextlib.contextmanager
def _write_failures(path: pathlib.Path) -> Iterator[None]:
  """The library has one exception for all that goes wrong."""
  try:
    yield
  except RuntimeError as e:
    raise failures.not_written(path, str(e).split(';')[0]) from e


class Rows(Sequence[dict[str, Any]]):
  """The rows of a finished data set; texts are bytes.

  A shard is verified as a whole before the first of its rows is read.
  """

  def __init__(self, folder: pathlib.Path):
    """Opens what `write` wrote; the artifact is the folder around it.

    Raises:
      UserError: a file is missing or damaged.
    """
    self._folder = folder
    for name in _DESCRIPTIONS:
      self._map(folder / name).check()
    with self._reading():
      builder = tfds.builder_from_directory(str(folder))
      split = builder.info.splits[_SPLIT]
      self._ends = np.cumsum(split.shard_lengths)
      self._shards = [self._map(pathlib.Path(path))
                      for path in split.filepaths]
      self._source = builder.as_data_source(_SPLIT)
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
        self._shards[shard].check()
        self._is_verified[shard] = True
    with self._reading():
      return list(self._source.__getitems__(rows))

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
