"""Rows fitted to the batches of a run: the same ones every time."""

import dataclasses

import numpy as np
import pytest

from neg_contrast.batches import batcher as batcher_lib
from neg_contrast.batches import (
  packing,
  pair_batches,
  question_batches,
  row_length,
)
from neg_contrast.data import examples, inputs, sequences
from tests import tiny

COUNT, BATCH, EVEN, MANY = 40, 16, 2304, 10**6


def blank(lengths):
  return sequences.listed(np.zeros(n, np.int32) for n in lengths)


def make_batcher(passages, towers=False, negatives=2):
  """Queries of 10 tokens."""
  rows = np.arange(COUNT, dtype=np.int32)

  def no_draw(*_):
    raise AssertionError('nothing is drawn yet')

  return batcher_lib.Batcher(
      examples.Examples(rows, rows, tiny.positives([[n] for n in rows])),
      BATCH, negatives, 1,
      {'query': 64, 'passage': 320} if towers else {'shared': 320}, 3, no_draw,
      lambda rows: blank(np.full(len(rows), 10)),
      lambda rows, _: blank(passages[rows]), rows,
  )


@pytest.mark.parametrize(('passages', 'chosen'), [
    (np.full(COUNT, 256), 256),
    (np.full(COUNT, 170), 512),  # Three of them.
])
def test_rows_suit_the_passages(passages, chosen):
  batcher = make_batcher(passages)
  fitted = batcher.with_fitted_rows({'shared': 256}, EVEN, MANY)
  assert fitted.row_lengths == {'shared': chosen}
  assert fitted == dataclasses.replace(
      batcher, row_lengths={'shared': chosen}, row_multiples={'shared': 1})
  towers = make_batcher(passages, towers=True).with_fitted_rows(
      {'query': 64, 'passage': 256}, EVEN, MANY)
  assert towers.row_lengths == {'query': 64, 'passage': chosen}


def test_negatives_count():
  """Positives are the first half, short; any passage may be a negative."""
  passages = np.where(np.arange(COUNT) < COUNT // 2, 40, 256)
  chosen = {}
  for negatives in (0, 3):
    batcher = make_batcher(passages, negatives=negatives)
    rows = np.arange(COUNT // 2, dtype=np.int32)
    batcher = dataclasses.replace(batcher, examples=examples.Examples(
        rows, rows, tiny.positives([[n] for n in rows])))
    lengths = batcher_lib.lengths_of(batcher, 0)[1]
    assert len(lengths) == BATCH * (1 + negatives)
    assert (lengths == 256).any() == (negatives > 0)
    chosen[negatives] = batcher.with_fitted_rows({'shared': 256}, EVEN, MANY)
  assert chosen[0].row_lengths != chosen[3].row_lengths


def test_pairs_of_a_query_and_a_passage():
  rows = np.arange(COUNT, dtype=np.int32)
  batcher = pair_batches.PairBatcher(
      examples.Examples(rows, rows, tiny.positives([[n] for n in rows])),
      BATCH, 1, 320, 3,
      lambda step, numbers, queries: batcher_lib.Drawn(
          np.stack([queries, np.full_like(queries, -1)], 1),
          np.zeros((len(queries), 2), np.int32)),
      lambda rows: blank(np.full(len(rows), 10)),
      lambda rows, _: blank(np.full(len(rows), 247)),
  )
  assert len(batcher._lengths(0)) == 2 * BATCH  # The third is missing.
  assert set(batcher._lengths(0)) == {256}
  assert batcher.with_fitted_rows(264, EVEN, MANY).row_length == 512
  assert batcher.with_fitted_rows(256, EVEN, MANY).row_length == 256
  longer = dataclasses.replace(batcher, start=(2,))
  assert set(longer._lengths(0)) == {257}
  batch, _ = longer(0)
  assert set(np.bincount(batch.sequences.segment_ids.ravel())[1:]) == {257}


def test_the_positives_of_pairs_are_cut():
  """Synthetic pairs mean parts of passages; negatives are whole."""
  rows = np.arange(COUNT, dtype=np.int32)
  cuts = np.stack([rows, rows + 7, rows % 2], 1)
  asked = []

  def passages(rows, cuts):
    asked.append((rows, cuts))
    return blank(np.full(len(rows), 9))

  batcher = pair_batches.PairBatcher(
      examples.Examples(rows, rows, tiny.positives([[n] for n in rows]), cuts),
      BATCH, 1, 40, 3,
      lambda step, numbers, queries: batcher_lib.Drawn(
          np.stack([np.where(queries % 3, 5, -1), queries * 0 + 6], 1),
          np.zeros((len(queries), 2), np.int32)),
      lambda rows: blank(np.full(len(rows), 10)), passages,
  )
  batcher(0)
  [(taken, got)] = asked
  numbers = batcher._numbers(0)
  candidates = np.split(np.arange(len(taken)), np.cumsum(
      np.where(numbers % 3, 3, 2))[:-1])
  for number, (positive, *negatives) in zip(numbers, candidates, strict=True):
    assert taken[positive] == number
    np.testing.assert_array_equal(got[positive], cuts[number])
    assert {*map(tuple, got[negatives])} == {inputs.WHOLE}


def test_sources_and_targets_of_a_generator():
  """Pairs take the larger part of a row: 20 of 25 tokens are 256 of 320."""
  batcher = question_batches.QuestionBatcher(
      COUNT, lambda rows: blank(np.full(len(rows), 30)),
      lambda rows: blank(np.full(len(rows), 19)), BATCH, 1,
      question_batches.row_lengths(320, 320, 25), 0, 1, 3,
  )
  assert set(batcher._lengths(0)) == {256}
  fitted = batcher.with_fitted_rows(320, 25, EVEN, MANY)
  assert fitted.row_lengths == {'source': 512, 'target': 40}
  _, stats = fitted(0)
  assert stats.processed_tokens == BATCH // 2 * (512 + 40)


def batches_of(rng, sequences, longest):
  return [rng.integers(1, longest + 1, sequences) for _ in range(16)]


def test_few_steps_have_few_numbers_of_rows():
  """What is compiled is weighed against padding, of both towers together."""
  rng = np.random.default_rng(0)
  batches = {'query': batches_of(rng, 8, 32),
             'passage': batches_of(rng, 64, 64)}
  lengths = {'query': 64, 'passage': 64}

  def numbers(multiples):
    """Distinct pairs of numbers of rows, and tokens of a step."""
    rows = {tower: [packing.plan(
        one, 1, lengths[tower], multiple=multiples[tower]
    ).rows for one in some] for tower, some in batches.items()}
    assert all(number % multiples[tower] == 0
               for tower, some in rows.items() for number in some)
    return (len(set(zip(*rows.values(), strict=True))),
            64 * sum(map(np.mean, rows.values())))

  chosen = {steps: row_length.fit_multiples(batches, 1, lengths, steps)
            for steps in (16, 60, 10**3, 10**6)}
  sizes, tokens = zip(*map(numbers, chosen.values()), strict=True)
  assert chosen[10**6] == {'query': 1, 'passage': 1}
  assert sizes[0] <= 3 and sizes[-1] > 8
  assert sorted(sizes) == list(sizes) and sorted(tokens)[::-1] == list(tokens)
  assert tokens[0] < 1.25 * tokens[-1]


def test_batches_that_never_come_do_not_count():
  batches = {'pairs': [np.full(count, 64) for count in (7, 9)]}
  assert row_length.fit_multiples(
      batches, 1, {'pairs': 64}, 1) == {'pairs': 1}
  assert row_length.fit_multiples(
      batches, 1, {'pairs': 64}, 2) == {'pairs': 3}
