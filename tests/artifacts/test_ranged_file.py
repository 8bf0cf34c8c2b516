"""Values of a file in a bucket, read by verified blocks."""

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import (
  buckets,
  checksums,
  folders,
  places,
  ranged_file,
)
from tests import bucket


@pytest.fixture
def files(tmp_path, monkeypatch):
  """A folder of a bucket with 700 values, in blocks of 64."""
  monkeypatch.setattr(checksums, 'BLOCK_BYTES', 128)
  monkeypatch.setattr(buckets, '_RANGE_BYTES', 128)
  values = np.random.default_rng(0).integers(0, 2**16, 700).astype(np.uint16)
  with bucket.running(tmp_path / 'cache'):
    folder = places.path(f'{bucket.BUCKET}/store')
    with folders.writing(
        folder, {}, format=folders.Format('a test', 1)) as scratch:
      (scratch / 'ids.bin').write_bytes(values.tobytes())
    places.on_disk(folder / 'ids.bin').unlink()
    yield folder / 'ids.bin', values


def test_values_are_those_of_the_file(files):
  path, values = files
  ranged = ranged_file.RangedValues(path, 'uint16')
  assert len(ranged) == 700
  for part in (slice(0, 0), slice(3, 9), slice(60, 330), slice(64, 128),
               slice(690, 700), np.array([699, 0, 63, 64, 0]),
               np.zeros(0, np.int64)):
    np.testing.assert_array_equal(ranged[part], values[part])
  for beyond in (700, 10**6):
    with pytest.raises(IndexError):
      _ = ranged[np.array([0, beyond])]
  assert not path.copy.exists()


def test_a_damaged_block_is_an_error_where_it_is_read(files):
  path, values = files
  wrong = values.copy()
  wrong[100] += 1
  buckets.put_bytes(wrong.tobytes(), str(path))
  ranged = ranged_file.RangedValues(path, 'uint16')
  np.testing.assert_array_equal(ranged[0:64], values[:64])
  with pytest.raises(errors.UserError, match='bytes 128 to 256 is another'):
    _ = ranged[60:70]


def test_few_blocks_are_kept(files, monkeypatch):
  path, values = files
  monkeypatch.setattr(ranged_file, '_KEPT_BLOCKS', 2)
  ranged = ranged_file.RangedValues(path, 'uint16')
  np.testing.assert_array_equal(ranged[0:700], values)
  assert ranged._block.cache_info().currsize == 2


def test_a_missing_file_is_an_error(files):
  path, _ = files
  path.unlink()
  with pytest.raises(errors.UserError, match='damaged'):
    ranged_file.RangedValues(path, 'uint16')
