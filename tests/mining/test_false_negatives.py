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


def random_passages(queries=300):
  shape = (queries, 50)
  nothing = np.zeros(shape, bool)
  return audit.Evidence(
      ~nothing, nothing, nothing, ~nothing, nothing, nothing,
      np.full(shape, -0.5, np.float32), np.full(shape, np.nan, np.float32),
  )


def top_ten(share):
  return lambda rank: share if rank <= 10 else 0.0


def recommend(sources, judging, pool_size=100):
  return audit.recommend(sources, random_passages(), judging, SCALE, pool_size)


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


@pytest.mark.parametrize('judging', [ANSWERS, None])
def test_clean_data_need_no_window(judging):
  sources = {name: make(seed=seed)[0]
             for seed, name in enumerate(('model', 'bm25', 'context'))}
  found = recommend(sources, judging or audit.by_judge(sources['model'], 0.9))
  assert found.strategy == 'mixed' and set(found.members) == set(sources)
  assert (found.first_rank, found.last_rank) == (1, 0)
  assert found.relative_margin is None and not found.drop_answers


def test_vague_queries_need_no_margin():
  """To some, random passages fit better than their positive."""
  evidence, _ = make()
  vague = np.arange(300)[:, None] < 30
  evidence = dataclasses.replace(
      evidence, difference=evidence.difference + np.float32(0.6) * vague,
      relative=evidence.relative + np.float32(0.6) * vague,
  )
  random = random_passages()
  random = dataclasses.replace(
      random, difference=random.difference + np.float32(0.6) * vague
  )
  found = audit.recommend({'bm25': evidence}, random, ANSWERS, SCALE, 100)
  assert (found.strategy, found.first_rank) == ('bm25', 1)
  assert found.relative_margin is None


def test_false_negatives_at_the_top_move_the_window():
  """They score like hard negatives, so that no margin tells them apart."""
  found = recommend({'bm25': make(false=top_ten(0.4), near=-0.17)[0]}, ANSWERS)
  assert (found.strategy, found.first_rank) == ('bm25', 11)
  assert found.relative_margin is None
  assert found.false['bm25'].high <= audit.FALSE_LIMIT


def test_false_negatives_near_the_positive_ask_for_a_margin():
  """Below them the first ranks are good, and harder than what is behind."""
  found = recommend({'model': make(false=top_ten(0.4), near=0.0)[0]}, ANSWERS)
  assert (found.strategy, found.first_rank) == ('model', 1)
  assert found.relative_margin == 0.05


def test_judge_alone_asks_for_a_margin_too():
  evidence, _ = make(false=top_ten(0.4), near=0.03)
  found = recommend({'model': evidence}, audit.by_judge(evidence, 0.9))
  assert found.first_rank == 1 and found.relative_margin is not None
  blind = recommend({'model': evidence}, audit.by_judge(evidence, 0.0))
  assert blind.relative_margin is None and blind.first_rank == 1


def test_answers_are_dropped_where_they_are_no_chance():
  evidence, _ = make(false=top_ten(0.4), sensitivity=1.0, near=-0.17,
                     chance=0.01)
  found = recommend({'bm25': evidence}, audit.Judging('answers', 1.0))
  assert found.drop_answers == ('bm25',)
  assert found.first_rank == 1  # What is left is good.


def test_sources_that_cannot_serve_are_refused():
  good, _ = make()
  rare = dataclasses.replace(good, exists=good.exists & (
      np.arange(300) % 2 == 0)[:, None])
  easy = dataclasses.replace(good, difference=good.difference - 0.4)
  false, _ = make(false=lambda _: 0.5)
  found = recommend({'bm25': good, 'given': rare, 'context': false}, ANSWERS)
  assert found.strategy == 'bm25'
  assert '50% of the queries' in found.refused['given']
  assert 'may be false' in found.refused['context']
  none = recommend({'model': easy}, ANSWERS)
  assert none.strategy == 'random' and 'harder' in none.refused['model']


def test_push_is_that_of_the_pool():
  evidence, _ = make(queries=300)
  found = recommend({'bm25': evidence}, ANSWERS, pool_size=7)
  means = [np.mean(evidence.push(SCALE)[i][evidence.exists[i]][:7])
           for i in range(300)]
  assert found.push['bm25'] == pytest.approx(np.mean(means))


def test_window_ends_where_candidates_are_as_easy_as_random():
  evidence, _ = make()
  difference = evidence.difference.copy()
  difference[:, 50:] -= 0.6
  found = recommend(
      {'bm25': dataclasses.replace(evidence, difference=difference)}, ANSWERS
  )
  assert (found.first_rank, found.last_rank) == (1, 50)
