"""Text records as a tensorflow-datasets ArrayRecord data set.

Written shard by shard: tensorflow-datasets' own writer holds and sorts a whole
split in memory.
"""

import itertools
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow_datasets as tfds
from array_record.python import array_record_module
from tensorflow_datasets.core import example_serializer

_NAME, _SPLIT = 'text_records', 'rows'
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
  for count, row in enumerate(rows, 1):  # noqa: B007 - read after the loop
    size += len(row)
    writer.write(row)
  writer.close()
  return count, size


def read(folder: pathlib.Path) -> Any:
  """The rows below `folder`, by number; texts are bytes."""
  return tfds.builder_from_directory(str(folder)).as_data_source(_SPLIT)
