"""Negatives that another program makes again: laws of whole trainings."""

import json
import pathlib
import shutil

import orbax.checkpoint as ocp
import pytest
from absl import logging

from neg_contrast import errors, jobs
from neg_contrast.artifacts import checkpoints as checkpoints_lib
from neg_contrast.artifacts import folders, kept_parts, plan
from neg_contrast.jobs import train as train_job
from neg_contrast.negatives import refresh, served
from neg_contrast.settings import config as config_lib
from neg_contrast.training import follower, run_log
from tests import processes, tiny
from tests.jobs import test_train
from tests.negatives import test_refresh

STEPS, EVERY = test_refresh.STEPS, test_refresh.EVERY
ASYNCHRONOUS = {'negatives__refresh': 'asynchronous'}


@pytest.fixture(autouse=True)
def small(monkeypatch):
  """Three parts of a search, and of filters."""
  test_refresh.use_small_parts(monkeypatch.setattr)


def train(root, workdir, **overrides):
  test_refresh.train(root, workdir, **{**ASYNCHRONOUS, **overrides})


def follower_of(root, workdir, **overrides):
  config = config_lib.parse(tiny.make_config(
      root, evaluation__eval_steps=0,
      **test_refresh.settings(root, **ASYNCHRONOUS, **overrides)))
  run = train_job.TrainJob(config, workdir).run
  return follower.Follower(workdir, run.training())


def follow_at(patch, root, makes):
  """Another program that is ready at some refresh points: step -> checkpoint.
  """
  choose = served.Served.choose

  def made_then_chosen(self, step):
    if step in makes and step not in dict(served_in(self._workdir)):
      assert follower_of(root, self._workdir).make(makes[step])
    return choose(self, step)

  patch.setattr(served.Served, 'choose', made_then_chosen)
  # What is saved in the background would come at any time.
  save = checkpoints_lib.Checkpoints.save
  patch.setattr(checkpoints_lib.Checkpoints, 'save', lambda self, *state: (
      save(self, *state), self.wait()))


def served_in(workdir):
  path = workdir / refresh.FOLDER / served.FILE
  return folders.read_sealed(path)['served'] if path.exists() else []


@pytest.fixture(scope='module')
def late(tmp_path_factory):
  """A finished training whose follower was ready for step 8 alone."""
  root = tmp_path_factory.mktemp('follower')
  with pytest.MonkeyPatch.context() as patch:
    test_refresh.use_small_parts(patch.setattr)
    follow_at(patch, root, {8: 8})
    train(root, root / 'late')
  return root


def test_one_that_is_always_ready_is_the_synchronous_run(late, tmp_path):
  work = tmp_path / 'always'
  shutil.copytree(late / 'late' / 'pool', work / 'pool')
  with pytest.MonkeyPatch.context() as patch:
    follow_at(patch, late, {4: 4, 8: 8})
    train(late, work)
  shutil.copytree(late / 'late' / 'pool', tmp_path / 'waits' / 'pool')
  test_refresh.train(late, tmp_path / 'waits')
  test_refresh.assert_same(tmp_path / 'waits', work)
  assert served_in(work) == [[0, 0], [4, 4], [8, 8]]


def test_what_is_ready_serves_and_is_told(late):
  assert served_in(late / 'late') == [[0, 0], [4, 0], [8, 8]]
  (told,) = test_refresh.records(late / 'late')
  assert told['step'] == 9
  assert (told['refresh']['generation'], told['refresh']['age']) == (8, 0)
  assert told['refresh']['passages'] == 48


@pytest.fixture(scope='module')
def alone(late):
  """The same training without another program; what was told of it."""
  work, told = late / 'alone', []
  shutil.copytree(late / 'late' / 'pool', work / 'pool')
  with pytest.MonkeyPatch.context() as patch:
    test_refresh.use_small_parts(patch.setattr)
    patch.setattr(logging, 'info', lambda text, *_: told.append(str(text)))
    train(late, work)
  return work, told


def test_without_another_program_it_is_the_mined_pool(late, alone, tmp_path):
  work, told = alone
  test_refresh.train(late, tmp_path / 'static', negatives__refresh_steps=0)
  test_train.assert_same_run(work, tmp_path / 'static', STEPS)
  assert served_in(work) == [[0, 0], [4, 0], [8, 0]]
  assert any('is configs/refresh.py running?' in line for line in told)


def test_a_copy_of_its_generations_replays_it(late, alone, tmp_path):
  work = tmp_path / 'again'
  for name in ('pool', refresh.FOLDER):
    shutil.copytree(late / 'late' / name, work / name)
  train(late, work)
  test_refresh.assert_same(late / 'late', work)
  assert test_train.losses_of(work) != test_train.losses_of(
      late / 'late') or served_in(work) == served_in(late / 'late')
  assert test_train.losses_of(alone[0]) != test_train.losses_of(work)


