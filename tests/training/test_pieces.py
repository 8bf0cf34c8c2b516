"""The log, early stopping, schedules, sharding rules."""

import json
import os
import signal

import jax
import numpy as np
import pytest

from neg_contrast import errors, sharding
from neg_contrast.artifacts import checkpoints, folders
from neg_contrast.batches import batcher
from neg_contrast.settings import config as config_lib
from neg_contrast.training import criterion as criterion_lib
from neg_contrast.training import loop, optimizer, run_log, stop_signals
from neg_contrast.training import state as state_lib

CRITERION = criterion_lib.of_metric('accuracy@1')


def test_log_is_cut_back_to_the_restored_step(tmp_path):
  path = tmp_path / 'log.jsonl'
  path.write_text(''.join(json.dumps({'step': n}) + '\n' for n in (1, 2, 3, 4))
                  + '{"step": 5, "lo')
  run_log.RunLog(tmp_path, 3, 10).close()
  assert [json.loads(line)['step'] for line
          in path.read_text().splitlines()] == [1, 2, 3]


def test_early_stopping_counts_and_prefers_the_earlier_of_equals():
  progress = checkpoints.Progress()
  for step, value in ((1, 0.5), (2, 0.7), (3, 0.7), (4, 0.6)):
    assert not progress.finished
    progress = loop.judge(progress, step, {'accuracy@1': value}, 2, CRITERION)
  assert (progress.best_step, progress.best_value) == (2, 0.7)
  assert progress.evaluations_without_better == 2 and progress.finished


@pytest.mark.parametrize(('criterion', 'best'), [
    (CRITERION, (3, 0.9)), (criterion_lib.LOSS, (2, 0.25))])
def test_the_criterion_says_which_is_better(criterion, best):
  progress = checkpoints.Progress()
  values = {'accuracy@1': (0.5, 0.4, 0.9), 'loss': (0.5, 0.25, 0.3)}
  for step, value in enumerate(values[criterion.name], 1):
    progress = loop.judge(
        progress, step, {'accuracy@1': -1.0, 'loss': 9.0,
                         criterion.name: value}, 5, criterion)
  assert (progress.best_step, progress.best_value) == best
  assert progress.criterion == criterion.name


class Kept(checkpoints.Checkpoints):
  """Checkpoints in memory."""

  def __init__(self):
    self.saved = {}

  def save(self, state, progress):
    self.saved[int(state.step)] = progress

  def wait(self):
    pass


def fit(kept, step=lambda number: None, evaluate=lambda: None, steps=4,
        patience=0):
  """Some steps, an evaluation after every other."""

  def train_step(state, batch):
    step(int(state.step) + 1)
    metrics = {'loss': np.float32(1), 'accuracy': np.float32(0)}
    return state_lib.TrainState(state.step + 1, {}, {}), metrics

  return loop.Trainer(
      train_step, lambda step: ((), batcher.BatchStats(1, 1)),
      lambda params: evaluate() or {'accuracy@1': 0.5}, kept, run_log.NoLog(),
      loop.Schedule(total_steps=steps, eval_steps=2, patience=patience,
                    save_steps=3, log_steps=1, batch_size=1,
                    learning_rate=lambda step: 0.1, criterion=CRITERION),
  ).fit(state_lib.TrainState(np.int32(0), {}, {}), checkpoints.Progress())


def test_a_step_that_takes_too_much_memory():
  def step(number):
    raise jax.errors.JaxRuntimeError(
        'RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.\nmore')

  with pytest.raises(errors.UserError, match=(
      r'a training step takes .* 9 bytes\)\. Set a smaller '
      r'config\.data\.batch_size, config\.model\.chunk_groups=-1 ')) as caught:
    fit(Kept(), step)
  assert len(str(caught.value).splitlines()) == 1


def test_other_errors_of_a_step_are_left_alone():
  def step(number):
    raise jax.errors.JaxRuntimeError('INTERNAL: a bug')

  with pytest.raises(jax.errors.JaxRuntimeError, match='INTERNAL'):
    fit(Kept(), step)


