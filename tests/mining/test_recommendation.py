"""What moves a recommendation, on evidence with planted truth."""

import dataclasses

import numpy as np
import pytest

from neg_contrast.mining import false_negatives as audit
from neg_contrast.mining import recommendation
from tests.mining.test_false_negatives import ANSWERS, SCALE, make, top_ten


def random_passages(queries=300):
  shape = (queries, 50)
  nothing = np.zeros(shape, bool)
  return audit.Evidence(
      ~nothing, nothing, nothing, ~nothing, nothing, nothing,
      np.full(shape, -0.5, np.float32), np.full(shape, np.nan, np.float32),
  )


def recommend(sources, judging, pool_size=100):
  return recommendation.recommend(
      sources, random_passages(), judging, SCALE, pool_size)


@pytest.mark.parametrize('judging', [ANSWERS, None])
def test_clean_data_need_no_window(judging):
  sources = {name: make(seed=seed)[0]
             for seed, name in enumerate(('model', 'bm25', 'context'))}
  found = recommend(sources, judging or audit.by_judge(sources['model'], 0.9))
  assert len(found.sources) == 1 and set(found.members) == set(sources)
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
  found = recommendation.recommend(
      {'bm25': evidence}, random, ANSWERS, SCALE, 100)
  assert (found.sources, found.first_rank) == (('bm25:2',), 1)
  assert found.relative_margin is None


def test_false_negatives_at_the_top_move_the_window():
  """They score like hard negatives, so that no margin tells them apart."""
  found = recommend({'bm25': make(false=top_ten(0.4), near=-0.17)[0]}, ANSWERS)
  assert (found.sources, found.first_rank) == (('bm25:2',), 11)
  assert found.relative_margin is None
  assert found.false['bm25'].high <= recommendation.FALSE_LIMIT


def test_false_negatives_near_the_positive_ask_for_a_margin():
  """Below them the first ranks are good, and harder than what is behind."""
  found = recommend({'model': make(false=top_ten(0.4), near=0.0)[0]}, ANSWERS)
  assert (found.sources, found.first_rank) == (('model:2',), 1)
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


def test_what_is_drawn_without_a_pool_is_not_filtered():
  evidence, _ = make(false=top_ten(0.4), sensitivity=1.0, near=-0.17,
                     chance=0.01)
  found = recommend({'bm25': evidence, 'context': evidence},
                    audit.Judging('answers', 1.0))
  assert 'context' not in found.drop_answers


def test_sources_that_cannot_serve_are_refused():
  good, _ = make()
  rare = dataclasses.replace(good, exists=good.exists & (
      np.arange(300) % 2 == 0)[:, None])
  easy = dataclasses.replace(good, difference=good.difference - 0.4)
  false, _ = make(false=lambda _: 0.5)
  found = recommend({'bm25': good, 'given': rare, 'context': false}, ANSWERS)
  assert found.sources == ('bm25:2',)
  assert '50% of the queries' in found.refused['given']
  assert 'may be false' in found.refused['context']
  none = recommend({'model': easy}, ANSWERS)
  assert not none.sources and 'harder' in none.refused['model']


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