def test_a_resumed_run_takes_what_it_took(late, tmp_path, monkeypatch):
  """Though a newer generation is there by then."""
  work, write = tmp_path / 'work', run_log.RunLog.write_step

  def dies(self, record):
    if record.step == 10:
      raise KeyboardInterrupt
    write(self, record)

  shutil.copytree(late / 'late' / 'pool', work / 'pool')
  with monkeypatch.context() as patch:
    follow_at(patch, late, {8: 8})
    patch.setattr(run_log.RunLog, 'write_step', dies)
    with pytest.raises(KeyboardInterrupt):
      train(late, work, checkpointing__save_steps=5)
  shutil.rmtree(work / 'checkpoints' / '8')  # As if it were not saved yet.
  train(late, work, checkpointing__save_steps=5)
  test_refresh.assert_same(late / 'late', work)


@pytest.mark.parametrize(('owner', 'name', 'after'), [
    (kept_parts.KeptParts, '_write', 1), (kept_parts.KeptParts, '_write', 4),
])
def test_an_interrupted_generation_goes_on_the_same(
    late, tmp_path, monkeypatch, owner, name, after):
  work, calls, original = tmp_path / 'work', [], getattr(owner, name)
  shutil.copytree(late / 'late', work)
  shutil.rmtree(work / refresh.FOLDER / '0000008')
  step = max(int(folder.name) for folder in (work / 'checkpoints').iterdir()
             if folder.name.isdigit())

  def stop(*args, **kwargs):
    calls.append(name)
    if len(calls) == after + 1:
      raise KeyboardInterrupt
    return original(*args, **kwargs)

  with monkeypatch.context() as patch:
    patch.setattr(owner, name, stop)
    with pytest.raises(KeyboardInterrupt):
      follower_of(late, work).make(step)
  assert served.steps_of(work, follower_of(late, work)._training.code) == []
  assert follower_of(late, work).make(step)
  assert not follower_of(late, work).make(step)  # It is there.
  whole = tmp_path / 'whole'
  shutil.copytree(late / 'late', whole)
  assert follower_of(late, whole).make(step)
  for path in sorted((whole / refresh.FOLDER / f'{step:07d}').glob('*.npy')):
    other = work / refresh.FOLDER / f'{step:07d}' / path.name
    assert path.read_bytes() == other.read_bytes()


def test_a_checkpoint_that_is_replaced_is_passed_over(late, tmp_path):
  work = tmp_path / 'work'
  shutil.copytree(late / 'late', work)
  assert not follower_of(late, work).make(3)
  # One that is being removed has lost its first files.
  newest = max(int(path.name) for path in (work / 'checkpoints').glob('[0-9]*'))
  (work / 'checkpoints' / '3').mkdir()
  assert not follower_of(late, work).make(3)
  shutil.rmtree(work / 'checkpoints' / str(newest) / 'params')
  with pytest.raises(errors.UserError, match='checkpoints/'):
    follower_of(late, work).make(newest)


def test_a_checkpoint_that_goes_while_they_are_listed(late, tmp_path):
  work = tmp_path / 'work'
  shutil.copytree(late / 'late' / 'checkpoints', work / 'checkpoints')
  folder = work / 'checkpoints'
  newest = max(int(path.name) for path in folder.glob('[0-9]*'))
  shutil.copytree(folder / str(newest), folder / '1')
  time_of = ocp.path.step.Metadata.commit_timestamp.fget
  looked = []

  def goes(self):
    looked.append(self.step)
    if self.step == 1:
      shutil.rmtree(self.path)
    return time_of(self)

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(ocp.path.step.Metadata, 'commit_timestamp', property(goes))
    with checkpoints_lib.reading(work) as opened:
      assert opened.latest_step() == newest
  assert looked.count(1) == 1


_TRAINS = '''
import pathlib, sys, time
from neg_contrast.negatives import served
from tests.training import test_follower
root, work = map(pathlib.Path, sys.argv[1:])
choose = served.Served.choose

def patient(self, step):
  """Waits until the other program has made what the checkpoint before gives."""
  until = time.monotonic() + 240
  while step >= 8 and not served.steps_of(self._workdir, self._run):
    assert time.monotonic() < until
    time.sleep(.1)
  return choose(self, step)

served.Served.choose = patient
test_follower.train(root, work)
'''


def test_two_programs(late, tmp_path):
  """One trains, one follows, until the first is done."""
  work = tmp_path / 'work'
  shutil.copytree(late / 'late' / 'pool', work / 'pool')
  process = processes.Process(_TRAINS, [late, work])
  config = config_lib.base_config()
  config.job, config.checkpoint = 'follow', str(work)
  job = jobs.make_job(config_lib.parse(config), tmp_path / 'other')
  plan.run(job.targets())
  job.finish()
  assert process.wait(240) == 0, process.communicate(1)
  (*_, (at, made)) = served_in(work)
  assert at == 8 and 0 < made <= 8
  assert not (tmp_path / 'other').exists()
  replay = tmp_path / 'replay'
  for name in ('pool', refresh.FOLDER):
    shutil.copytree(work / name, replay / name)
  train(late, replay)
  test_train.assert_same_run(work, replay, STEPS)


