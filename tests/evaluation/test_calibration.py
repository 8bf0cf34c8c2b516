"""Calibration: Newton's minimum, bins by loops, and what can't be fitted."""

import numpy as np
import pytest
from scipy import optimize

from neg_contrast.evaluation import calibration


def make_pairs(temperature, bias, count=40_000, seed=0):
  """Scores, and labels that are true by σ(s / T + b)."""
  rng = np.random.default_rng(seed)
  scores = rng.normal(-1, 4, count).astype(np.float32)
  chances = 1 / (1 + np.exp(-(scores / temperature + bias)))
  return scores, rng.random(count) < chances


@pytest.mark.parametrize(('temperature', 'bias'), [
    (1, 0), (2.5, -3), (0.4, 1.5),
])
def test_it_finds_what_made_the_labels(temperature, bias):
  fitted = calibration.fit(*make_pairs(temperature, bias))
  assert fitted.temperature == pytest.approx(temperature, rel=0.08)
  assert fitted.bias == pytest.approx(bias, abs=0.12)


def test_it_is_the_minimum_that_scipy_finds():
  scores, is_positive = make_pairs(1.7, -2, count=700, seed=3)
  counts = is_positive.sum(), (~is_positive).sum()
  targets = np.where(is_positive, (counts[0] + 1) / (counts[0] + 2),
                     1 / (counts[1] + 2))

  def entropy(weights):
    logits = weights[0] * scores.astype(np.float64) + weights[1]
    return np.mean(np.logaddexp(0, logits) - targets * logits)

  want = optimize.minimize(entropy, [0.0, 0.0], tol=1e-12).x
  fitted = calibration.fit(scores, is_positive)
  assert 1 / fitted.temperature == pytest.approx(want[0], rel=1e-4)
  assert fitted.bias == pytest.approx(want[1], rel=1e-4)


@pytest.mark.parametrize(('shift', 'factor'), [(0, 1), (1e4, 1), (-300, 1e-3)])
def test_any_scores_are_fitted(shift, factor):
  """Far from 0, tiny, and separated without an error."""
  scores = np.array([-3, -2, -1, 2, 3, 5], np.float64) * factor + shift
  fitted = calibration.fit(scores, np.arange(6) > 2)
  probabilities = fitted.probabilities(scores)
  assert 0 < fitted.temperature < np.inf
  assert probabilities[2] < 0.5 < probabilities[3]
  assert (np.diff(probabilities) > 0).all()


def test_probabilities_never_overflow():
  values = calibration.Calibration(0.01, 3).probabilities(
      np.array([-1e6, 0, 1e6, np.nan], np.float32))
  assert values.dtype == np.float32
  np.testing.assert_allclose(values[:3], [0, 0.952574, 1], atol=1e-6)
  assert np.isnan(values[3])


@pytest.mark.parametrize('is_positive', [[True] * 4, [False] * 4])
def test_one_kind_of_pairs_is_refused(is_positive):
  with pytest.raises(ValueError, match='of 4 pairs are positive'):
    calibration.fit(np.arange(4.0), np.array(is_positive))


def test_scores_that_are_the_wrong_way_round_are_refused():
  scores, is_positive = make_pairs(1, 0, count=500)
  with pytest.raises(ValueError, match='do not score higher'):
    calibration.fit(-scores, is_positive)


def test_bins_are_those_of_a_loop():
  rng = np.random.default_rng(5)
  probabilities = np.append(rng.random(333), [0, 1]).astype(np.float32)
  is_positive = rng.random(335) < 0.3
  found = calibration.reliability(probabilities, is_positive, bins=7)
  ece = 0.0
  by_low = {one['low']: one for one in found['bins']}
  for number in range(7):
    ours = [n for n, p in enumerate(probabilities)
            if number / 7 <= p < (number + 1) / 7 or (number == 6 and p == 1)]
    one = by_low[number / 7]
    mean = sum(float(probabilities[n]) for n in ours) / len(ours)
    part = sum(bool(is_positive[n]) for n in ours) / len(ours)
    assert one['pairs'] == len(ours)
    assert one['probability'] == pytest.approx(mean)
    assert one['positive'] == pytest.approx(part)
    ece += abs(part - mean) * len(ours) / 335
  assert found['ece'] == pytest.approx(ece)


def test_calibrating_lowers_the_error():
  scores, is_positive = make_pairs(3, -2)
  fitted = calibration.fit(scores, is_positive)
  before, after = (
      calibration.reliability(one.probabilities(scores), is_positive)
      for one in (calibration.Calibration(), fitted)
  )
  assert after['ece'] < 0.01 < 0.1 < before['ece']
  assert after['cross_entropy'] < before['cross_entropy']
