"""Files of vectors for databases: read back, cut into shards, in bounded
memory."""

import csv
import json
import tracemalloc

import numpy as np
import pytest

from neg_contrast.retrieval import vector_files

IDS = ['a', 'é"', "b,'\n2", '4', '日本', 'f', 'g']
TITLES = ['T', '', 'x,"y"\nz', '\\', 'ü', '', '']
VECS = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)


def write(folder, kind, shard_rows, blocks=(3, 3, 1), titles=TITLES):
  """The files, written by blocks of some rows."""
  begin = 0
  with vector_files.VectorShards(
      folder, 'passages', vector_files.VECTOR_FILES[kind], VECS.shape,
      shard_rows, lambda rows: [IDS[row] for row in rows],
      titles and (lambda rows: [titles[row] for row in rows])) as shards:
    for size in blocks:
      shards[begin : begin + size] = VECS[begin : begin + size]
      begin += size
  return sorted(folder.iterdir())


@pytest.mark.parametrize('shard_rows', [1, 2, 3, 7, 99])
def test_parquet(tmp_path, shard_rows):
  parquet = pytest.importorskip('pyarrow.parquet')
  paths = write(tmp_path, 'parquet', shard_rows)
  count = -(-7 // shard_rows)
  assert [path.name for path in paths] == [
      f'passages-{n:05}-of-{count:05}.parquet' for n in range(count)]
  tables = [parquet.read_table(path) for path in paths]
  assert [len(table) for table in tables[:-1]] == [shard_rows] * (count - 1)
  rows = [row for table in tables for row in table.to_pylist()]
  assert [row['id'] for row in rows] == IDS
  assert [row['title'] for row in rows] == TITLES
  np.testing.assert_array_equal(
      np.array([row['vector'] for row in rows], np.float32), VECS)
  assert str(tables[0].schema.field('vector').type).startswith('list<')
  assert str(tables[0].schema.field('vector').type).endswith(': float>')


def test_parquet_without_titles(tmp_path):
  parquet = pytest.importorskip('pyarrow.parquet')
  path, = write(tmp_path, 'parquet', 99, titles=None)
  assert parquet.read_table(path).column_names == ['id', 'vector']


def test_json_is_what_vertex_reads(tmp_path):
  paths = write(tmp_path, 'json', 4)
  rows = [json.loads(line) for path in paths
          for line in path.read_text('utf-8').splitlines()]
  assert [set(row) for row in rows] == [{'id', 'embedding'}] * 7
  assert [row['id'] for row in rows] == IDS
  np.testing.assert_array_equal(
      np.array([row['embedding'] for row in rows], np.float32), VECS)


def test_csv_is_what_copy_reads(tmp_path):
  paths = write(tmp_path, 'csv', 4)
  rows = []
  for path in paths:
    with open(path, encoding='utf-8', newline='') as f:
      rows += csv.reader(f)
  assert [row[:2] for row in rows] == [
      list(pair) for pair in zip(IDS, TITLES, strict=True)]
  np.testing.assert_array_equal(
      np.array([json.loads(row[2]) for row in rows], np.float32), VECS)


def test_rows_in_another_order_are_refused(tmp_path):
  with pytest.raises(ValueError, match='do not follow row 3'):
    write(tmp_path, 'json', 4, blocks=(3, -1))
  with pytest.raises(ValueError, match='3 rows of 7 were written'):
    write(tmp_path, 'json', 4, blocks=(3,))


def test_a_failure_is_told_as_it_is(tmp_path):
  """Not that rows are missing then, which follows from it."""
  full = lambda rows: (_ for _ in ()).throw(OSError('disk full'))
  with pytest.raises(OSError, match='disk full'), vector_files.VectorShards(
      tmp_path, 'passages', vector_files.VECTOR_FILES['json'], (7, 5), 4,
      full) as shards:
    shards[0:3] = VECS[:3]


def test_memory_does_not_grow_with_the_rows(tmp_path):
  pytest.importorskip('pyarrow')
  rows, block = 12_000, np.zeros((500, 64), np.float32)
  peaks = []
  for count in (rows // 4, rows):
    tracemalloc.start()
    with vector_files.VectorShards(
        tmp_path, f'p{count}', vector_files.VECTOR_FILES['csv'], (count, 64),
        2000, lambda some: [str(row) for row in some], None) as shards:
      for begin in range(0, count, 500):
        shards[begin : begin + 500] = block
    peaks.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
  assert peaks[1] < 1.5 * peaks[0] < rows * 64 * 4
