"""Estimates against loops and planted truth; what moves a recommendation."""

import dataclasses

import numpy as np
import pytest

from neg_contrast.mining import false_negatives as audit

SCALE = 20.0
DEPTH = 200


def make(queries=300, depth=DEPTH, false=None, sensitivity=0.6, chance=0.05,
         near=0.0, seed=0):
  """Evidence with planted false negatives.

  Args:
    queries: number of them.
    depth: candidates of each.
    false: rank -> probability that its candidate is false; default: none are.
    sensitivity: how often a false one holds an answer.
    chance: how often any candidate holds one by chance.
    near: score of false ones, less the positive's.
    seed: of everything.
  """
  rng = np.random.default_rng(seed)
  shape, ranks = (queries, depth), np.arange(1, depth + 1)
  draw = lambda share: rng.random(shape) < share
  is_false = draw(np.array([(false or (lambda _: 0))(r) for r in ranks]))
  difference = -0.15 - 0.001 * ranks + rng.normal(0, 0.02, shape)
  difference = np.where(is_false, near + rng.normal(0, 0.01, shape), difference)
  nothing = np.zeros(shape, bool)
  return audit.Evidence(
      exists=draw(0.98), answer=draw(chance) | (is_false & draw(sensitivity)),
      chance=draw(chance), compared=draw(0.95), copy=nothing, twin=nothing,
      difference=difference.astype(np.float32),
      relative=(difference / 0.6).astype(np.float32),
  ), is_false


def top_ten(share):
  return lambda rank: share if rank <= 10 else 0.0


ANSWERS = audit.Judging('answers', 0.6)


def test_summary_equals_loops():
  evidence, _ = make(queries=7, depth=23, false=top_ten(0.3))
  rng = np.random.default_rng(5)
  evidence = dataclasses.replace(
      evidence, exists=rng.random((7, 23)) < 0.6,
      copy=rng.random((7, 23)) < 0.2, twin=rng.random((7, 23)) < 0.1,
  )
  evidence.exists[2] = False
  line = audit.summary(evidence, 6, 20, ANSWERS, SCALE)

  def expected(value, among=lambda i, j: True):
    means = []
    for i in range(7):
      values = [float(value(i, j)) for j in range(5, 20)
                if evidence.exists[i, j] and among(i, j)]
      if values:
        means.append(sum(values) / len(values))
    return sum(means) / len(means)

  compared = lambda i, j: evidence.compared[i, j]
  score = lambda i, j: float(evidence.difference[i, j])
  for name, value in {
      'answer': expected(lambda i, j: evidence.answer[i, j], compared),
      'chance': expected(lambda i, j: evidence.chance[i, j], compared),
      'copy': expected(lambda i, j: evidence.copy[i, j]),
      'twin': expected(lambda i, j: evidence.twin[i, j]),
      'above': expected(lambda i, j: score(i, j) > 0),
      'above_less_0.05': expected(lambda i, j: score(i, j) > -0.05),
      'above_less_0.1': expected(lambda i, j: score(i, j) > -0.1),
      'difference': expected(score),
      'push': expected(lambda i, j: 1 / (1 + np.exp(-SCALE * score(i, j)))),
  }.items():
    assert line[name] == pytest.approx(value, rel=1e-6), name
  assert line['candidates'] == evidence.exists[:, 5:20].sum()
  assert line['queries'] == 6
  chance = line['chance']
  false = expected(
      lambda i, j: 1 if evidence.copy[i, j] or evidence.twin[i, j] else
      (float(evidence.answer[i, j]) - evidence.chance[i, j]) / (0.6 - chance),
      compared,
  )
  assert line['false'] == pytest.approx(np.clip(false, 0, 1), rel=1e-6)


@pytest.mark.parametrize('share', [0.0, 0.1, 0.4])
@pytest.mark.parametrize('drop', [False, True])
def test_answers_find_the_planted_share(share, drop):
  """Chance hits don't count, and missed answers do."""
  evidence, is_false = make(queries=2000, depth=20, false=lambda _: share,
                            chance=0.2)
  # A false one holds an answer by its nature or by chance.
  judging = audit.Judging('answers', 1 - 0.4 * 0.8)
  keep = evidence.exists
  found = audit.false_share(evidence, keep, judging, drop)
  kept = keep & ~evidence.answer if drop else keep
  truth = is_false[kept].mean()
  assert found.low - 0.005 <= truth <= found.high + 0.005
  assert found.high - found.low < 0.03


def test_copies_and_twins_count_whole_and_padding_not():
  evidence, _ = make(queries=40, depth=5, chance=0.0)
  copy = np.zeros((40, 5), bool)
  copy[:, 0] = True
  exists = np.ones((40, 5), bool)
  exists[:, 4] = False
  evidence = dataclasses.replace(
      evidence, exists=exists, compared=exists, copy=copy,
      twin=np.roll(copy, 4, axis=1),
  )
  for judging in (ANSWERS, audit.Judging('judge', trust=0.8)):
    found = audit.false_share(evidence, evidence.exists, judging)
    assert found.mean == pytest.approx(1 / 4)  # Its twins are padding.
  assert audit.false_share(evidence, ~exists, ANSWERS).queries == 0


def test_judge_mirrors_what_lies_above():
  """As many false ones lie at -d as at d, and never more than trust."""
  evidence, _ = make(queries=50, depth=4)
  difference = np.full((50, 4), -0.305, np.float32)
  difference[:10, 0], difference[:40, 1] = 0.105, -0.105
  difference[:30, 2], difference[:5, 3] = 0.055, -0.055
  evidence = dataclasses.replace(evidence, exists=np.ones((50, 4), bool),
                                 difference=difference)
  judging = audit.by_judge(evidence, 0.8)
  wanted = {0.105: 0.8, 0.055: 0.8, -0.105: 0.8 * 10 / 40, -0.055: 0.8,
            -0.305: 0.0}
  for value, weight in wanted.items():
    assert judging.weights(np.full((1, 1), value, np.float32)) == (
        pytest.approx(weight))
  found = audit.false_share(evidence, evidence.exists, judging)
  total = sum(wanted[round(float(v), 3)] for v in difference.ravel())
  assert found.mean == pytest.approx(total / 200, rel=1e-6)


def test_verdicts_leave_out_what_nobody_judged():
  believed = np.array([[0.25, np.nan, 1.0, 0.0]])
  nothing = np.zeros((1, 4), bool)
  evidence = audit.Evidence(
      ~nothing, np.array([[True, False, False, False]]), nothing, ~nothing,
      np.array([[False, False, False, True]]), nothing,
      np.zeros((1, 4), np.float32), np.zeros((1, 4), np.float32), believed)
  share = lambda **kwargs: audit.false_share(
      evidence, evidence.exists, audit.Judging('verdicts'), **kwargs).mean
  assert share() == pytest.approx((0.25 + 1 + 1) / 3)
  assert share(drop_answers=True) == pytest.approx(1.0)
