"""Tables on disk: what a dtype costs, reading, damage."""

import errno
import os

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.retrieval import hits, vector_table
from tests.retrieval.test_embeddings import make_vecs, write


def test_float32_is_exact(tmp_path):
  vecs = make_vecs()
  made = write(tmp_path / 'a', vecs)
  np.testing.assert_array_equal(made[:], vecs)
  assert made.nbytes == vecs.nbytes
  assert sorted(path.name for path in (tmp_path / 'a').iterdir()) == [
      'manifest.json', *(f'passages-{n:05d}.npy{end}' for n in range(7)
                         for end in ('', '.checksums.json'))]
  np.testing.assert_array_equal(
      np.load(tmp_path / 'a' / 'passages-00006.npy'), vecs[48:])


def test_bfloat16_rounds_to_nearest_even(tmp_path):
  vecs = make_vecs(200)
  vecs[0] = [1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 1 + 2**-8 + 2**-20, 0, -0.0]
  made = write(tmp_path / 'a', vecs, 'bfloat16')
  np.testing.assert_array_equal(
      made[0], np.float32([1, 1 + 2**-6, -1, 1 + 2**-7, 0, 0]))
  bits = vecs.view(np.uint32)
  rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
  np.testing.assert_array_equal(
      np.load(tmp_path / 'a' / 'passages-00001.npy'), rounded[8:16])
  assert (np.abs(made[:] - vecs) <= 2.0**-8 * np.abs(vecs)).all()
  assert made.nbytes == vecs.nbytes / 2


def test_int8_keeps_its_bound(tmp_path):
  vecs = make_vecs(200)
  made = write(tmp_path / 'a', vecs, 'int8')
  largest = np.abs(vecs).max(axis=1, keepdims=True)
  error = np.abs(made[:] - vecs)
  assert (error <= largest / 254 * (1 + 1e-4)).all()
  assert (error > largest / 254 * 0.9).any()  # It is no looser than it must.
  np.testing.assert_allclose(np.abs(made[:]).max(axis=1), largest[:, 0], 1e-6)
  scales = np.load(tmp_path / 'a' / 'passages-00001.scales.npy')
  np.testing.assert_array_equal(scales, largest[8:16, 0] / np.float32(127))
  assert made.nbytes == 200 * (6 + 4)


@pytest.mark.parametrize('dtype', vector_table.DTYPES)
def test_scores_keep_their_bound(tmp_path, dtype):
  vecs = make_vecs(200)
  made = write(tmp_path / 'a', vecs, dtype)[:].astype(np.float64)
  query = np.random.default_rng(1).standard_normal(6)
  bound = {
      'float32': np.zeros(200),
      'bfloat16': 2.0**-8 * np.abs(vecs * query).sum(axis=1),
      'int8': np.abs(vecs).max(axis=1) / 254 * np.abs(query).sum() * (1 + 1e-4),
  }[dtype]
  assert (np.abs((made - vecs) @ query) <= bound).all()


@pytest.mark.parametrize('dtype', vector_table.DTYPES)
@pytest.mark.parametrize('shard_rows', [1, 8, 53, 1000])
def test_reads_as_an_array(tmp_path, dtype, shard_rows):
  made = write(tmp_path / 'a', make_vecs(), dtype, shard_rows)
  whole = np.stack([made[row] for row in range(53)])
  assert made.shape == whole.shape and made.ndim == 2 and len(made) == 53
  assert made.dtype == whole.dtype == np.float32
  rng = np.random.default_rng(0)
  for key in (
      0, 52, -1, -53, np.int64(7), slice(None), slice(3, 5), slice(7, 9),
      slice(6, 40), slice(8, 16), slice(-9, None), slice(40, 200), slice(9, 9),
      slice(9, 3), slice(None, None, 5), slice(50, 2, -3), [5, 3, 3, -1],
      np.arange(0), rng.integers(-53, 53, 30), rng.integers(0, 53, (4, 3, 2)),
      rng.permutation(53).astype(np.int32), np.uint8([1, 52]),
  ):
    found = made[key]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, whole[key], str(key))
  for key in (53, -54, [0, 53], np.ones(53, bool), [0.5]):
    with pytest.raises(IndexError):
      _ = made[key]


def test_a_slice_within_a_shard_is_a_view(tmp_path):
  made = write(tmp_path / 'a', make_vecs())
  assert np.shares_memory(made[9:12], made[8:16])
  assert not made[9:12].flags.writeable
  assert type(made[9:12]) is np.ndarray


def test_no_passages(tmp_path):
  made = write(tmp_path / 'a', np.zeros((0, 6), np.float32))
  assert made[:].shape == made[np.arange(0)].shape == (0, 6)


def damage(path, how):
  if how == 'missing':
    path.unlink()
  elif how == 'short':
    path.write_bytes(path.read_bytes()[:-1])
  elif how == 'empty':
    path.write_bytes(b'')
  elif how == 'fewer rows':
    np.save(path, np.load(path)[:-1])
  else:
    np.save(path, np.load(path).astype(np.float64))


@pytest.mark.parametrize('how', ['missing', 'short', 'empty', 'fewer rows',
                                 'other dtype'])
@pytest.mark.parametrize('file', ['passages-00002.npy',
                                  'passages-00002.scales.npy'])
def test_damaged_shards(tmp_path, how, file):
  vecs = make_vecs()
  write(tmp_path / 'a', vecs, 'int8')
  damage(tmp_path / 'a' / file, how)
  made = write(tmp_path / 'a', vecs, 'int8')
  assert made[0:16].shape == (16, 6)  # Others can be read.
  for key in (16, slice(10, 20), np.array([3, 23])):
    with pytest.raises(errors.UserError) as e:
      _ = made[key]
    assert f'{tmp_path / "a" / file}: damaged' in str(e.value)
    assert f'Remove {tmp_path / "a"}; the same' in str(e.value)


def test_too_many_open_files_are_no_damage(tmp_path, monkeypatch):
  made = write(tmp_path / 'a', make_vecs())

  def load(*_, **__):
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

  monkeypatch.setattr(np, 'memmap', load)
  with pytest.raises(errors.UserError, match='ulimit -n') as e:
    _ = made[0]
  assert 'Remove' not in str(e.value)


@pytest.mark.parametrize('dtype, least', [('bfloat16', 0.99), ('int8', 0.97)])
def test_recall_of_smaller_dtypes(tmp_path, dtype, least):
  """Scores of unit vectors of 64 features have deviation 1/8, so that near the
  20th of 4,000 there are 460 a unit. An error of deviation e makes 0.56 · 460 e
  of the 20 change places with others. int8: e = s / √12 with s about
  0.3 / 127, hence 0.7e-3, 0.2 of 20. bfloat16: e about 2^-8 / √12 · 1/8, a
  fifth of that."""
  rng = np.random.default_rng(0)
  draw = lambda count: rng.standard_normal((count, 64), np.float32)
  vecs, queries = draw(4000), draw(100)
  vecs /= np.linalg.norm(vecs, axis=1, keepdims=True)
  queries /= np.linalg.norm(queries, axis=1, keepdims=True)
  made = write(tmp_path / 'a', vecs, dtype, 1000)
  ranks = np.arange(4000, dtype=np.int32)
  best, found = (hits.top_k(queries @ of.T, ranks, 20).rows
                 for of in (vecs, made[:]))
  recall = np.mean([np.isin(*pair).mean()
                    for pair in zip(best, found, strict=True)])
  assert least <= recall < 1
