"""Damage of files and of json values is noticed, block by block."""

import json
import math

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import arrays, checksums, folders

FORMAT = folders.Format('a test folder', 3)


@pytest.fixture
def folder(tmp_path, monkeypatch):
  monkeypatch.setattr(checksums, 'BLOCK_BYTES', 64)
  monkeypatch.setattr(arrays, '_MAX_HEADER_BYTES', 128)
  with folders.writing(tmp_path / 'a', {'n': 1}, format=FORMAT) as scratch:
    np.save(scratch / 'x.npy', np.arange(100, dtype=np.int32).reshape(50, 2))
    (scratch / 'below').mkdir()
    (scratch / 'below' / 'empty').touch()
  return tmp_path / 'a'


def flip(path, byte, bit=0):
  data = bytearray(path.read_bytes())
  data[byte] ^= 1 << bit
  path.write_bytes(data)


def test_what_is_whole_is_read(folder):
  assert folders.read_manifest(folder, FORMAT) == {
      'n': 1, 'kind': 'a test folder', 'format': 3}
  x = arrays.load_array(folder / 'x.npy', (50, None), np.int32)
  np.testing.assert_array_equal(x, np.arange(100).reshape(50, 2))
  assert not x.flags.writeable
  empty = arrays.map_file(folder / 'below' / 'empty', folder)
  assert len(empty.check()) == 0
  assert folders.file_names(folder) == {'x.npy', 'below/empty'}


@pytest.mark.parametrize('byte', [0, 70, 127, 128, 527])
def test_a_flipped_bit_names_file_and_remedy(folder, byte):
  flip(folder / 'x.npy', byte)
  with pytest.raises(errors.UserError) as e:
    arrays.load_array(folder / 'x.npy', (50, 2))
  assert f'{folder / "x.npy"}: damaged' in str(e.value)
  assert f'Remove {folder}; the same command makes it again' in str(e.value)


def test_only_the_blocks_that_are_read_are_verified(folder):
  flip(folder / 'x.npy', 128 + 8 * 20)  # Row 20 is in rows 16 to 23.
  x = arrays.map_array(folder / 'x.npy', (50, 2))
  np.testing.assert_array_equal(x.check(8, 16)[15], [30, 31])
  x.check(24)
  x.check(3, 3)
  for rows in ((0, None), (16, 17), (23, 24), (0, 17)):
    with pytest.raises(errors.UserError, match='bytes 256 to 320'):
      x.check(*rows)


@pytest.mark.parametrize('runs, is_damaged', [
    ([(0, 0), (250, 256), (320, 321)], False),
    ([(300, 300)], False),
    ([], False),
    ([(0, 10), (255, 257)], True),
    ([(319, 320)], True),
    ([(0, 528)], True),
])
def test_runs(folder, runs, is_damaged):
  flip(folder / 'x.npy', 256)
  file = arrays.map_file(folder / 'x.npy')
  begins, ends = np.array(runs, np.int64).reshape(-1, 2).T
  if not is_damaged:
    file.check_runs(begins, ends)
    return
  with pytest.raises(errors.UserError, match='bytes 256 to 320'):
    file.check_runs(begins, ends)


def test_a_block_is_hashed_once_in_a_process(folder, monkeypatch):
  count = []
  hashed = checksums._of_block
  monkeypatch.setattr(checksums, '_of_block',
                      lambda data: count.append(1) or hashed(data))
  for _ in range(2):
    arrays.load_array(folder / 'x.npy', (50, 2))
    assert len(count) == math.ceil(528 / 64)
  flip(folder / 'x.npy', 200)  # The file has changed since.
  with pytest.raises(errors.UserError, match='damaged'):
    arrays.load_array(folder / 'x.npy', (50, 2))


@pytest.mark.parametrize('change, message', [
    (lambda path: path.unlink(), 'No such file'),
    (lambda path: path.write_bytes(path.read_bytes()[:-1]), '527 bytes, not'),
    (lambda path: path.write_bytes(b''), '0 bytes, not 528'),
    (lambda path: (path.unlink(), path.mkdir()), 'damaged'),
])
def test_a_file_of_another_size(folder, change, message):
  change(folder / 'x.npy')
  with pytest.raises(errors.UserError, match=message):
    arrays.load_array(folder / 'x.npy', (50, 2))


