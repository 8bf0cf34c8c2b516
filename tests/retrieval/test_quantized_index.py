"""ScaNN against exact search: recall, order, shards, tiny corpora."""

import numpy as np
import pytest

from neg_contrast.retrieval import (
  hits,
  quantized_files,
  quantized_index,
  scann_shards,
  vector_table,
)
from tests.retrieval import test_embeddings

pytest.importorskip('scann')

FEATURES = 32
SETTINGS = quantized_index.Settings(
    target_recall=0.9, recall_k=20, threads=2, shard_rows=100_000
)


def make(passages, features=FEATURES, seed=0):
  """Clustered unit vectors, queries near them, and tie ranks."""
  rng = np.random.default_rng(seed)
  topics = rng.standard_normal((max(1, passages // 40), features))
  vecs = topics[rng.integers(0, len(topics), passages)]
  vecs = unit(vecs + 0.7 * rng.standard_normal(vecs.shape))
  near = vecs[rng.integers(0, passages, 200)]
  queries = unit(near + 0.15 * rng.standard_normal(near.shape))
  ids = [f'p{n}' for n in rng.permutation(passages)]
  return vecs, queries, hits.tie_ranks(ids)


def unit(vecs):
  vecs = vecs / np.linalg.norm(vecs, axis=1, keepdims=True)
  return vecs.astype(np.float32)


def exact(vecs, queries, ranks, depth):
  return hits.top_k(queries @ vecs.T, ranks, depth)


def check_valid(found, vecs, queries, ranks, depth):
  """Distinct rows, their true scores, in order, padded at the end."""
  assert found.rows.shape == found.scores.shape == (len(queries), depth)
  assert found.rows.dtype == np.int32
  assert found.scores.dtype == np.float32
  here = min(depth, len(vecs))
  assert (found.rows[:, here:] == -1).all()
  assert np.isneginf(found.scores[:, here:]).all()
  for query, rows, scores in zip(
      queries, found.rows[:, :here], found.scores, strict=True
  ):
    assert (rows >= 0).all()
    assert len(set(rows)) == here
    np.testing.assert_allclose(scores[:here], vecs[rows] @ query, atol=1e-6)
    order = np.lexsort((ranks[rows], -scores[:here]))
    np.testing.assert_array_equal(order, np.arange(here))


def same(one, other):
  np.testing.assert_array_equal(one.rows, other.rows)
  np.testing.assert_array_equal(one.scores, other.scores)


def contents(folder):
  return {path.relative_to(folder): path.read_bytes()
          for path in folder.rglob('*')
          if path.is_file() and '.locks' not in path.parts}


@pytest.mark.parametrize('depth', [1, 20, 100])
def test_recall_and_order(corpus, index, depth):
  vecs, queries, ranks = corpus
  best = exact(vecs, queries, ranks, depth)
  found = index.search(queries, depth)
  check_valid(found, vecs, queries, ranks, depth)
  assert hits.recall(found, best) >= 0.9
  assert index.recall_against(queries, best) == hits.recall(found, best)


def test_queries_are_independent(corpus, index):
  _, queries, _ = corpus
  whole = index.search(queries, 30)
  for rows in ([0], [5, 3], range(100, 170)):
    some = index.search(queries[list(rows)], 30)
    np.testing.assert_array_equal(some.rows, whole.rows[list(rows)])
    np.testing.assert_array_equal(some.scores, whole.scores[list(rows)])
  assert index.search(queries[:0], 30).rows.shape == (0, 30)


def test_equal_passages_are_in_order_of_their_ids(corpus):
  vecs, queries, ranks = corpus
  vecs = vecs[:2000].copy()
  vecs[::100] = vecs[0]
  ranks = hits.tie_ranks([f'{r:06d}' for r in ranks[:2000]])
  index = quantized_index.build(vecs, ranks, SETTINGS)
  found = index.search(vecs[:1], 20)
  copies = np.arange(0, 2000, 100)
  assert len(np.unique(found.scores)) == 1
  np.testing.assert_array_equal(
      found.rows[0], copies[np.argsort(ranks[copies])]
  )


@pytest.mark.parametrize('scale', [0.01, 30.0])
def test_vectors_of_any_norm(corpus, scale):
  vecs, queries, ranks = corpus
  rng = np.random.default_rng(1)
  norms = scale * rng.uniform(0.3, 1, (4000, 1)).astype(np.float32)
  vecs = vecs[:4000] * norms
  vecs[::50] = 0
  index = quantized_index.build(vecs, ranks[:4000], SETTINGS)
  best = exact(vecs, queries, ranks[:4000], 20)
  assert index.recall_against(queries, best) >= 0.9
  assert index.measured.candidates < 500


def test_shards_find_what_one_index_finds(corpus, index, tmp_path):
  vecs, queries, ranks = corpus
  settings = quantized_index.Settings(
      target_recall=0.9, recall_k=20, threads=2, shard_rows=7_000
  )
  sharded = quantized_index.build(vecs, ranks, settings)
  best = exact(vecs, queries, ranks, 20)
  found = sharded.search(queries, 20)
  check_valid(found, vecs, queries, ranks, 20)
  assert hits.recall(found, best) >= 0.9
  assert abs(
      hits.recall(found, best) - index.recall_against(queries, best)
  ) < 0.07
  quantized_files.make(tmp_path / 'sharded', vecs, ranks, settings)
  parts = sorted(p.name for p in (tmp_path / 'sharded').glob('shard-*'))
  assert parts == ['shard-00000', 'shard-00001', 'shard-00002']
  loaded = quantized_files.load(tmp_path / 'sharded', vecs)
  same(loaded.search(queries, 20), found)


def test_a_part_knows_the_exact_hits_among_its_rows(corpus):
  vecs, queries, ranks = corpus
  settings = quantized_index.Settings(recall_k=20, shard_rows=700)
  assert settings.divide(2000) == [
      range(666), range(666, 1333), range(1333, 2000)]
  assert settings.divide(0) == []
  part = quantized_index.build_part(
      scann_shards.load_library(), vecs, ranks, settings, range(666, 1333),
      queries)
  assert (part.shard.first, part.shard.last) == (666, 1333)
  best = exact(vecs[666:1333], queries, ranks[666:1333], 20)
  np.testing.assert_array_equal(part.exact.rows, best.rows + 666)
  np.testing.assert_allclose(part.exact.scores, best.scores, rtol=1e-5)


@pytest.mark.parametrize('passages', [1, 2, 15, 17, 100, 999, 1000, 1001])
@pytest.mark.parametrize('depth', [1, 10, 2000])
def test_tiny_corpora(passages, depth, tmp_path):
  vecs, queries, ranks = make(passages, features=8)
  for shard_rows in (100_000, 60):
    if passages > 100 and shard_rows == 60:
      continue
    settings = quantized_index.Settings(recall_k=20, shard_rows=shard_rows)
    index = quantized_index.build(vecs, ranks, settings)
    found = index.search(queries, depth)
    check_valid(found, vecs, queries, ranks, depth)
    best = exact(vecs, queries, ranks, depth)
    share = hits.recall(found, best)
    assert share == 1 if passages < 1000 or depth >= passages else share > 0.9


def test_no_passages(tmp_path):
  vecs, ranks = np.zeros((0, 8), np.float32), np.zeros(0, np.int32)
  index = quantized_index.build(vecs, ranks, SETTINGS)
  quantized_files.make(tmp_path / 'none', vecs, ranks, SETTINGS)
  for some in (index, quantized_files.load(tmp_path / 'none', vecs)):
    found = some.search(np.ones((3, 8), np.float32), 4)
    assert (found.rows == -1).all()
    assert np.isneginf(found.scores).all()


@pytest.mark.parametrize('dtype', vector_table.DTYPES)
def test_a_table_is_searched_as_an_array(corpus, tmp_path, dtype):
  """Shards of both kinds, which end at other rows."""
  vecs, queries, ranks = corpus
  vecs, ranks = vecs[:5000], ranks[:5000]
  made = test_embeddings.write(tmp_path / 'table', vecs, dtype, 700)
  settings = quantized_index.Settings(
      target_recall=0.9, recall_k=20, threads=2, shard_rows=3000
  )
  found = []
  for name, of in (('a', made), ('b', vecs if dtype == 'float32' else made[:])):
    index = quantized_index.build(of, ranks, settings)
    quantized_files.make(tmp_path / name, of, ranks, settings)
    found += [index.search(queries, 20),
              quantized_files.load(tmp_path / name, made).search(queries, 20)]
  for one in found[1:]:
    same(one, found[0])
  check_valid(found[0], made[:], queries, ranks, 20)
  assert contents(tmp_path / 'a') == contents(tmp_path / 'b')
  best = exact(vecs, queries, ranks, 20)
  assert hits.recall(found[0], best) >= 0.9


def test_vectors_must_be_finite(corpus, index):
  vecs, queries, ranks = corpus
  broken = vecs[:2000].copy()
  broken[1234, 5] = np.nan
  with pytest.raises(ValueError, match='passage vector is not finite'):
    quantized_index.build(broken, ranks[:2000], SETTINGS)
  with pytest.raises(ValueError, match='query vector is not finite'):
    index.search(np.full_like(queries, np.inf), 5)
  with pytest.raises(ValueError, match='sample query vector'):
    quantized_index.build(vecs[:50], ranks[:50], SETTINGS, queries * np.inf)
  with pytest.raises(ValueError, match='sample_queries is empty'):
    quantized_index.build(vecs[:50], ranks[:50], SETTINGS, queries[:0])


@pytest.mark.parametrize('wrong', [
    {'target_recall': 0.0}, {'target_recall': 1.1}, {'recall_k': 0},
    {'shard_rows': 0}, {'threads': -1},
])
def test_settings_are_checked(wrong):
  with pytest.raises(ValueError, match=next(iter(wrong))):
    quantized_index.Settings(**wrong)
