import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def enumerated(differences):
  """The p-value, each way to give signs counted by itself."""
  sums = [abs(sum(sign * d for sign, d in zip(signs, differences, strict=True)))
          for signs in itertools.product([-1, 1], repeat=len(differences))]
  observed = abs(sum(differences))
  return sum(total >= observed - 1e-9 for total in sums) / len(sums)


# Few levels, as accuracies have, and reciprocal ranks, which repeat too.
LEVELS = [-1.0, -0.5, 0.0, 0.25, 1 / 3, 1.0]


@settings(deadline=None)
@given(st.lists(st.sampled_from(LEVELS) | st.floats(-1, 1, width=16),
                min_size=1, max_size=9))
def test_p_value_counts_all_signs(differences):
  found = confidence.p_value(np.array(differences))
  assert found == pytest.approx(enumerated(differences), rel=1e-9)


def test_p_value_is_that_of_scipy():
  stats = pytest.importorskip('scipy.stats')
  differences = np.random.default_rng(3).normal(0.3, 1, 12)
  theirs = stats.permutation_test(
      (differences, np.zeros(12)), lambda x, y: np.mean(x - y),
      permutation_type='samples', n_resamples=np.inf,
  )
  assert confidence.p_value(differences) == pytest.approx(theirs.pvalue)
  changed = np.repeat([1.0, 0.0, -1.0], [40, 3000, 23])
  assert confidence.p_value(changed) == pytest.approx(
      stats.binomtest(40, 63).pvalue
  )


@pytest.mark.parametrize('differences', [
    np.repeat([-1.0, 0.0, 0.5, 1.0], [28, 500, 70, 12]),  # Drawn as counts.
    np.random.default_rng(4).normal(0.15, 1, 120),  # Drawn one by one.
])
def test_drawn_p_values_are_near_the_counted_ones(differences, monkeypatch):
  rng = np.random.default_rng(6)
  signs = rng.choice([-1, 1], (20_000, len(differences)))
  far = np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9
  found = confidence.p_value(differences, samples=2000)
  assert 0.01 < far.mean() < 0.5  # Else any would do.
  assert found == pytest.approx(far.mean(), abs=4 * np.sqrt(0.25 / 2000))
  assert found * 2001 == pytest.approx(round(found * 2001))
  assert found != confidence.p_value(differences, samples=2000, seed=1)
  monkeypatch.setattr(confidence, '_BLOCK_DRAWS', 700)
  assert confidence.p_value(-differences[::-1], samples=2000) == found


def test_p_value_of_alike_systems_is_uniform():
  rng = np.random.default_rng(7)
  found = np.array([
      confidence.p_value(rng.normal(size=30), samples=199, seed=seed)
      for seed in range(400)
  ])
  for level in (0.05, 0.25, 0.5, 0.75):
    assert (found <= level).mean() == pytest.approx(level, abs=0.08)
  assert (found <= 0.05).mean() < 0.09


def test_p_values_at_the_ends():
  assert confidence.p_value(np.zeros(9)) == 1.0
  assert confidence.p_value(np.array([0.5, -0.5])) == 1.0
  assert confidence.p_value(np.full(3, 0.1)) == pytest.approx(0.25)
  rising = np.linspace(1, 2, 99)
  assert confidence.p_value(rising, samples=99) == 1 / 100
  assert confidence.p_value(np.ones(900)) == pytest.approx(2.0 ** -899)
  for values in (np.zeros(0), np.array([1.0, np.inf])):
    with pytest.raises(ValueError, match='at least one value'):
      confidence.p_value(values)


def test_holm():
  # The largest is below the one before it, which it then follows.
  found = confidence.holm({'c': 0.03, 'a': 0.01, 'd': 0.031, 'b': 0.02})
  assert list(found) == ['c', 'a', 'd', 'b']
  assert found == pytest.approx({'a': 0.04, 'b': 0.06, 'c': 0.06, 'd': 0.06})
  assert confidence.holm({'a': 0.7, 'b': 0.6}) == {'a': 1.0, 'b': 1.0}
  assert confidence.holm({}) == {}
  with pytest.raises(ValueError, match="'b': nan is no probability"):
    confidence.holm({'a': 0.5, 'b': float('nan')})


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=2), st.floats(0, 1), max_size=6))
def test_holm_finds_what_its_steps_find(p_values):
  for alpha in (0.01, 0.05, 0.5):
    left, significant = dict(p_values), set()
    while left:
      name = min(left, key=left.__getitem__)
      if left[name] * len(left) > alpha:
        break
      significant.add(name)
      del left[name]
    found = confidence.holm(p_values)
    assert {name for name, p in found.items() if p <= alpha} == significant
