"""How much of an index is searched, and by which queries that is chosen."""

import numpy as np
import pytest

from neg_contrast.retrieval import quantized_index, quantized_tuning
from tests.retrieval import test_quantized_index

pytest.importorskip('scann')


def test_tuning_does_not_search_everything(corpus, index):
  measured = index.measured
  assert measured.recall >= test_quantized_index.SETTINGS.target_recall
  assert measured.leaves < 141 / 2  # Of the square root of 20,000.
  assert measured.candidates < 500
  assert measured.source == 'perturbed passages'
  assert measured.queries == 256


def test_higher_target_looks_at_more(corpus, index):
  vecs, queries, ranks = corpus
  wanted = quantized_index.Settings(
      target_recall=0.995, recall_k=20, threads=2, shard_rows=100_000
  )
  precise = quantized_index.build(vecs, ranks, wanted, queries[::2])
  assert precise.measured.source == 'given'
  assert precise.measured.queries == 50
  assert (precise.measured.leaves, precise.measured.candidates) > (
      index.measured.leaves, index.measured.candidates
  )
  best = test_quantized_index.exact(vecs, queries[1::2], ranks, 20)
  assert precise.recall_against(queries[1::2], best) >= 0.985


def test_a_sample_is_halved(corpus):
  vecs, queries, ranks = corpus
  chosen = quantized_tuning.sample_queries(vecs[:3000], 0, queries)
  np.testing.assert_array_equal(  # All of them, in another order.
      np.sort(chosen, axis=0), np.sort(queries, axis=0))
  best = test_quantized_index.exact(vecs[:3000], chosen, ranks[:3000], 7)
  sample = quantized_tuning.Sample(chosen, best)
  by, held_out = sample.chosen_by, sample.held_out
  np.testing.assert_array_equal(by.queries, chosen[::2])
  np.testing.assert_array_equal(held_out.queries, chosen[1::2])
  np.testing.assert_array_equal(held_out.truth.rows, best.rows[1::2])


def test_a_sample_of_one_query_is_used_twice(corpus):
  vecs, queries, ranks = corpus
  sample = quantized_tuning.Sample(
      queries[:1], test_quantized_index.exact(vecs, queries[:1], ranks, 3))
  np.testing.assert_array_equal(
      sample.chosen_by.queries, sample.held_out.queries
  )


def test_at_most_512_queries_are_drawn(corpus):
  vecs, queries, _ = corpus
  many = np.tile(queries, (3, 1))
  assert len(quantized_tuning.sample_queries(vecs, 0, many)) == 512
  assert len(quantized_tuning.sample_queries(vecs, 0)) == 512
  assert len(quantized_tuning.sample_queries(vecs[:9], 0)) == 9
