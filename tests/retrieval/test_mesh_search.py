"""The one search against a full sort, with ties; any devices, any block."""

import hashlib
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neg_contrast import device_memory, hosts, scoring, sharding
from neg_contrast.retrieval import (
  corpus_blocks,
  device_best,
  device_scan,
  hits,
  host_scan,
  mesh_search,
  vector_table,
)
from neg_contrast.settings import config as config_lib
from tests.retrieval import test_embeddings

WAYS = [(False, 1), (True, 1), (True, 8)]  # On devices?, how many.


def make(passages=41, features=5, seed=0):
  rng = np.random.default_rng(seed)
  # Few distinct values make many ties.
  vecs = rng.integers(-1, 2, (passages, features)).astype(np.float32)
  queries = rng.integers(-1, 2, (7, features)).astype(np.float32)
  ids = [f'p{n}' for n in rng.permutation(passages)]
  return vecs, queries, hits.tie_ranks(ids), ids


def random_vecs(passages=900):
  """Vectors of passages, some of them copies, of queries, and tie ranks."""
  rng = np.random.default_rng(1)
  vecs = rng.standard_normal((passages, 48), np.float32)
  vecs[3::7] = vecs[3]
  queries = rng.standard_normal((5, 48), np.float32)
  return vecs, queries, rng.permutation(passages).astype(np.int32)


def digest(found):
  """Of all bytes of hits."""
  return hashlib.sha256(
      found.rows.tobytes() + found.scores.tobytes()).hexdigest()


def mesh(devices=1):
  return sharding.make_mesh(config_lib.MeshConfig(), jax.devices()[:devices])


@pytest.mark.parametrize(('on_devices', 'devices'), WAYS)
@pytest.mark.parametrize(('block_rows', 'depth'), [
    (3, 50), (16, 10), (100, 1)])
def test_equals_full_sort(on_devices, devices, block_rows, depth):
  vecs, queries, ranks, ids = make()
  index = mesh_search.MeshSearch(
      vecs, ranks, mesh(devices), block_rows, on_devices=on_devices
  )
  found = index.search(queries, depth)
  scores = queries @ vecs.T
  for q in range(len(queries)):
    # Score descending, then id bytes descending.
    rows = sorted(range(len(ids)), key=lambda r: ids[r].encode(), reverse=True)
    rows = sorted(rows, key=lambda r: -scores[q, r])[:depth]
    np.testing.assert_array_equal(found.rows[q][:len(rows)], rows)
    assert (found.rows[q][len(rows):] == -1).all()
    np.testing.assert_array_equal(found.scores[q][:len(rows)], scores[q, rows])
    alone = index.search(queries[q : q + 1], depth)  # By another product.
    np.testing.assert_array_equal(alone.rows[0], found.rows[q])
    np.testing.assert_array_equal(alone.scores[0], found.scores[q])


def test_one_and_eight_devices_give_the_same_bytes():
  vecs, queries, ranks = random_vecs()
  one, eight = (
      mesh_search.MeshSearch(vecs, ranks, mesh(devices), 64, on_devices=True)
      .search(queries, 9) for devices in (1, 8))
  assert digest(one) == digest(eight)


@pytest.mark.parametrize('count', [1, 5])
def test_threads_and_processes_give_the_same_bytes(monkeypatch, count):
  vecs, queries, ranks = random_vecs()
  queries = queries[:count]
  alone = mesh_search.MeshSearch(vecs, ranks, mesh(), 64).search(queries, 9)
  monkeypatch.setattr(hosts, 'usable_cores', lambda: 4)
  monkeypatch.setattr(host_scan, '_READ_BYTES', 5 * 64 * 48 * 4)
  many = mesh_search.MeshSearch(vecs, ranks, mesh(), 64).search(queries, 9)
  assert digest(alone) == digest(many)

  parts = []  # Of three processes, of which each has two devices.
  monkeypatch.setattr(
      host_scan.hosts, 'gather',
      lambda words: parts.append(words) or np.tile(words, (3, 1)))
  blocks = corpus_blocks.Blocks(900, 64, 6)
  for process in range(3):
    own = blocks.of_devices(range(2 * process, 2 * process + 2))
    host_scan.HostScan(
        vecs, ranks, blocks, own, scoring.DUAL, True).search(queries, 9)
  monkeypatch.setattr(host_scan.hosts, 'gather',
                      lambda words: np.concatenate(parts))
  found = host_scan.HostScan(
      vecs, ranks, blocks, range(6), scoring.DUAL, True).search(queries, 9)
  whole = host_scan.HostScan(
      vecs, ranks, blocks, range(blocks.count), scoring.DUAL)
  np.testing.assert_array_equal(found, whole.search(queries, 9))


