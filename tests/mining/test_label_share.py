"""How many positives have a label: against loops, and planted truth."""

import dataclasses

import numpy as np
import pytest

from neg_contrast.evaluation import calibration
from neg_contrast.mining import false_negatives, label_share
from tests.mining import test_false_negatives

QUERIES, DEPTH = 4000, 50


def plant(hidden, apart, seed=3):
  """Scores, positives, and those that are known.

  Args:
    hidden: part of the positives that has no label.
    apart: by how much positives score higher, in standard deviations.
    seed: of all.
  """
  rng = np.random.default_rng(seed)
  is_right = rng.random((QUERIES, DEPTH)) < 0.04
  scores = 5 * (rng.normal(size=is_right.shape) + apart * is_right)
  is_known = is_right & (rng.random(is_right.shape) >= hidden)
  return scores.astype(np.float32), is_right, is_known


@pytest.mark.parametrize('hidden', [0.0, 0.3, 0.6])
def test_hidden_judgements_are_counted(hidden):
  """Judgements are taken away; what comes back is as many, nearly."""
  scores, is_right, is_known = plant(hidden, apart=5)
  found = label_share.fit(scores.ravel(), is_known.ravel())
  assert 1 - hidden - 0.05 < found.share < 1 - hidden + 0.02
  evidence, _ = test_false_negatives.make(QUERIES, DEPTH)
  evidence = dataclasses.replace(
      evidence, exists=~is_known, believed=found.believed(scores))
  estimate = false_negatives.false_share(
      evidence, evidence.exists, false_negatives.Judging('verdicts'))
  truth = false_negatives.mean(is_right, evidence.exists)
  assert estimate.mean == pytest.approx(truth, rel=0.25, abs=1e-3)
  # What is believed is found among the hidden ones.
  if hidden:
    hit = evidence.believed[is_right & ~is_known]
    assert hit.mean() > 20 * evidence.believed[~is_right].mean()


@pytest.mark.parametrize('hidden', [0.0, 0.3])
@pytest.mark.parametrize('apart', [1.5, 2.5])
def test_a_poor_judge_calls_too_many_false_and_never_too_few(hidden, apart):
  """Its mean probability of known positives says nothing of labels."""
  scores, is_right, is_known = plant(hidden, apart)
  found = label_share.fit(scores.ravel(), is_known.ravel())
  count = found.believed(scores)[~is_known].sum()
  assert count > (is_right & ~is_known).sum()
  p = found.calibration.probabilities(scores).astype(float)
  by_mean = float(p[is_known].mean())
  assert found.share > by_mean + 0.1
  odds = (p / (1 - p))[~is_known].sum()
  assert count < 0.7 * (1 - by_mean) / by_mean * odds


def test_it_is_the_best_of_wilsons_bounds():
  rng = np.random.default_rng(1)
  scores = rng.integers(0, 20, size=200).astype(np.float32)
  labels = rng.random(200) < scores / 25
  bounds = []
  for least in np.unique(scores):
    some = labels[scores >= least]
    if some.any():
      # The p at which the observed part is 1.96 deviations of p above p.
      low, high = 0.0, float(some.mean())
      for _ in range(60):
        p = (low + high) / 2
        if some.mean() - p > 1.96 * np.sqrt(p * (1 - p) / len(some)):
          low = p
        else:
          high = p
      bounds.append(low)
  assert label_share.least_share(scores, labels) == pytest.approx(
      max(bounds), abs=1e-6)


def test_what_nobody_judged_and_what_is_certain():
  labelling = label_share.Labelling(calibration.Calibration(2.0, 1.0), 0.8)
  scores = np.array([-2.0, np.nan, 1e6, -1e6], np.float32)
  np.testing.assert_allclose(
      labelling.believed(scores), [0.25, np.nan, 1.0, 0.0])


def test_scores_that_say_nothing_of_labels():
  scores = np.arange(6, dtype=np.float32)
  for labels in ([False] * 6, [True] * 6, [True] * 3 + [False] * 3):
    assert label_share.fit(scores, np.array(labels)) is None