def job_for(workdir):
  config = config_lib.base_config()
  config.job, config.checkpoint = 'follow', str(workdir)
  return jobs.make_job(config_lib.parse(config), pathlib.Path('unused'))


def test_refused(late, tmp_path):
  config = config_lib.base_config()
  config.job = 'follow'
  with pytest.raises(errors.UserError, match='config.checkpoint=.*followed'):
    jobs.check(config_lib.parse(config))
  with pytest.raises(errors.UserError, match='config.negatives.refresh_steps='):
    config_lib.NegativesConfig(('model:2',), refresh='asynchronous')
  work = tmp_path / 'synchronous'
  shutil.copytree(late / 'late' / 'pool', work / 'pool')
  test_refresh.train(late, work, optim__steps=1)
  with pytest.raises(errors.UserError, match='begin it with --config.negative'):
    plan.run(job_for(work).targets())
  said = plan.describe(job_for(work).targets())
  assert '[MISSING] negatives' in said
  assert 'takes no negatives from another program' in said


def test_what_its_plan_says(late, tmp_path):
  targets = job_for(tmp_path / 'later').targets()
  assert plan.describe(targets).splitlines()[1:] == [
      f'  1. [to do  ] negatives  made by each checkpoint of '
      f'{tmp_path / "later"}, until its training ends']
  assert not plan.lacks_something(targets)
  assert not plan.lacks_something(job_for(late / 'late').targets())


def test_it_ends_with_the_training(late, caplog):
  caplog.set_level('INFO')
  plan.run(job_for(late / 'late').targets())
  assert f'the training in {late / "late"} is over' in caplog.text


def test_other_data_is_refused(late, tmp_path):
  root = tmp_path / 'root'
  shutil.copytree(late, root)
  record = json.loads((root / 'late' / 'run.json').read_text())
  record['config']['negatives']['mined_dir'] = str(root / 'mined')
  record['config']['data']['source'] = f'beir:{root / "data"}'
  record['config']['data']['prepared_dir'] = str(root / 'prepared')
  record.pop('sha256')
  sealed = {**record, 'sha256': folders.sha256_json(record)}
  (root / 'late' / 'run.json').write_text(json.dumps(sealed))
  with open(root / 'data' / 'corpus.jsonl', 'a') as f:
    f.write('{"_id": "more", "title": "", "text": "word1"}\n')
  shutil.rmtree(root / 'prepared')
  with pytest.raises(errors.UserError, match='other data, models or neg'):
    plan.run(job_for(root / 'late').targets())


@pytest.mark.parametrize(('damage', 'told'), [
    (lambda path: path.write_text('{'), 'served.json:1: .*Put it back, or tr'),
    (lambda path: folders.write_sealed(path, {'run': 'x', 'served': []}),
     'is of another training; remove'),
    (lambda path: folders.write_sealed(path, {
        **folders.read_sealed(path), 'served': [[0, 0]]}),
     'does not say which negatives were drawn from step 8'),
])
def test_a_damaged_choice_is_told_of(late, tmp_path, damage, told):
  work = tmp_path / 'work'
  shutil.copytree(late / 'late', work)
  run = follower_of(late, work)._training.code
  damage(work / refresh.FOLDER / served.FILE)
  with pytest.raises(errors.UserError, match=told) as raised:
    served.Served(work, run).at(8)
  assert '\n' not in str(raised.value)


def test_a_generation_that_is_missing_is_told_of(late, tmp_path):
  work = tmp_path / 'work'
  shutil.copytree(late / 'late' / 'pool', work / 'pool')
  (work / refresh.FOLDER).mkdir()
  shutil.copy(late / 'late' / refresh.FOLDER / served.FILE,
              work / refresh.FOLDER)
  with pytest.raises(errors.UserError, match=(
      'refreshed/0000008: .* is not there, .* put it back')):
    train(late, work)


def test_what_a_killed_one_left_goes_with_the_next(late, tmp_path):
  work = tmp_path / 'work'
  shutil.copytree(late / 'late', work)
  for step in (4, 9999):
    left = work / refresh.FOLDER / f'{step:07d}.parts' / 'vectors'
    left.parent.mkdir()
    left.write_text('of a checkpoint')
  with checkpoints_lib.reading(work) as checkpoints:
    newest = checkpoints.latest_step()
  assert follower_of(late, work).make(newest)
  assert [path.name for path in (work / refresh.FOLDER).glob('*.parts')] == [
      '0009999.parts']


def test_generations_of_others_are_left_out(late):
  run = follower_of(late, late / 'late')._training.code
  assert served.steps_of(late / 'late', run) == [8]
  assert served.steps_of(late / 'late', 'another') == []


def test_the_plan_says_who_makes_them(late, tmp_path):
  config = config_lib.parse(tiny.make_config(
      late, evaluation__eval_steps=0, evaluation__bm25=False,
      **test_refresh.settings(late, **ASYNCHRONOUS)))
  job = train_job.TrainJob(config, tmp_path)
  assert ('every 4 steps it takes the newest negatives of configs/refresh.py'
          in plan.describe(job.targets()))
