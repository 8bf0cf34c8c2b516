"""Exact search against a full sort, with ties; any mesh, any block."""

import jax
import numpy as np
import pytest

from neg_contrast import sharding
from neg_contrast.retrieval import exact, hits, vector_table
from neg_contrast.settings import config as config_lib
from tests.retrieval import test_embeddings


def make(passages=41, features=5, seed=0):
  rng = np.random.default_rng(seed)
  # Few distinct values make many ties.
  vecs = rng.integers(-1, 2, (passages, features)).astype(np.float32)
  queries = rng.integers(-1, 2, (7, features)).astype(np.float32)
  ids = [f'p{n}' for n in rng.permutation(passages)]
  return vecs, queries, hits.tie_ranks(ids), ids


@pytest.mark.parametrize('devices', [1, 8])
@pytest.mark.parametrize('block_rows', [3, 16, 100])
@pytest.mark.parametrize('depth', [1, 10, 50])
def test_equals_full_sort(devices, block_rows, depth):
  vecs, queries, ranks, ids = make()
  mesh = sharding.make_mesh(config_lib.MeshConfig(), jax.devices()[:devices])
  found = exact.ExactIndex(vecs, ranks, mesh, block_rows).search(queries, depth)
  scores = queries @ vecs.T
  for q in range(len(queries)):
    # Score descending, then id bytes descending.
    rows = sorted(range(len(ids)), key=lambda r: ids[r].encode(), reverse=True)
    rows = sorted(rows, key=lambda r: -scores[q, r])[:depth]
    np.testing.assert_array_equal(found.rows[q][:len(rows)], rows)
    assert (found.rows[q][len(rows):] == -1).all()
    np.testing.assert_array_equal(found.scores[q][:len(rows)], scores[q, rows])


@pytest.mark.parametrize('shard_rows', [7, 16, 100])
@pytest.mark.parametrize('devices', [1, 8])
def test_a_table_is_searched_as_an_array(tmp_path, devices, shard_rows):
  vecs, queries, ranks, _ = make(features=16)
  rng = np.random.default_rng(0)
  vecs[::2] += rng.standard_normal(vecs[::2].shape).astype(np.float32)
  mesh = sharding.make_mesh(config_lib.MeshConfig(), jax.devices()[:devices])
  for dtype in vector_table.DTYPES:
    made = test_embeddings.write(tmp_path / dtype, vecs, dtype, shard_rows)
    same = vecs if dtype == 'float32' else made[:]
    found, expected = (
        exact.ExactIndex(of, ranks, mesh, 3).search(queries, 20)
        for of in (made, same)
    )
    np.testing.assert_array_equal(found.rows, expected.rows)
    assert found.scores.tobytes() == expected.scores.tobytes()


def test_no_more_than_a_block_is_read(tmp_path):
  vecs, queries, ranks, _ = make()
  sizes = []

  class Watched:
    shape, nbytes = vecs.shape, vecs.nbytes

    def __len__(self):
      return len(vecs)

    def __getitem__(self, rows):
      sizes.append(len(vecs[rows]))
      return vecs[rows]

  mesh = sharding.make_mesh(config_lib.MeshConfig(), jax.devices()[:2])
  exact.ExactIndex(Watched(), ranks, mesh, 4).search(queries, 5)
  assert sum(sizes) == len(vecs) and max(sizes) == 4


def test_nan_is_refused():
  vecs, queries, ranks, _ = make()
  vecs[3, 2] = np.nan
  mesh = sharding.make_mesh(config_lib.MeshConfig())
  with pytest.raises(ValueError, match='passage vector is not finite'):
    exact.ExactIndex(vecs, ranks, mesh, 16).search(queries, 5)
