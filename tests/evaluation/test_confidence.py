import numpy as np
import pytest

from neg_contrast.evaluation import confidence


@pytest.mark.parametrize('values', [
    np.repeat([0.0, 1.0], [300, 100]),  # Two values: drawn as counts.
    np.random.default_rng(1).normal(3, 2, 400),  # All differ: one by one.
])
def test_is_that_of_drawing_queries_anew(values):
  rng = np.random.default_rng(5)
  means = [rng.choice(values, len(values)).mean() for _ in range(4000)]
  low, high = confidence.interval(values, samples=4000)
  expected = np.quantile(means, [0.025, 0.975])
  spread = np.std(means)
  np.testing.assert_allclose([low, high], expected, atol=0.15 * spread)
  narrow = confidence.interval(values, level=0.5, samples=4000)
  assert low < narrow[0] < values.mean() < narrow[1] < high


def test_order_and_blocks_change_nothing(monkeypatch):
  values = np.random.default_rng(0).choice([0.0, 0.5, 1.0], 90)
  expected = confidence.interval(values)
  assert confidence.interval(values[::-1]) == expected
  monkeypatch.setattr(confidence, '_BLOCK_DRAWS', 7)
  assert confidence.interval(values) == expected
  assert confidence.interval(values, seed=1) != expected


def test_pairs_are_surer_than_the_two_apart():
  rng = np.random.default_rng(2)
  before = rng.random(500)
  after = before + 0.02
  after[:50] += 0.1
  low, high = confidence.interval(after - before)
  assert 0.02 < low < high < 0.05
  assert confidence.interval(after)[0] < confidence.interval(before)[1]


def test_equal_values_and_bad_ones():
  assert confidence.interval(np.full(7, 0.1)) == (0.1, 0.1)
  for values in (np.zeros(0), np.array([1.0, np.nan])):
    with pytest.raises(ValueError, match='at least one value'):
      confidence.interval(values)
