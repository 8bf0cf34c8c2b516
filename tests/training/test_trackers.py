"""Where curves go beside the log."""

import sys
import types
from typing import Any

import pytest

from neg_contrast import errors
from neg_contrast.training import run_log, trackers
from tests import tiny


class Stand:
  """Stands for the package wandb: the two calls that are used."""

  def __init__(self, fails=None):
    self.given, self.logged, self.finished = [], [], 0
    module: Any = types.ModuleType('wandb')
    module.init = self.init
    self.module = module
    self.fails = fails

  def init(self, **given):
    if self.fails:
      raise self.fails
    self.given.append(given)
    return self

  def log(self, values, step):
    self.logged.append((step, dict(values)))

  def finish(self):
    self.finished += 1


@pytest.fixture
def wandb(monkeypatch):
  stand = Stand()
  monkeypatch.setitem(sys.modules, 'wandb', stand.module)
  return stand


def record(step):
  return run_log.StepRecord(
      step=step, loss=2.5 / step, learning_rate=0.1, queries_per_second=3.0,
      useful_tokens_per_second=5.0, padding=0.25, step_seconds=0.5,
      host_wait_seconds=0.0, values={'accuracy': 0.5},
      contrast={'bm25': {'score': 0.75, 'mass': 0.5, 'accuracy': 1.0,
                         'gradient': 0.1}})


def test_values_of_a_step_are_sent_together(tmp_path, wandb):
  with run_log.opened(tmp_path, 0, 2, tracker=lambda: trackers.opened(
      tmp_path, 0, 'my project', {'seed': 3})) as log:
    log.write_step(record(1))
    log.write_step(record(2))
    log.write_evaluation(2, {'accuracy@1': 0.25})
  (given,) = wandb.given
  assert given['project'] == 'my project' and given['config'] == {'seed': 3}
  assert given['name'] == tmp_path.name and given['resume'] == 'allow'
  assert [step for step, _ in wandb.logged] == [1, 2]
  last = wandb.logged[1][1]
  assert last['train/loss'] == 1.25 and last['tune/accuracy@1'] == 0.25
  assert last['train/mass/bm25'] == 0.5 and wandb.finished == 1
  assert list((tmp_path / 'tensorboard').iterdir())


def test_the_key_of_a_training_names_its_project(tmp_path, wandb):
  tiny.train_only(tmp_path, tmp_path / 'work', optim__steps=2, seed=5,
                  checkpointing__wandb_project='mine', negatives__sources=())
  (given,) = wandb.given
  assert given['project'] == 'mine' and given['name'] == 'work'
  assert given['config']['seed'] == 5 and given['config']['optim']['steps'] == 2
  assert [step for step, _ in wandb.logged] == [1, 2] and wandb.finished == 1


def test_nothing_is_opened_beside_a_damaged_log(tmp_path, wandb):
  (tmp_path / run_log.FILE).write_text('no record\n')
  with pytest.raises(errors.UserError, match='line 1: damaged'), run_log.opened(
      tmp_path, 0, 2, tracker=lambda: trackers.opened(tmp_path, 0, 'mine')):
    pass
  assert not wandb.given


def test_a_resumed_run_is_the_same_one(tmp_path, wandb):
  for folder in (tmp_path / 'a', tmp_path / 'a', tmp_path / 'b'):
    folder.mkdir(exist_ok=True)
    trackers.opened(folder, 0, 'x').close()
  ids = [given['id'] for given in wandb.given]
  assert ids[0] == ids[1] != ids[2]


def test_it_is_not_imported_without_a_project(tmp_path, monkeypatch):
  monkeypatch.setitem(sys.modules, 'wandb', None)  # Importing it fails.
  trackers.opened(tmp_path, 0).close()
  with pytest.raises(errors.UserError, match=(
      "config.checkpointing.wandb_project='x': .* pip install wandb")):
    trackers.opened(tmp_path, 0, 'x')


def test_a_refused_run_is_named(tmp_path, monkeypatch):
  stand = Stand(fails=RuntimeError('no login'))
  monkeypatch.setitem(sys.modules, 'wandb', stand.module)
  with pytest.raises(errors.UserError, match='no login. Log in .*offline'):
    trackers.opened(tmp_path, 0, 'x')
