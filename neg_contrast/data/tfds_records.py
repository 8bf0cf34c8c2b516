"""Text records as a tensorflow-datasets ArrayRecord data set."""

import contextlib
import io
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow_datasets as tfds

# The one field that holds several texts.
_LISTS = frozenset(('answers',))


class TextRecords(tfds.core.GeneratorBasedBuilder):
  """Rows of text fields, in the order they come."""

  VERSION = tfds.core.Version('1.0.0')

  def __init__(
      self,
      fields: Sequence[str] = ('id', 'text'),
      rows: Iterable[dict[str, Any]] = (),
      **kwargs,
  ):
    """Takes field names and rows; the rest is tfds's."""
    self._fields, self._rows = tuple(fields), rows
    super().__init__(file_format='array_record', **kwargs)

  def _info(self) -> tfds.core.DatasetInfo:
    text = tfds.features.Text()
    return tfds.core.DatasetInfo(
        builder=self,
        features=tfds.features.FeaturesDict({
            name: tfds.features.Sequence(text) if name in _LISTS else text
            for name in self._fields
        }),
        disable_shuffling=True,
    )

  def _split_generators(self, dl_manager):
    del dl_manager
    return {'rows': self._generate_examples()}

  def _generate_examples(self):
    yield from enumerate(self._rows)


def write(
    folder: pathlib.Path, fields: Sequence[str], rows: Iterable[dict[str, Any]]
) -> None:
  """Writes a data set below `folder`."""
  tfds.disable_progress_bar()
  with contextlib.redirect_stdout(io.StringIO()):  # It chats about downloads.
    builder = TextRecords(fields, rows, data_dir=str(folder))
    builder.download_and_prepare()


def read(folder: pathlib.Path) -> Any:
  """The rows below `folder`, by number; texts are bytes."""
  written = next(folder.glob('*/*/dataset_info.json')).parent
  builder = tfds.builder_from_directory(str(written))
  return builder.as_data_source('rows')