def send(number):
  os.kill(os.getpid(), number)


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize('when', range(1, 5))
def test_a_signal_in_any_step_is_obeyed_after_it(number, when):
  kept, before = Kept(), signal.getsignal(number)
  with pytest.raises(loop.Interrupted) as left:
    fit(kept, lambda step: step == when and send(number))
  assert left.value.code == 128 + number
  assert max(kept.saved) == when
  assert kept.saved[when].finished == (when == 4)
  assert signal.getsignal(number) is before


@pytest.mark.parametrize(('steps', 'patience'), [(4, 0), (6, 1)])
def test_a_signal_in_the_last_evaluation_is_obeyed(steps, patience):
  """Whether steps end there or patience does."""
  kept, calls = Kept(), []

  def evaluate():
    calls.append(1)
    if len(calls) == 2:
      send(signal.SIGTERM)

  with pytest.raises(loop.Interrupted) as left:
    fit(kept, evaluate=evaluate, steps=steps, patience=patience)
  assert left.value.code == 128 + signal.SIGTERM
  assert max(kept.saved) == 4 and kept.saved[4].finished


def test_a_signal_in_an_evaluation_is_obeyed_after_it():
  kept, steps = Kept(), []
  with pytest.raises(loop.Interrupted):
    fit(kept, steps.append, lambda: send(signal.SIGINT))
  assert steps == [1, 2] and list(kept.saved) == [2]


def test_no_signal_ends_with_the_last_step():
  kept = Kept()
  state, progress = fit(kept)
  assert int(state.step) == 4 and progress.finished
  assert list(kept.saved) == [2, 3, 4]


@pytest.mark.parametrize('heard', range(1, 5))
def test_several_leave_after_the_step_that_they_agree_on(heard, monkeypatch):
  """The one after the step at which JAX heard of it, be that the last."""
  asked = []
  monkeypatch.setattr(stop_signals.hosts, 'are_several', lambda: True)
  monkeypatch.setattr(
      stop_signals.multihost_utils, 'reached_preemption_sync_point',
      lambda step: asked.append(step) or step == heard + 1,
  )
  kept = Kept()
  with pytest.raises(loop.Interrupted) as left:
    fit(kept)
  assert left.value.code == 128 + signal.SIGTERM
  last = min(heard + 1, 4)
  assert max(kept.saved) == last and asked == list(range(1, last + 2))


def test_schedules():
  def make(**kw):
    config = config_lib.OptimConfig(learning_rate=0.1, **kw)
    return optimizer.make_schedule(
        config.schedule, optimizer.rates_of(config, 10))

  rates = lambda schedule: [round(float(schedule(s)), 5) for s in range(11)]
  assert rates(make()) == [0.1] * 11
  linear = rates(make(schedule='linear', warmup_steps=2))
  assert linear[:4] == [0.0, 0.05, 0.1, 0.0875] and linear[10] == 0
  assert rates(make(schedule='cosine'))[10] == 0


def test_every_sharding_rule_must_match():
  mesh = sharding.make_mesh(config_lib.MeshConfig(model=2))
  with pytest.raises(ValueError, match='match no parameter'):
    sharding.parameter_shardings({'w': np.zeros(3)}, mesh)


def test_one_process_holds_all():
  mesh = sharding.make_mesh(config_lib.MeshConfig(model=2))
  assert sharding.held(12, mesh).tolist() == list(range(12))


def test_mesh_sizes():
  assert dict(sharding.make_mesh(config_lib.MeshConfig(model=4)).shape) == {
      'data': 2, 'model': 4}
  assert sharding.make_mesh(config_lib.MeshConfig(data=2)).size == 2
  with pytest.raises(errors.UserError, match='does not fit 8 devices'):
    sharding.make_mesh(config_lib.MeshConfig(data=5, model=2))
  assert len(jax.devices()) == 8


def test_unfinished_artifact_is_made_anew(tmp_path):
  folder = tmp_path / 'a'
  with (pytest.raises(RuntimeError),
        folders.writing(folder, {}) as scratch):
    (scratch / 'x').touch()
    raise RuntimeError
  assert folders.read_manifest(folder) is None
  manifest = {'n': 1}
  with folders.writing(folder, manifest) as scratch:
    assert not (scratch / 'x').exists()
    manifest['n'] = 2
  assert folders.read_manifest(folder) == {'n': 2}
