"""Pairs packed together: nothing is lost, and segments belong together."""

import numpy as np
import pytest

from neg_contrast.data import question_batches


@pytest.mark.parametrize('seed', range(20))
def test_every_pair_shares_a_row_and_a_segment(seed):
  rng = np.random.default_rng(seed)
  wide, narrow = int(rng.integers(20, 60)), int(rng.integers(5, 15))
  count = int(rng.integers(1, 40))
  sources = [rng.integers(2, 99, rng.integers(1, wide + 1))
             for _ in range(count)]
  targets = [rng.integers(2, 99, rng.integers(1, narrow + 1))
             for _ in range(count)]
  batcher = question_batches.QuestionBatcher(
      count=count, pair=lambda n: (sources[n], targets[n]), batch_size=count,
      groups=int(rng.integers(1, 4)), row_length=wide,
      target_row_length=narrow, start_id=1, seed=seed)
  batch, stats = batcher.pack(list(range(count)))
  found = []
  groups, rows, _ = batch.source_ids.shape
  assert batch.target_ids.shape == (groups, rows, narrow)
  for group in range(groups):
    for row in range(rows):
      place = group, row
      for segment in set(batch.source_segments[place]) - {0}:
        own = batch.target_segments[place] == segment
        target = batch.target_ids[place][own]
        given = batch.input_ids[place][own]
        assert given[0] == 1 and (given[1:] == target[:-1]).all()
        assert (np.diff(np.flatnonzero(own)) == 1).all()
        found.append((
            tuple(batch.source_ids[place][
                batch.source_segments[place] == segment]), tuple(target)))
  want = [(tuple(s), tuple(t)) for s, t in zip(sources, targets, strict=True)]
  assert sorted(found) == sorted(want)
  assert stats.useful_tokens == sum(len(s) + len(t) for s, t in want)


def test_batches_are_random_access_and_cover_an_epoch():
  seen = []
  batcher = question_batches.QuestionBatcher(
      count=12, pair=lambda n: (seen.append(n), (np.full(3, n), np.full(2, n))
                                )[1],
      batch_size=4, groups=1, row_length=8, target_row_length=4, start_id=1,
      seed=3)
  batches = [batcher(step)[0] for step in range(3)]
  assert sorted(seen) == list(range(12)) and seen != list(range(12))
  again = batcher(1)[0]
  np.testing.assert_array_equal(again.source_ids, batches[1].source_ids)