def test_another_shape_or_type_than_the_reader_wants(folder):
  with pytest.raises(errors.UserError, match=r'holds \(50, 2\), not \(49, 2\)'):
    arrays.load_array(folder / 'x.npy', (49, 2))
  with pytest.raises(errors.UserError, match='holds int32, not float32'):
    arrays.load_array(folder / 'x.npy', (50, 2), np.float32)


@pytest.mark.parametrize('text, message', [
    (b'{"n": 2}', 'there is no checksum in it'),
    (b'{', 'manifest.json:1: not valid json'),
    (b'\xff', 'not UTF-8'),
    (b'[' * 100_000, 'not valid json'),
    (b'[1]', 'there is no checksum in it'),
    (b'1' * 5000, 'not valid json'),
    (b'', 'not valid json'),
])
def test_a_manifest_that_is_none(folder, text, message):
  (folder / 'manifest.json').write_bytes(text)
  for read in (lambda: folders.read_manifest(folder),
               lambda: arrays.load_array(folder / 'x.npy', (50, 2))):
    with pytest.raises(errors.UserError, match=message) as e:
      read()
    assert f'Remove {folder}' in str(e.value)


def test_a_flipped_bit_of_a_manifest_is_noticed_or_harmless(folder):
  path = folder / 'manifest.json'
  whole = path.read_bytes()
  before = json.loads(whole)
  noticed = 0
  for byte in range(len(whole)):
    flip(path, byte, byte % 7)
    try:
      assert folders.read_manifest(folder, FORMAT)['n'] == 1
      assert json.loads(path.read_text()) == before
    except errors.UserError:
      noticed += 1
    path.write_bytes(whole)
  assert noticed > 0.8 * len(whole)


def test_formats(folder):
  with pytest.raises(errors.UserError) as e:
    folders.read_manifest(folder, folders.Format('a test folder', 4))
  assert str(e.value) == (
      f'{folder}: holds a test folder of format 3; this revision reads a test '
      f'folder of format 4. Remove {folder}; the same command makes it again')
  with pytest.raises(errors.UserError, match='reads a pool of format 3'):
    folders.read_manifest(folder, folders.Format('a pool', 3))
  with folders.writing(folder, {}):
    pass
  with pytest.raises(errors.UserError, match='something of format none; this'):
    folders.read_manifest(folder, FORMAT)


def test_parts_have_checksums_of_their_own(tmp_path):
  folder = tmp_path / 'a'
  with folders.writing(folder, {}, folders.UNFINISHED, FORMAT):
    pass
  for n in range(2):
    np.save(folder / f'{n}.partial.npy', np.full(3, n))
    folders.add_file(folder / f'{n}.partial.npy', folder / f'{n}.npy')
  folders.finish(folder)
  load = lambda n: arrays.load_array(folder / f'{n}.npy', (3,))
  assert load(1).tolist() == [1, 1, 1]
  seals = [folder / f'{n}.npy{folders.SEAL}' for n in range(2)]
  seals[0].rename(tmp_path / 'x')
  with pytest.raises(errors.UserError, match='nothing holds its checksums'):
    load(0)
  seals[1].rename(seals[0])
  with pytest.raises(errors.UserError, match=r'damaged \(of 1.npy\)'):
    load(0)


def test_changes_of_a_manifest_keep_the_checksums(folder):
  folders.update_manifest(folder, {'n': 2})
  assert folders.read_manifest(folder, FORMAT)['n'] == 2
  arrays.load_array(folder / 'x.npy', (50, 2))


def test_a_seal_knows_the_order_of_no_keys():
  made = checksums.sealed({'b': [1.5, float('inf')], 'a': {2: 'é', 10: None}})
  read = json.loads(json.dumps(made, ensure_ascii=False))
  assert list(checksums.opened(dict(reversed(read.items())))) == ['a', 'b']
