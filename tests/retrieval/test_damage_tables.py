"""Every damaged file of a table or an index is an error, before a number."""

import pathlib
import shutil

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.retrieval import (
  embeddings,
  fused_vectors,
  quantized_files,
  vector_table,
)
from tests.retrieval import test_embeddings

TIMES = 24  # Damages of a kind, of each kind of file.
KINDS = ['flip', 'truncate', 'swap']


def damage(kind: str, path: pathlib.Path, rng, others: list) -> None:
  """Changes a file in place; `others` are files to swap it with."""
  data = bytearray(path.read_bytes())
  if kind == 'flip':
    data[rng.integers(len(data))] ^= 1 << rng.integers(8)
  elif kind == 'truncate':
    del data[rng.integers(len(data)):]
  else:
    differing = [other for other in others if other.read_bytes() != data]
    other = differing[rng.integers(len(differing))]
    data, kept = bytearray(other.read_bytes()), data
    other.write_bytes(kept)
  path.write_bytes(data)


def check(folder, kind, read, copies):
  """Damages a copy many times; reading it is an error that names a file."""
  rng = np.random.default_rng(KINDS.index(kind))
  files = sorted(path.relative_to(folder) for path in folder.rglob('*')
                 if path.is_file() and '.locks' not in path.parts)
  for number in range(TIMES):
    copy = shutil.copytree(folder, copies / f'{kind}-{number}' / 'it')
    path = copy / files[number % len(files)]
    damage(kind, path, rng, [copy / name for name in files])
    with pytest.raises(errors.UserError) as e:
      read(copy)
    said = str(e.value)
    assert str(copy) in said and 'Remove ' in said, (path, said)
    assert 'the same command makes it again' in said and '\n' not in said


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('dtype', vector_table.DTYPES)
def test_tables(tmp_path, kind, dtype):
  vecs = test_embeddings.make_vecs()
  test_embeddings.write(tmp_path / 'whole', vecs, dtype, 20)

  def read(folder):
    made = embeddings.open_table(
        folder, {**test_embeddings.IDENTITY, 'dtype': dtype})
    for start in range(0, len(made), 7):  # As search does.
      _ = made[start : start + 7]

  read(tmp_path / 'whole')
  check(tmp_path / 'whole', kind, read, tmp_path)


@pytest.mark.parametrize('key', [np.arange(53)[::-1], [45, 3], slice(0, 53, 5)])
def test_every_way_to_read_notices(tmp_path, key):
  vecs = test_embeddings.make_vecs()
  for shard, row in ((0, 2), (2, 4)):
    folder = tmp_path / str(shard)
    made = test_embeddings.write(folder, vecs, shard_rows=20)
    path = folder / f'passages-{shard:05d}.npy'
    data = bytearray(path.read_bytes())
    data[128 + 24 * row] ^= 4
    path.write_bytes(data)
    with pytest.raises(errors.UserError, match='damaged'):
      _ = made[key]
    with pytest.raises(errors.UserError, match='damaged'):  # Again.
      _ = made[key]


def test_what_is_not_read_is_not_verified(tmp_path):
  vecs = np.zeros((3000, 1024), np.float32)  # Three blocks of 4 MiB.
  made = test_embeddings.write(tmp_path / 'a', vecs, shard_rows=3000)
  path = tmp_path / 'a' / 'passages-00000.npy'
  with open(path, 'r+b') as f:
    f.seek(9 << 20)
    f.write(b'x')
  np.testing.assert_array_equal(made[:900], vecs[:900])
  np.testing.assert_array_equal(made[[5, 1000]], vecs[:2])
  for key in (slice(2000, 2600), [5, 2304]):
    with pytest.raises(errors.UserError, match='of bytes 8,388,608 to 12,288,'):
      _ = made[key]


@pytest.mark.parametrize('kind', KINDS)
def test_quantized_indexes(corpus, saved, tmp_path, kind):
  vecs, queries, _ = corpus

  def read(folder):
    quantized_files.load(folder, vecs).search(queries[:1], 1)

  check(saved, kind, read, tmp_path)


@pytest.mark.parametrize('kind', KINDS)
def test_ensembles(tmp_path, kind):
  for name, weight in (('a', 0.25), ('b', 0.5)):
    (tmp_path / 'two' / name).mkdir(parents=True)
    fused_vectors.Ensemble(
        ('x', 'y'), ('1', '2'), (weight, 1 - weight)
    ).save(tmp_path / 'two' / name)
  whole = tmp_path / 'two' / 'a'
  assert fused_vectors.read(whole).weights == (0.25, 0.75)
  if kind == 'swap':  # One whole ensemble for another is no damage.
    return
  check(whole, kind, fused_vectors.read, tmp_path)
