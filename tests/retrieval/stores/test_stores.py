"""Vector databases find what our exact search finds in the same vectors."""

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.retrieval import hits, stores, vector_files
from neg_contrast.retrieval.stores import vector_store

ROWS, DIM, DEPTH = 2300, 12, 10
IDS = [f'p{n}é' if n % 3 else f'p"{n}\'' for n in range(ROWS)]
TITLES = [f'title {n}' if n % 2 else '' for n in range(ROWS)]


@pytest.fixture(scope='module')
def shards(tmp_path_factory):
  pytest.importorskip('pyarrow')
  folder = tmp_path_factory.mktemp('shards')
  vecs = np.random.default_rng(0).normal(size=(ROWS, DIM)).astype(np.float32)
  with vector_files.VectorShards(
      folder, 'passages', vector_files.VECTOR_FILES['parquet'], vecs.shape, 900,
      lambda rows: [IDS[row] for row in rows],
      lambda rows: [TITLES[row] for row in rows]) as written:
    written[0:ROWS] = vecs
  return vector_store.ExportedShards(folder, 'a fingerprint', ROWS, DIM), vecs


def find_milvus(store, query_vecs):
  found = store._client.search(
      'passages', data=query_vecs.tolist(), limit=DEPTH,
      output_fields=['id', 'title'], search_params={'metric_type': 'IP'})
  return [[(hit['entity']['id'], hit['entity']['title'], hit['distance'])
           for hit in one] for one in found]


def find_lancedb(store, query_vecs):
  table = store._database.open_table('passages')
  return [[(hit['id'], hit['title'], 1 - hit['_distance']) for hit in
           table.search(vec).distance_type('dot').limit(DEPTH).to_list()]
          for vec in query_vecs]


FIND = {'milvus': ('pymilvus', 'here.db', find_milvus),
        'lancedb': ('lancedb', 'here', find_lancedb)}


def test_every_store_is_tried():
  assert FIND.keys() == stores.STORES.keys()


@pytest.mark.parametrize('name', stores.STORES)
def test_neighbours_are_those_of_exact_search(name, shards, tmp_path):
  library, place, find = FIND[name]
  pytest.importorskip(library)
  exported, vecs = shards
  store = stores.STORES[name](str(tmp_path / place))
  assert store.load(exported, 'passages')
  query_vecs = np.random.default_rng(1).normal(size=(9, DIM)).astype(np.float32)
  exact = hits.top_k(query_vecs @ vecs.T, hits.tie_ranks(IDS), DEPTH)
  for found, rows, scores in zip(
      find(store, query_vecs), exact.rows, exact.scores, strict=True):
    assert [one[0] for one in found] == [IDS[row] for row in rows]
    assert [one[1] for one in found] == [TITLES[row] for row in rows]
    np.testing.assert_allclose([one[2] for one in found], scores, rtol=1e-5)
  assert not store.load(exported, 'passages')  # It is there.
  other = vector_store.ExportedShards(
      exported.folder, 'another fingerprint', ROWS, DIM)
  with pytest.raises(errors.UserError, match=r"store_name='passages': is there "
                     'already, with 2300 rows of other vectors'):
    store.load(other, 'passages')


def test_a_place_that_does_not_answer(tmp_path):
  pytest.importorskip('pymilvus')
  with pytest.raises(errors.UserError, match=r"store_place='http://127.0.0.1:1'"
                     r": can't be connected to \([^\n]*\)$"):
    stores.STORES['milvus']('http://127.0.0.1:1')