@pytest.mark.parametrize(('on_devices', 'devices'), WAYS)
def test_a_table_is_searched_as_an_array(tmp_path, on_devices, devices):
  vecs, queries, ranks, _ = make(features=16)
  rng = np.random.default_rng(0)
  vecs[::2] += rng.standard_normal(vecs[::2].shape).astype(np.float32)
  for dtype in vector_table.DTYPES:
    made = test_embeddings.write(tmp_path / dtype, vecs, dtype, 16)
    same = vecs if dtype == 'float32' else made[:]
    found, expected = (
        mesh_search.MeshSearch(
            of, ranks, mesh(devices), 3, on_devices=on_devices
        ).search(queries, 20) for of in (made, same)
    )
    if dtype != 'bfloat16' or not on_devices:  # Its products are others.
      np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6,
                               atol=1e-6)


@pytest.mark.parametrize('on_devices', [False, True])
def test_several_vectors(on_devices):
  rng = np.random.default_rng(0)
  score = scoring.ScoreFunction(query_vectors=3, passage_vectors=2)
  vecs = rng.standard_normal((23, 8), np.float32)
  queries = rng.standard_normal((3, 12), np.float32)
  ranks = rng.permutation(23).astype(np.int32)
  found = mesh_search.MeshSearch(
      vecs, ranks, mesh(2), 5, score, on_devices=on_devices
  ).search(queries, 4)
  want = hits.top_k(np.asarray(score(
      jnp.array(queries), jnp.array(vecs))), ranks, 4)
  np.testing.assert_array_equal(found.rows, want.rows)
  np.testing.assert_allclose(found.scores, want.scores, rtol=1e-5)


class Watched:
  """A table that notes how many rows are read at once."""

  def __init__(self, vecs):
    """Of an array."""
    self._vecs, self.shape, self.nbytes = vecs, vecs.shape, vecs.nbytes
    self.sizes = []

  def __len__(self):
    return len(self._vecs)

  def __getitem__(self, rows):
    self.sizes.append(len(self._vecs[rows]))
    return self._vecs[rows]


@pytest.mark.parametrize('on_devices', [False, True])
def test_a_block_is_read_at_once_and_once_for_all_queries(on_devices):
  vecs, queries, ranks, _ = make()
  queries = np.tile(queries, (200, 1))  # More than are scored at once.
  table = Watched(vecs)
  mesh_search.MeshSearch(
      table, ranks, mesh(2), 4, on_devices=on_devices
  ).search(queries, 5)
  assert sum(table.sizes) == len(vecs) and max(table.sizes) == 4


def test_a_small_table_stays_on_the_devices():
  vecs, queries, ranks, _ = make()
  vecs = vecs.copy()
  index = mesh_search.MeshSearch(vecs, ranks, mesh(2), 4, on_devices=True)
  before = index.search(queries, 5)
  vecs[:] = 0
  np.testing.assert_array_equal(index.search(queries, 5).rows, before.rows)


@pytest.mark.parametrize('devices', [1, 8])
def test_a_large_table_passes_through(monkeypatch, devices):
  """In parts, once a search, the next one read while one is searched."""
  vecs, queries, ranks = random_vecs()
  search = lambda table: mesh_search.MeshSearch(
      table, ranks, mesh(devices), 32, on_devices=True)
  staying = digest(search(vecs).search(queries, 9))
  monkeypatch.setattr(device_memory, 'free', lambda: 0)
  monkeypatch.setattr(device_scan, '_PART_BYTES', 32 * 48 * 4)
  table = Watched(vecs)
  index = search(table)
  for times in (1, 2):
    assert digest(index.search(queries, 9)) == staying
    assert sum(table.sizes) == times * len(vecs)
  table.sizes.clear()
  parts = index._on_devices._parts()
  next(parts)
  end = time.monotonic() + 60
  while sum(table.sizes) <= 32 * devices and time.monotonic() < end:
    time.sleep(0.01)
  assert sum(table.sizes) > 32 * devices
  blocks = -(-len(vecs) // 32)
  assert 1 + sum(1 for _ in parts) == -(-blocks // devices)


def test_a_recall_below_one_misses_some():
  """Off TPUs `approx_max_k` misses nothing, and is not used."""
  vecs, queries, ranks = random_vecs()
  scan = mesh_search.MeshSearch(
      vecs, ranks, mesh(), 900, on_devices=True)._on_devices
  exact, found = (
      device_best.search(scan, device_best.Best(9, recall=recall), queries)
      for recall in (None, 0.5))
  assert np.isin(found, exact).mean() > 0.5
  assert (np.diff(found) <= 0).all()


@pytest.mark.parametrize('on_devices', [False, True])
def test_nan_is_refused(on_devices):
  vecs, queries, ranks, _ = make()
  vecs[3, 2] = np.nan
  index = mesh_search.MeshSearch(vecs, ranks, mesh(), 16, on_devices=on_devices)
  with pytest.raises(ValueError, match='passage vector is not finite'):
    index.search(queries, 5)
