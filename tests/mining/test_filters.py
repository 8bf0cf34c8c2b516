"""Filters drop what they say, in their order, and note it."""

import dataclasses

import numpy as np
import pytest

from neg_contrast.mining import candidates, filters
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.settings import config as config_lib

CODE = pool_lib.code


def settings(**kwargs):
  return config_lib.NegativesConfig(sources=('bm25:2',), **{
      'pool_size': 3, 'depth': 8, **kwargs})


def found(rows, scores=None, positive=1.0):
  rows = np.array([rows], np.int32)
  if scores is None:
    scores = np.linspace(0.9, 0.1, rows.shape[1])
  return candidates.Candidates(
      rows, np.array([scores], np.float32), np.array([positive], np.float32))


def drop(source, mined, config, answers=(), positives=(), groups=None,
         beliefs=None):
  rows = mined.rows
  return filters.drop(
      source, mined, rows if groups is None else np.array([groups]),
      np.array([[*positives, -1]], np.int32), config,
      lambda where: where & np.isin(rows, answers), beliefs,
  )[0].tolist()


def test_each_filter_and_their_order():
  mined = found([0, 1, 2, 3, 4, 5, 6, -1])
  assert drop('bm25', mined, settings(), answers=[2], positives=[1]) == [
      0, CODE('positive'), CODE('answer'), 0, 0, CODE('pool_size'),
      CODE('pool_size'), 0]
  assert drop('bm25', mined, settings(first_rank=3, last_rank=4),
              positives=[0]) == [
      CODE('positive'), CODE('rank'), 0, 0, CODE('rank'), CODE('rank'),
      CODE('rank'), 0]
  assert drop('bm25', mined, settings(drop_answers=()), answers=[2]) == [
      0, 0, 0, *[CODE('pool_size')] * 4, 0]


@pytest.mark.parametrize('positive, margin, relative, kept', [
    (1.0, 0.2, None, lambda s: s <= 0.8),
    (1.0, None, 0.3, lambda s: s <= 0.7),
    (-0.5, None, 0.2, lambda s: s <= -0.6),
    (0.5, 0.0, None, lambda s: s <= 0.5),
])
def test_margins(positive, margin, relative, kept):
  scores = np.linspace(0.95, -0.95, 8, dtype=np.float32)
  mined = found(range(8), scores, positive)
  config = settings(pool_size=8, margin=margin, relative_margin=relative)
  codes = drop('model', mined, config)
  assert [code == 0 for code in codes] == [bool(kept(s)) for s in scores]
  name = 'margin' if margin is not None else 'relative_margin'
  assert set(codes) <= {0, CODE(name)}
  # Sources without scores are not judged by them.
  assert set(drop('context', mined, config)) == {0}


@pytest.mark.parametrize('asked', [{'margin': 9.0}, {'relative_margin': 9.0}])
def test_a_margin_needs_a_score_of_the_positive(asked):
  mined = found([0, 1, -1], positive=np.nan)
  assert drop('run', mined, settings(**asked), positives=[1]) == [
      CODE('unscored'), CODE('positive'), 0]
  assert drop('run', mined, settings()) == [0, 0, 0]
  assert drop('given', mined, settings(**asked)) == [0, 0, 0]


@pytest.mark.parametrize('source', ['model', 'bm25', 'context', 'given'])
def test_a_judge_measures_margins_for_all_sources(source):
  """Scores of the source would drop other candidates, or none."""
  mined = found(range(5), [9, 8, 7, 6, 5], positive=7)
  said = np.array([[0.05, 0.6, 0.9, np.nan, 0.39]], np.float32)
  config = settings(judge='a', judge_below=1.0, judge_above=1.0, pool_size=5,
                    drop_answers=())

  def codes(positive, **margins):
    return drop(source, mined, dataclasses.replace(config, **margins),
                beliefs=filters.Beliefs(said, np.array([positive])))

  judged = {'margin_by': 'judge'}

  near = CODE('relative_margin')
  assert codes(0.8, **judged, relative_margin=0.5) == [0, near, near, 0, 0]
  assert codes(0.8, **judged, margin=0.3) == [
      0, CODE('margin'), CODE('margin'), 0, 0]
  assert codes(0.8) == [0] * 5
  assert codes(np.nan, **judged, margin=0.3) == [CODE('unscored')] * 5
  by_retriever = dataclasses.replace(config, margin=1.0)
  assert drop(source, mined, by_retriever, beliefs=filters.Beliefs(
      said, np.array([np.nan]))) == (
          [CODE('margin')] * 2 + [CODE('margin'), 0, 0]
          if source in ('model', 'bm25') else [0] * 5)


def test_duplicates_keep_the_best_that_is_left():
  mined = found(range(6))
  groups = [7, 7, 8, 7, 8, 9]
  assert drop('given', mined, settings(), groups=groups) == [
      0, CODE('duplicate'), 0, CODE('duplicate'), CODE('duplicate'), 0]
  # A copy that another filter dropped does not stand for it.
  assert drop('bm25', mined, settings(first_rank=2), groups=groups) == [
      CODE('rank'), 0, 0, CODE('duplicate'), CODE('duplicate'), 0]
  assert drop('given', mined, settings(drop_duplicates=False),
              groups=groups) == [0, 0, 0, *[CODE('pool_size')] * 3]


def test_repeated_against_a_loop():
  rng = np.random.default_rng(0)
  values = rng.integers(0, 6, (40, 12))
  usable = rng.random(values.shape) < 0.7
  got = filters.repeated(values, usable)
  for line in range(len(values)):
    seen = set()
    for column in range(values.shape[1]):
      value = values[line, column]
      assert got[line, column] == (usable[line, column] and value in seen)
      if usable[line, column]:
        seen.add(value)


def test_a_positive_that_is_not_searched_has_no_score():
  for positive in (-np.inf, np.nan):
    mined = found([3, 4], positive=positive)
    assert drop('bm25', mined, settings(margin=0.0)) == [CODE('unscored')] * 2
    assert drop('bm25', mined, settings()) == [0, 0]
