"""Each example of a batch comes with its weight, in every kind of batch."""

import dataclasses

import numpy as np

from neg_contrast.batches import pair_batches, query_batches
from tests.batches import test_batcher, test_joined

WEIGHTS = np.arange(1, 11, dtype=np.float32)


def weighted(batcher):
  count = len(batcher.examples)
  return dataclasses.replace(batcher, examples=dataclasses.replace(
      batcher.examples, weights=np.arange(1, count + 1, dtype=np.float32)))


def make_pairs(batcher, texts, draw):
  return pair_batches.PairBatcher(
      batcher.examples, 6, 2, 24, 3, draw, batcher.query_tokens,
      batcher.passage_tokens)


def test_batches_of_every_kind_have_them():
  plain, texts, draw = test_batcher.make_batcher(2)
  batcher = weighted(plain)
  pairs = make_pairs(batcher, texts, draw)
  queries = query_batches.QueryBatcher(**{
      **vars(batcher), 'row_lengths': {'query': 12},
      'hidden': lambda rows: np.zeros((len(rows), 1), np.int32)})
  seen = set()
  for step in range(4):
    want = WEIGHTS[batcher.example_numbers(step)]
    for make in (batcher, pairs, queries):
      batch, _ = make(step)
      np.testing.assert_array_equal(batch.weights, want)
      assert batch.weights.dtype == np.float32
    seen |= {*want.tolist()}
  assert len(seen) == 10
  assert plain(0)[0].weights is None
  assert make_pairs(plain, texts, draw)(0)[0].weights is None


def test_a_mixture_has_those_of_each_set():
  first, *rest = test_joined.PARTS
  parts = weighted(first), *rest
  made = dataclasses.replace(
      test_joined.make_joined(True),
      examples=test_joined.joined.Joined(parts, test_joined.NAMES).examples())
  for step in range(3):
    batch, _ = made(step)
    numbers = made.example_numbers(step)
    np.testing.assert_array_equal(
        batch.weights, np.where(numbers < len(first.examples), numbers + 1, 1))
