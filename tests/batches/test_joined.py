"""Joined batches: every row is of its own data set, and so are the masks."""

import dataclasses

import numpy as np
import pytest

from neg_contrast.batches import batcher as batcher_lib
from neg_contrast.batches import joined, mixture_order
from neg_contrast.data import examples, sequences
from tests import tiny
from tests.batches import test_batcher

BATCH, NEGATIVES = 8, 2


def make_part(first_word, passages, queries, halves, sources, seed):
  """A batcher whose texts are words of its own; text 0 is there twice."""
  rng = np.random.default_rng(seed)
  texts = [np.array([first_word + row, *rng.integers(5, 9, row % 4)])
           for row in range(passages)]
  groups = np.arange(passages, dtype=np.int32)
  groups[passages - 1] = 0
  parents = rng.integers(0, passages, halves).astype(np.int32)
  positives = [[query, (query + 1) % queries] for query in range(queries)]

  def tokens(rows, cuts):
    del cuts
    assert (rows >= 0).all() and (rows < passages + halves).all()
    whole = [texts[row] if row < passages else
             np.append(texts[parents[row - passages]], 99) for row in rows]
    return sequences.listed(whole)

  def draw(step, numbers, query_rows):
    assert (numbers >= 0).all() and (numbers < queries).all()
    np.testing.assert_array_equal(numbers, query_rows)
    rows = np.random.default_rng((seed, step)).integers(
        -1, passages + halves, (len(numbers), NEGATIVES))
    return batcher_lib.Drawn(
        rows.astype(np.int32),
        np.where(rows >= 0, rows % sources, -1).astype(np.int32))

  return batcher_lib.Batcher(
      examples.Examples(np.arange(queries, dtype=np.int32),
                        np.arange(queries, dtype=np.int32),
                        tiny.positives(positives)),
      BATCH, NEGATIVES, 2, {'shared': 16}, 3, draw,
      lambda rows: sequences.listed(
          np.array([first_word + 50 + row]) for row in rows),
      tokens, groups, parents=parents,
  )


PARTS = (
    dataclasses.replace(make_part(100, 9, 7, 3, 2, 0),
                        own_passages=np.array([4, -1, 8, -1, 1, 5, -1])),
    make_part(200, 6, 5, 0, 1, 1),
    make_part(300, 12, 11, 4, 2, 2),
)
NAMES = (np.array([0, 2]), np.array([1]), np.array([2, 3]))


def make_joined(is_mixed, weights=(2, 1, 1)):
  order = mixture_order.MixtureOrder(
      tuple(len(part.examples) for part in PARTS), weights, BATCH, 5, is_mixed)
  return joined.Joined(PARTS, NAMES).batcher(order, ('a', 'b', 'c'))


def read(batch):
  """Word that names each query, positive and negative; and of the halves."""
  words = lambda slots: test_batcher.unpacked(batch, 'shared', slots)
  queries = [int(ids[0]) for ids in words(batch.query_slots)]
  positives = [int(ids[0]) for ids in words(batch.positive_slots)]
  negatives = [ids for ids in words(batch.negative_slots.reshape(-1))]
  return queries, positives, negatives


@pytest.mark.parametrize('is_mixed', [False, True])
def test_rows_are_of_the_examples_own_set(is_mixed):
  batcher = make_joined(is_mixed)
  seen, halves = set(), 0
  for step in range(12):
    batch, stats = batcher(step)
    sets, places = batcher.order.places(step)
    queries, positives, negatives = read(batch)
    seen |= set(sets)
    assert is_mixed == (len(set(sets)) > 1) or is_mixed
    for at, one in enumerate(sets):
      part = PARTS[one]
      first = int(np.cumsum([0, *map(lambda p: len(p.examples), PARTS)])[one])
      query = int(batcher.order.examples(sets[at:at + 1],
                                         places[at:at + 1])[0]) - first
      assert queries[at] == 100 * (one + 1) + 50 + query
      assert positives[at] == 100 * (one + 1) + query
      lines = np.flatnonzero(sets == one)
      own = batcher.order.examples(sets[lines], places[lines]) - first
      drawn = part.draw(step, own, own)
      expected = drawn.rows[list(lines).index(at)]
      for column, row in enumerate(expected):
        number = drawn.sources[list(lines).index(at)][column]
        if row < 0:
          assert batch.negative_sources[at, column] == -1
          continue
        assert batch.negative_sources[at, column] == NAMES[one][number]
        whole = part.passage_tokens(np.array([row]), np.zeros((1, 3), int))[0]
        np.testing.assert_array_equal(
            negatives[at * NEGATIVES + column], whole)
        halves += row >= len(part.passage_groups)
    assert stats.values['drawn_a'] == batcher.order.drawn(step + 1)[0]
  assert seen == {0, 1, 2} and halves > 10


@pytest.mark.parametrize('is_mixed', [False, True])
def test_masks_by_brute_force(is_mixed):
  batcher = make_joined(is_mixed)
  hidden = across = 0
  for step in range(12):
    batch, _ = batcher(step)
    sets, _ = batcher.order.places(step)
    numbers = batcher.order(step)
    firsts = np.cumsum([0, *(len(part.examples) for part in PARTS)])
    own = numbers - firsts[sets]
    candidates = [(one, int(row), None) for one, row
                  in zip(sets, own, strict=True)]
    drawn = {one: PARTS[one].draw(step, own[sets == one], own[sets == one])
             for one in set(sets)}
    at = dict.fromkeys(drawn, 0)
    for owner, one in enumerate(sets):
      for row in drawn[one].rows[at[one]]:
        candidates.append((one, int(row), owner))
      at[one] += 1
    for line, (one, query) in enumerate(zip(sets, own, strict=True)):
      for column, (of, row, owner) in enumerate(candidates):
        if column == line:
          expected = True
        elif row < 0:
          expected = False
        elif of != one:
          expected, across = True, across + 1  # No positive of another set.
        else:
          part = PARTS[one]
          passages = len(part.passage_groups)
          half = row >= passages
          whole = part.parents[row - passages] if half else row
          groups = {*part.examples.positive_groups[query]}
          if part.own_passages is not None and part.own_passages[query] >= 0:
            groups.add(part.passage_groups[part.own_passages[query]])
          known = part.passage_groups[whole] in groups
          is_own = half and owner is not None and own[owner] == query
          expected = not known or is_own
          hidden += not expected
        assert bool(batch.forward_mask[line, column]) == expected, (
            line, column, of, row)
  assert hidden > 20 and (across > 0) == is_mixed


def test_held_groups_alone_are_read():
  batcher = make_joined(True)
  whole, _ = batcher(2)
  part, _ = dataclasses.replace(
      batcher, held=lambda count: np.arange(count // 2))(2)
  ids = whole.sequences['shared'].token_ids
  np.testing.assert_array_equal(
      part.sequences['shared'].token_ids[:1], ids[:1])
  assert not part.sequences['shared'].token_ids[1:].any()


def test_fits_rows_and_fills_the_queue():
  batcher = dataclasses.replace(make_joined(True), queue_steps=2)
  assert batcher.with_fitted_rows({'shared': 16}, 100, 9).row_lengths
  batch, _ = batcher(4)
  rows = [batcher.examples.positive_rows[batcher.order(step)]
          for step in (2, 3)]
  assert batch.forward_mask.shape[1] == BATCH * (1 + NEGATIVES) + 2 * BATCH
  assert sorted(batcher_lib.queue_rows(batcher, 4)) == sorted(
      np.concatenate(rows))
