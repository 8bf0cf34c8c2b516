"""Early stopping's passages: chosen once, for all trainings."""

import dataclasses

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import plan
from neg_contrast.jobs import train
from neg_contrast.retrieval import bm25_folder, bm25_search
from neg_contrast.settings import config as config_lib
from neg_contrast.training import run_artifacts, stop_rows
from tests import tiny


def make_config(folder, **overrides):
  """A training of a model that is not there: nothing reads it."""
  (folder / 'model').mkdir(exist_ok=True)
  return config_lib.parse(tiny.make_config(folder, **overrides))


def rows_of(folder, passages, **overrides):
  config = make_config(folder, **overrides)
  job = train.TrainJob(config, folder / 'workdir')
  return stop_rows.StopRows(
      bm25_search.bm25_of(config.evaluation, job.gold), passages, 0)


def test_positives_what_bm25_finds_and_random_ones(tmp_path, monkeypatch):
  monkeypatch.setattr(stop_rows, '_DEPTH', 2)
  made = rows_of(tmp_path, 3)
  plan.run([made])
  rows, tune = made.load(), made.bm25.data.load().train_and_tune[1]
  found = made.bm25.load().search_rows(tune.queries, 2).rows
  drawn = np.random.default_rng(0).choice(48, 3, replace=False)
  expected = {*tune.passage_rows.tolist(), *found.ravel().tolist(),
              *drawn.tolist()} - {-1}
  assert rows.dtype == np.int32 and rows.tolist() == sorted(expected)
  assert len(rows) < 48
  # Others of the same data have other rows.
  for other in (dataclasses.replace(made, seed=1),
                dataclasses.replace(made, passages=4)):
    assert other.folder != made.folder
  other = rows_of(tmp_path, 3, data__tune_fraction=0.6)
  assert other.folder != made.folder
  path = made.folder / 'rows.npy'
  path.write_bytes(path.read_bytes()[:-1] + b'\x7f')
  made.release()
  with pytest.raises(errors.UserError, match=f'{path}: damaged'):
    made.load()


def test_all_passages_need_no_bm25(tmp_path, monkeypatch):
  made = rows_of(tmp_path, 48)
  assert 'bm25' in made.inputs()  # Nobody knows how many there are.
  monkeypatch.setattr(bm25_folder, 'count', None)  # Calling it would fail.
  plan.run([made])
  assert made.load().tolist() == list(range(48))


class Trained:
  """Stands for a training that reads its stop rows, and stops once."""

  calls = 0

  def __init__(self, stop):
    self._stop = stop

  def is_trained(self):
    return False

  def train_once(self):
    assert len(self._stop.load()) < 48
    Trained.calls += 1
    if Trained.calls == 1:
      raise KeyboardInterrupt


def counted(calls, name, call):
  """The same, counting its calls."""
  def counting(*args):
    calls[name] += 1
    return call(*args)

  return counting


def test_a_resumed_training_opens_no_bm25_and_chooses_no_rows(
    tmp_path, monkeypatch
):
  config = config_lib.parse(tiny.make_config(
      tmp_path, evaluation__stop_corpus_passages=1))
  monkeypatch.setattr(stop_rows, '_DEPTH', 1)
  monkeypatch.setattr(run_artifacts.EncoderRun, 'training',
                      lambda self: Trained(self.stop_corpus))
  calls = {'count': 0, 'open_shards': 0, '_choose': 0}
  for owner, name in ((bm25_folder, 'count'), (bm25_folder, 'open_shards'),
                      (stop_rows.StopRows, '_choose')):
    monkeypatch.setattr(owner, name, counted(calls, name, getattr(owner, name)))
  run = train.TrainJob(config, tmp_path / 'workdir').run
  identity = dict(needs=set(run.needs()))
  assert 'stop_rows' not in identity['needs']  # What it follows from is.
  with pytest.raises(KeyboardInterrupt):
    plan.run([run])
  assert calls == {'count': 1, 'open_shards': 1, '_choose': 1}
  plan.run([train.TrainJob(config, tmp_path / 'workdir').run])
  assert Trained.calls == 2
  assert calls == {'count': 1, 'open_shards': 1, '_choose': 1}


def test_without_evaluations_there_are_none(tmp_path):
  config = make_config(tmp_path, evaluation__eval_steps=0)
  run = train.TrainJob(config, tmp_path / 'workdir').run
  assert run.stop_corpus is None
  assert run.inputs() == run.needs()
