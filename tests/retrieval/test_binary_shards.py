"""Binary indexes: candidates by signs, scored again, kept on disk."""

import dataclasses

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.retrieval import (
  binary_codes,
  binary_shards,
  hits,
  quantized_files,
  quantized_index,
  quantized_shard,
)
from tests.retrieval import test_quantized_index

SETTINGS = quantized_index.Settings(
    target_recall=0.9, recall_k=10, threads=2, shard_rows=1000, kind='binary')


@pytest.fixture(scope='module')
def small(corpus):
  vecs, queries, ranks = corpus
  ranks = hits.tie_ranks([f'{rank:06d}' for rank in ranks[:3000]])
  return vecs[:3000], queries[:40], ranks


@pytest.fixture(scope='module')
def saved(small, tmp_path_factory):
  folder = tmp_path_factory.mktemp('binary') / 'index'
  vecs, _, ranks = small
  quantized_files.make(folder, vecs, ranks, SETTINGS)
  return folder


def test_shards_propose_by_estimates(small):
  vecs, queries, _ = small
  spans = (0, 1200), (1200, 3000)
  shards = [binary_shards.BINARY.build(None, vecs[a:b], a, 1)
            for a, b in spans]
  rows, scores = quantized_shard.propose(shards, queries, 1, 30)
  estimates = np.concatenate([binary_codes.products(
      binary_codes.encode(vecs[a:b]), queries) for a, b in spans], axis=1)
  np.testing.assert_array_equal(
      scores, -np.sort(-estimates, axis=1)[:, :30])
  np.testing.assert_array_equal(
      np.take_along_axis(estimates, rows, 1), scores)


def test_it_reaches_its_target_and_scores_exactly(small):
  vecs, queries, ranks = small
  index = quantized_index.build(vecs, ranks, SETTINGS)
  assert index.measured.leaves == 1
  assert 10 <= index.measured.candidates < 3000
  found = index.search(queries, 10)
  exact = hits.top_k(queries @ vecs.T, ranks, 10)
  assert hits.recall(found, exact) > 0.8
  np.testing.assert_allclose(
      found.scores, np.einsum('qd,qkd->qk', queries, vecs[found.rows]),
      rtol=1e-5)
  alone = index.search(queries[3:4], 10)
  np.testing.assert_array_equal(alone.rows[0], found.rows[3])


def test_a_folder_keeps_it(small, saved):
  vecs, queries, ranks = small
  loaded = quantized_files.load(saved, vecs, threads=1)
  built = quantized_index.build(vecs, ranks, SETTINGS)
  assert loaded.settings.kind == 'binary'
  assert loaded.measured == built.measured
  test_quantized_index.same(
      loaded.search(queries, 20), built.search(queries, 20))
  assert quantized_files.is_made(saved, SETTINGS)
  assert not quantized_files.is_made(
      saved, dataclasses.replace(SETTINGS, kind='scann'))
  np.testing.assert_array_equal(
      np.load(saved / 'shard-00001' / 'bits.npy'),
      binary_codes.encode(vecs[1000:2000]).bits)


def test_damage_is_told(small, saved):
  vecs, _, _ = small
  path = saved / 'shard-00001' / 'bits.npy'
  whole = path.read_bytes()
  try:
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(errors.UserError, match='bits.npy'):
      quantized_files.load(saved, vecs)
    path.write_bytes(whole[:-8])
    with pytest.raises(errors.UserError, match='bits.npy'):
      quantized_files.load(saved, vecs)
  finally:
    path.write_bytes(whole)


def test_a_kind_that_there_is_not():
  with pytest.raises(ValueError, match='ivf'):
    quantized_index.Settings(kind='ivf')


def test_older_indexes_are_of_scann():
  assert 'kind' not in quantized_index.Settings().to_json()
  assert quantized_index.Settings(**quantized_index.Settings().to_json()) == (
      quantized_index.Settings())
  assert SETTINGS.to_json()['kind'] == 'binary'
