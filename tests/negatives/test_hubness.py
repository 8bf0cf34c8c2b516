"""Hubness, against the definition passage by passage."""

import numpy as np
import pytest

from neg_contrast.negatives import hubness


def test_it_is_the_moments_of_all_passages():
  rng = np.random.default_rng(0)
  passages = 37
  rows = np.stack([rng.choice(passages, 13, replace=False)
                   for _ in range(29)]).astype(np.int32)
  rows[rng.random(rows.shape) < 0.1] = -1
  counts = np.zeros(passages)
  for line in rows:
    for row in line[:hubness.K]:
      if row >= 0:
        counts[row] += 1
  want = ((counts - counts.mean()) ** 3).mean() / counts.std() ** 3
  found = hubness.measure(rows, passages)
  assert found['skewness'] == pytest.approx(want, rel=1e-9)
  first = [int(row) for row in rows[:, 0] if row >= 0]
  assert found['top1_most'] == max(map(first.count, first))
  assert found['top1_distinct'] == len(set(first)) / len(first)


def test_one_hub_and_none():
  hub = np.zeros((8, 1), np.int32)
  found = hubness.measure(hub, 100)
  assert found['top1_most'] == 8 and found['top1_distinct'] == 1 / 8
  assert found['skewness'] > 9
  spread = np.arange(8, dtype=np.int32)[:, None]
  assert hubness.measure(spread, 8) == {
      'top1_most': 1, 'top1_distinct': 1, 'skewness': 0}
  nothing = np.full((3, 2), -1, np.int32)
  assert hubness.measure(nothing, 5) == {
      'top1_most': 0, 'top1_distinct': 0, 'skewness': 0}
