"""From a judge that is trained here to a pool that a training draws from."""

import numpy as np
import pytest

from neg_contrast import errors, jobs
from neg_contrast.artifacts import artifact, plan
from neg_contrast.jobs import judge, train, train_reranker
from neg_contrast.models import by_name
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.settings import config as config_lib
from tests import tiny
from tests.jobs import test_train_reranker


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  """A folder with a trained and calibrated judge in `judge`."""
  root = tmp_path_factory.mktemp('judge')
  tiny.run(train_reranker.TrainRerankerJob, test_train_reranker.make_config(
      root, loss__kind='bce', optim__head_learning_rate=3e-2,
      optim__steps=40, evaluation__eval_steps=20, model__hidden_dropout=None,
  ), root / 'judge')
  return root


def make_config(root, **overrides):
  return tiny.make_config(root, **{
      'job': 'judge', 'negatives__sources': ('bm25:2',),
      'negatives__judge': str(root / 'judge'), 'negatives__depth': 12,
      'negatives__pool_size': 6, 'negatives__drop_answers': (),
      'negatives__judge_below': 0.5, 'negatives__judge_above': 0.5,
      # Those of the retriever: a judge of ours has its own.
      'model__query_length': 10, 'model__passage_length': 20,
      'negatives__mined_dir': str(root / 'mined'), **overrides})


def states(job_type, config, workdir):
  artifact.forget()
  job = job_type(config_lib.parse(config), workdir)
  return {one.title: one.is_made() for one in artifact.closure(job.targets())
          if one.is_listed}


def test_it_goes_by_the_calibration_of_its_training(root, tmp_path, capsys):
  config = make_config(root)
  assert 'calibration' not in states(judge.JudgeJob, config, tmp_path)
  tiny.run(judge.JudgeJob, config, tmp_path)
  printed = capsys.readouterr().out
  assert 'expected calibration error' in printed
  assert 'known positives' in printed and 'above 0.5' in printed
  assert set(states(judge.JudgeJob, config, tmp_path).values()) == {True}
  pool = pool_lib.read(tmp_path / 'pool')
  model = by_name.load_reranker_workdir(root / 'judge')
  assert pool.verdicts.facts['fingerprint'] == model.fingerprint
  known = pool.dropped_by == pool_lib.code('positive')
  others = (pool.rows >= 0) & ~known
  probability = pool.verdicts.probability
  assert probability[known].mean() > probability[others].mean()
  assert 'id="calibration"' in (tmp_path / 'report.html').read_text()


def test_one_plan_judges_and_trains(root, tmp_path):
  config = make_config(
      root, job='train', model__query_length=16, model__passage_length=24,
      loss__distil='margin_mse', loss__distil_weight=0.1, optim__steps=4,
      evaluation__eval_steps=2, negatives__mined_dir=str(tmp_path / 'mined'))
  jobs.check(config_lib.parse(config))
  tiny.run(train.TrainJob, config, tmp_path / 'work')
  assert set(states(train.TrainJob, config, tmp_path / 'work').values()) == {
      True}
  pool = pool_lib.read(tmp_path / 'work' / 'pool')
  assert not (pool.verdicts.probability[pool.is_negative()] >= 0.5).any()
  assert np.isfinite(pool.verdicts.logit[pool.rows >= 0]).all()


def test_a_job_without_a_judge_is_refused(root, tmp_path):
  with pytest.raises(errors.UserError, match='negatives.judge.* is needed'):
    jobs.check(config_lib.parse(make_config(root, negatives__judge='')))
  config = config_lib.parse(make_config(
      root, negatives__judge=str(tmp_path / 'nobody')))
  with pytest.raises(errors.UserError, match='nobody'):
    plan.run(judge.JudgeJob(config, tmp_path).targets())
