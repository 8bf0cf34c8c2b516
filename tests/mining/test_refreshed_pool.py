"""Refreshed pools of several sources: what is replaced, and what is kept."""

import json

import numpy as np
import pytest

from neg_contrast.mining import refreshed_pool
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives import refresh
from neg_contrast.negatives.sources import mixed_source, pool_source
from neg_contrast.settings import config as config_lib
from tests import tiny
from tests.negatives import test_refresh

EVERY = 2


def train(root, workdir, **overrides):
  """Four steps, of which the last two draw from a pool that was made again."""
  test_refresh.train(root, workdir, **{
      'optim__steps': 4, 'negatives__refresh_steps': EVERY, **overrides})
  mined = pool_lib.read(workdir / 'pool')
  moment = refresh.Moment(workdir, EVERY, EVERY, json.loads(
      (workdir / refresh.FOLDER / f'{EVERY:07d}' / 'manifest.json').read_text()
  )['identity']['settings']['run'])
  return mined, refresh.read(moment, mined)


def columns(pool, name):
  return np.flatnonzero(pool.source[0] == pool.sources.index(name))


@pytest.fixture(scope='module')
def several(tmp_path_factory):
  """A mixture whose draws at each step are noted."""
  root, drawn = tmp_path_factory.mktemp('several'), {}
  draw = pool_source.FromPool.draw

  def note(self, step, numbers, query_rows):
    drawn[step] = draw(self, step, numbers, query_rows)
    return drawn[step]

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(pool_source.FromPool, 'draw', note)
    mined, made = train(
        root, root / 'work', negatives__sources=('fine:1', 'bm25:2', 'model:1'),
        negatives__fine_dim=8, negatives__miner_steps=2,
        negatives__drop_answers=('bm25', 'model'))
  return mined, made, drawn


def test_several_dense_sources_become_one(several):
  mined, made, _ = several
  assert made.sources == mined.sources == ('fine', 'bm25', 'model')
  assert len(columns(mined, 'model')) == len(columns(made, 'fine')) == 20
  assert not len(columns(made, 'model'))
  assert made.manifest[refresh.FACTS][refresh.REPLACED] == ['fine', 'model']
  fresh = made.rows[:, columns(made, 'fine')]
  assert (fresh != mined.rows[:, columns(mined, 'fine')]).any()
  np.testing.assert_array_equal(np.sort(fresh, axis=1)[:, 1:] > np.sort(
      fresh, axis=1)[:, :-1], True)


def test_other_sources_stay_as_they_were_mined(several):
  mined, made, _ = several
  for name in ('rows', 'score', 'rank'):
    np.testing.assert_array_equal(
        getattr(made, name)[:, columns(made, 'bm25')],
        getattr(mined, name)[:, columns(mined, 'bm25')])
  at = mined.sources.index('bm25')
  np.testing.assert_array_equal(
      made.positive_scores[:, at], mined.positive_scores[:, at])


def test_no_passage_is_a_negative_twice(several):
  """What the model finds comes first: `bm25` loses what both have."""
  _, made, _ = several
  kept = np.where(made.is_negative(), made.rows, -1)
  for line in kept:
    rows = line[line >= 0]
    assert len(rows) == len(set(rows.tolist()))
  assert made.counts()['bm25']['duplicate'] > 0


def test_answers_are_looked_for_where_any_of_them_asks(several):
  mined, made, _ = several
  assert not mined.counts()['fine']['answer']
  assert mined.counts()['model']['answer']
  assert made.counts()['fine']['answer']
  config = config_lib.NegativesConfig(
      sources=('fine+bm25+model:1',),
      drop_answers=('model',))
  assert refreshed_pool.settings_of(config).drop_answers == ('model', 'fine')


def test_quotas_of_replaced_sources_are_added_up(several):
  _, _, drawn = several
  mean = lambda step, number: (drawn[step].sources == number).sum(axis=1).mean()
  assert [mean(0, number) for number in range(3)] == [1, 2, 1]
  assert mean(EVERY, 2) == 0
  assert mean(EVERY, 0) == pytest.approx(2, abs=0.5)
  assert mean(EVERY, 0) + mean(EVERY, 1) == 4


def test_context_and_its_halves_are_joined_to_a_refreshed_pool(
    tmp_path, monkeypatch):
  """Documents of one passage: their context is half of it."""
  tiny.write_beir(tmp_path / 'data', documents=40, per_document=1)
  drawn, draw = {}, mixed_source.Mixed.draw

  def note(self, step, numbers, query_rows):
    made = draw(self, step, numbers, query_rows)
    drawn[step] = self._material, query_rows, made
    return made

  monkeypatch.setattr(mixed_source.Mixed, 'draw', note)
  _, made = train(
      tmp_path, tmp_path / 'work',
      negatives__sources=('model:1', 'context:1'))
  material, query_rows, last = drawn[3]
  passages = len(material.dataset.prepared.passages)
  is_half = last.rows >= passages
  assert (is_half.sum(axis=1) == 1).all()
  np.testing.assert_array_equal(last.sources[is_half], 1)
  lines = made.lines_of(query_rows)
  kept = np.where(made.is_negative(lines), made.rows[lines], -1)
  assert (np.where(is_half, -2, last.rows).max(axis=1)[:, None] == kept).any(
      axis=1).all()


def test_a_pool_of_n_is_the_model_s_top(tmp_path):
  """Greedy: M = N. And margins go by its own scores of the positives."""
  _, made = train(tmp_path, tmp_path / 'greedy', negatives__pool_size=2)
  others = made.dropped_by != pool_lib.code('positive')
  for line in range(len(made)):
    best = made.rows[line][others[line]][:2]
    np.testing.assert_array_equal(
        made.rows[line][made.is_negative()[line]], best)
  mined, made = train(tmp_path, tmp_path / 'margin', negatives__margin=0.05,
                      negatives__pool_size=20)
  for pool in (mined, made):
    kept = pool.is_negative()
    limit = pool.positive_scores[:, :1] - np.float32(0.05)
    assert (pool.score <= limit)[kept].all()
  assert (mined.positive_scores != made.positive_scores).all()
  assert made.counts()['model']['margin']
