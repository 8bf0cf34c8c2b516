"""Whole jobs on a tiny corpus: train, interrupt, resume, evaluate, any mesh."""

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import time

import jax
import numpy as np
import pytest

from neg_contrast import device_memory, errors
from neg_contrast.artifacts import artifact, checkpoints, folders, plan
from neg_contrast.evaluation import per_query, summary, trec
from neg_contrast.jobs import evaluate, search, train
from neg_contrast.jobs.common import declared_runs
from neg_contrast.losses import dual_encoder_loss
from neg_contrast.models import by_name, given, loading
from neg_contrast.settings import config as config_lib
from neg_contrast.training import loop, run_record
from tests import processes, tiny


def run_train(config, workdir):
  return tiny.run(train.TrainJob, config, workdir)


def losses_of(workdir):
  lines = (workdir / 'log.jsonl').read_text().splitlines()
  records = [json.loads(line) for line in lines]
  return {r['step']: r['loss'] for r in records if 'loss' in r}


def params_of(workdir, step):
  spec, _, _ = loading.read_description(workdir)
  opened = checkpoints.Checkpoints(workdir)
  params = opened.restore_params('encoder', loading.shape_of(spec), step)
  opened.close()
  return params


@contextlib.contextmanager
def copied_at(step, work, copy):
  """Copies a workdir when its training has saved a step.

  The copy is what a run that is killed there leaves; the training goes on.
  """
  pause = loop.Trainer._pause

  def pause_and_copy(self, state, progress, now):
    progress = pause(self, state, progress, now)
    self._checkpoints.wait()
    if (work / checkpoints.FOLDER / str(step)).exists() and not copy.exists():
      shutil.copytree(work, copy)
    return progress

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(loop.Trainer, '_pause', pause_and_copy)
    yield
  assert max(losses_of(copy)) == step < max(losses_of(work))
  with checkpoints.reading(copy) as opened:
    assert opened.latest_step() == step


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
  """A finished run: its folder and config."""
  root = tmp_path_factory.mktemp('run')
  config = tiny.make_config(root)
  run_train(config, root / 'work')
  return root


def test_leaves_metrics_runs_checkpoint_and_log(finished):
  work = finished / 'work'
  metrics = json.loads((work / 'metrics.json').read_text())
  for system in ('bm25', 'initial', 'trained'):
    assert 0 <= metrics[f'data/test/{system}/accuracy@1'] <= 1
    folder = work / 'evaluation' / f'data-test-{system}'
    run = trec.read_run(folder / 'run.trec')
    assert len(run) == 12
  records = [json.loads(line) for line
             in (work / 'log.jsonl').read_text().splitlines()]
  steps = [r['step'] for r in records if 'loss' in r]
  assert steps == list(range(1, 21))
  assert [r['step'] for r in records if 'evaluation' in r] == [5, 10, 15, 20]
  for key in ('forward_loss', 'backward_loss', 'gradient_norm', 'accuracy',
              'learning_rate', 'queries_per_second', 'padding',
              'useful_tokens_per_second', 'step_seconds', 'host_wait_seconds'):
    assert key in records[0]
  assert list((work / 'tensorboard').iterdir())


def test_second_run_does_nothing(finished):
  config = tiny.make_config(finished)
  work = finished / 'work'
  before = {p: p.stat().st_mtime_ns for p in (work / 'checkpoints').rglob('*')}
  run_train(config, work)
  after = {p: p.stat().st_mtime_ns for p in (work / 'checkpoints').rglob('*')}
  assert before == after


def test_other_settings_are_refused(finished):
  config = tiny.make_config(finished, optim__learning_rate=2e-3)
  with pytest.raises(errors.UserError,
                     match='optim.learning_rate: 0.001 there, 0.002 here'):
    run_train(config, finished / 'work')


def test_a_key_that_came_later_had_its_default(finished, tmp_path):
  """A run of an earlier revision is not refused for keys it did not know."""
  shutil.copytree(finished / 'work', tmp_path / 'work')
  path = tmp_path / 'work' / run_record.FILE
  saved = run_record.RunRecord(tmp_path / 'work').read()
  for section, keys in (('loss', ('candidates', 'adjusted')),
                        ('model', ('score',)), ('optim', ('learning_rate',))):
    for key in keys:
      del saved['identity']['settings'][section][key]
  del saved['identity']['settings']['evaluation']
  folders.write_json(path, {**saved, 'sha256': folders.sha256_json(saved)})
  check = lambda **settings: train.TrainJob(
      config_lib.parse(tiny.make_config(finished, **settings)),
      tmp_path / 'work',
  ).run.is_made()
  default = {'optim__learning_rate': config_lib.OptimConfig().learning_rate,
             'evaluation__eval_steps': 0}
  assert check(**default)
  with pytest.raises(errors.UserError) as refused:
    check(**{**default, 'loss__candidates': 'own', 'loss__bidirectional': False,
             'optim__learning_rate': 2e-3})
  assert str(refused.value).splitlines()[1:-1] == [
      '  config.loss.bidirectional: True there, False here',
      "  config.loss.candidates: 'batch' there, 'own' here",
      '  config.optim.learning_rate: 1e-05 there, 0.002 here',
  ]


def test_training_starts_from_a_workdir(finished):
  config = tiny.make_config(finished)
  config.model.init = str(finished / 'work')
  start = lambda: declared_runs.start(config_lib.parse(config)).load()
  trained = by_name.load_workdir(finished / 'work')
  assert start().fingerprint == trained.fingerprint
  config.model.passage_length = 20
  with pytest.raises(errors.UserError, match='was trained with 24'):
    start()


def test_evaluate_job_gives_the_same_numbers(finished, tmp_path):
  config = tiny.make_config(finished, job='evaluate',
                            checkpoint=str(finished / 'work'))
  job = evaluate.EvaluateJob(config_lib.parse(config), tmp_path)
  plan.run(job.targets())
  job.finish()
  again = json.loads((tmp_path / 'metrics.json').read_text())
  first = json.loads((finished / 'work' / 'metrics.json').read_text())
  assert again == {k: v for k, v in first.items() if '/initial/' not in k}


def test_evaluate_bert_folder(finished, tmp_path):
  config = tiny.make_config(
      finished, job='evaluate', checkpoint=str(finished / 'model'),
      evaluation__bm25=False, evaluation__answer_ks=(1, 5),
      evaluation__dpr_results=True,
  )
  job = evaluate.EvaluateJob(config_lib.parse(config), tmp_path)
  plan.run(job.targets())
  job.finish()
  folder = tmp_path / 'evaluation' / 'data-test-initial'
  found = trec.read_run(folder / 'run.trec')
  results = json.loads((folder / 'results.json').read_text())
  assert [[context['id'] for context in result['ctxs']]
          for result in results] == [
              [name for name, _ in ranking] for ranking in found.values()
          ]
  table = per_query.read(folder / 'per_query.tsv')
  assert table['answer_accuracy@1'] == {
      query: float(result['ctxs'][0]['has_answer'])
      for query, result in zip(found, results, strict=True)
  }
  line = (folder / 'per_query.tsv').read_text().splitlines()[1].split('\t')
  query, ranking = next(iter(found.items()))
  own = f'd{query[1:].replace("-", "p")}'  # Its positive, as tiny names it.
  names = [name for name, _ in ranking]
  assert line[0] == query and line[3] == names[0]
  assert line[2] == (str(names.index(own) + 1) if own in names else '')
  assert line[4] == str(int(names[0] == own))
  values = json.loads((tmp_path / 'metrics.json').read_text())
  first = json.loads((finished / 'work' / 'metrics.json').read_text())
  assert (values['data/test/initial/accuracy@5']
          == first['data/test/initial/accuracy@5'])
  assert (values['data/test/initial/answer_accuracy@5']
          >= values['data/test/initial/accuracy@5'])


@pytest.mark.parametrize('mesh', [
    {'mesh__data': 1, 'model__chunk_groups': 2},
    {'mesh__data': 2, 'mesh__model': 2},
])
def test_any_mesh_gives_the_same_losses(finished, tmp_path, mesh):
  """Dropout on, N = 2, 20 steps; the other run used eight devices.

  With a gradient cache on one of them, too; on two times two it is in the tests
  of shared negatives, of features and of LoRA.
  """
  assert len(jax.devices()) == 8
  tiny.train_only(finished, tmp_path, **mesh)
  want, got = losses_of(finished / 'work'), losses_of(tmp_path)
  assert min(want.values()) > 0.5
  assert want.keys() == got.keys()
  for step, value in want.items():
    # Relative 1e-5 where losses are above 1, as the contract says.
    assert abs(got[step] - value) <= 1e-5 * max(1, value), step


def test_automatic_chunks_are_settled_once(finished, tmp_path, monkeypatch):
  """By what the compiler says; the run's folder remembers."""
  few = {'optim__steps': 2, 'mesh__data': 1, 'data__groups': 2,
         'model__chunk_groups': -1}
  used, compiled = [], device_memory.bytes_of_step
  monkeypatch.setattr(device_memory, 'bytes_of_step', lambda *args: (
      used.append(compiled(*args)) or used[-1]
  ))
  monkeypatch.setattr(device_memory, 'limit', lambda: 0)
  with pytest.raises(errors.UserError, match='not even one group'):
    tiny.train_only(finished, tmp_path, **few)
  plain, cached = used
  assert cached < plain
  monkeypatch.setattr(device_memory, 'limit', lambda: cached)
  tiny.train_only(finished, tmp_path, **few)
  saved = json.loads((tmp_path / 'run.json').read_text())
  assert saved['config']['model']['chunk_groups'] == 1
  assert saved['row_lengths'] == {'shared': 64}
  assert used == [plain, cached] * 2
  assert list(losses_of(tmp_path)) == [1, 2]


def command(root, workdir, steps=20):
  code = (
      'import pathlib\n'
      'from absl import logging\n'
      'from tests import tiny\n'
      'from tests.jobs import test_train\n'
      'logging.set_verbosity(logging.INFO)\n'
      f'config = tiny.make_config(pathlib.Path({str(root)!r}), '
      f'optim__steps={steps}, evaluation__bm25=False, '
      'evaluation__patience=6)\n'
      f'test_train.run_train(config, pathlib.Path({str(workdir)!r}))\n'
  )
  env = dict(os.environ, XLA_FLAGS=processes.with_devices(1))
  return processes.Process(code, env=env)


def wait(process):
  output = process.communicate(timeout=300)
  assert process.returncode == 0, output


def wait_for(condition, process, seconds=120):
  end = time.monotonic() + seconds
  while time.monotonic() < end and process.poll() is None:
    if condition():
      return
    time.sleep(0.005)
  assert condition(), process.communicate()


def assert_same_run(first, second, step):
  assert losses_of(first) == losses_of(second)  # To the last bit.
  jax.tree.map(np.testing.assert_array_equal, params_of(first, step),
               params_of(second, step))


# What the command prints when it gets there; None: a checkpoint is being made.
MOMENTS = {
    'compiling': 'training: ', 'in a step': 'step ', 'saving': None,
    'evaluating': 'encoding passages', 'before the save': ': tune ',
}


def kill_at(process, moment, work, rng):
  """kill -9 at a moment, plus a little; whether it came before the end."""
  mark = MOMENTS[moment]
  if mark is None:
    while process.poll() is None and not list(
        work.glob('checkpoints/*orbax-checkpoint-tmp*')):
      time.sleep(0.001)
  else:
    trained = False
    for line in process.lines():
      trained = trained or 'training: ' in line
      if trained and mark in line:
        break
  time.sleep(rng.uniform(0, 0.1))
  came = process.poll() is None
  process.kill()
  process.communicate()
  return came


def test_killed_at_any_moment_ends_the_same(finished, tmp_path):
  """Nothing is lost and nothing differs; KILLS=10 does each moment twice."""
  wait(command(finished, tmp_path / 'whole', steps=40))
  work = tmp_path / 'killed'
  rng = np.random.default_rng(int(time.time()))
  moments = rng.permutation(list(MOMENTS) * 2)
  for moment in moments[:int(os.environ.get('KILLS', '3'))]:
    came = kill_at(command(finished, work, steps=40), moment, work, rng)
    saved = sorted(int(p.name) for p in work.glob('checkpoints/*')
                   if p.name.isdigit())
    print(f'killed {moment} ({"in time" if came else "too late"}), '
          f'checkpoints {saved}')
  wait(command(finished, work, steps=40))
  last = max(losses_of(work))
  assert_same_run(tmp_path / 'whole', work, last)
  steps = [json.loads(line)['step'] for line
           in (work / 'log.jsonl').read_text().splitlines() if 'loss' in line]
  assert steps == list(range(1, last + 1))


def test_sigterm_saves_and_leaves(finished, tmp_path):
  work = tmp_path / 'stopped'
  process = command(finished, work, steps=2000)
  log = work / 'log.jsonl'
  wait_for(lambda: log.exists() and '"loss"' in log.read_text(), process)
  process.send_signal(signal.SIGTERM)
  process.communicate(timeout=120)
  assert process.returncode == 128 + signal.SIGTERM
  latest = max(int(p.name) for p in (work / 'checkpoints').iterdir()
               if p.name.isdigit())
  assert max(losses_of(work)) == latest


def test_saved_state_is_the_state_at_saving(tmp_path, finished):
  """Steps that donate their state after a save do not reach the checkpoint."""
  del finished
  adam_like = {'w': np.random.default_rng(0).normal(size=(300, 300))}
  state = jax.tree.map(jax.numpy.float32, adam_like)
  import optax

  from neg_contrast.training import state as state_lib
  optimizer = optax.adam(1e-1)
  state = state_lib.init_state(state, optimizer)
  step = jax.jit(
      lambda s: state_lib.TrainState(
          s.step + 1, jax.tree.map(lambda a: a * 1.01 + 0.5, s.params),
          jax.tree.map(lambda a: a + 1, s.opt_state)),
      donate_argnums=0,
  )
  state = step(state)
  copy = jax.tree.map(lambda a: np.array(a, copy=True), state)
  opened = checkpoints.Checkpoints(tmp_path, writes=True)
  opened.save(state, checkpoints.Progress())
  for _ in range(50):
    state = step(state)
  opened.wait()
  like = jax.tree.map(
      lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding),
      state)
  restored, _ = opened.restore(like, 1)
  opened.close()
  jax.tree.map(np.testing.assert_array_equal, restored, copy)


def test_nan_loss_names_step_and_checkpoint(finished, tmp_path, monkeypatch):
  make = dual_encoder_loss.make_loss  # No setting gives such a scale.
  monkeypatch.setattr(
      dual_encoder_loss, 'make_loss',
      lambda form, encoder, scale, *rest: make(form, encoder, 1e39, *rest))
  with pytest.raises(errors.UserError,
                     match=r'step \d+: the loss is (nan|inf)'):
    tiny.train_only(finished, tmp_path, mesh__data=1)


def test_early_stopping_keeps_the_best(finished, tmp_path):
  config = tiny.make_config(
      finished, evaluation__bm25=False, evaluation__patience=1,
      evaluation__eval_steps=2, optim__learning_rate=1e-12, optim__steps=20,
      mesh__data=1,
  )
  run_train(config, tmp_path)
  assert max(losses_of(tmp_path)) == 4  # The second evaluation was no better.
  opened = checkpoints.Checkpoints(tmp_path)
  assert opened.selected_step() == 2
  opened.close()


def test_dpr_trains_in_one_direction(finished, tmp_path):
  """Separate encoders, plain dot products, query to passage alone."""
  config = tiny.make_config(
      finished, model__shared=False, model__normalize=False, loss__scale=1.0,
      loss__bidirectional=False, optim__steps=2, evaluation__eval_steps=0,
  )
  run_train(config, tmp_path)
  records = [json.loads(line) for line
             in (tmp_path / 'log.jsonl').read_text().splitlines()]
  losses = [(r['loss'], r['forward_loss'], r['backward_loss'])
            for r in records if 'loss' in r]
  assert len(losses) == 2
  for loss, forward, backward in losses:
    assert loss == pytest.approx(forward) != pytest.approx(backward)


def test_separate_towers_and_learned_scale(finished, tmp_path):
  tiny.train_only(
      finished, tmp_path, mesh__data=1, model__shared=False,
      model__projection_dim=5, loss__learn_scale=True, optim__steps=4,
      negatives__sources=('corpus:2',), optim__optimizer='adamw',
      optim__weight_decay=0.01, optim__clip_norm=1.0,
      optim__schedule='linear', optim__warmup_steps=2,
  )
  params = params_of(tmp_path, 4)
  kernels = [params[t]['projection']['kernel'] for t in ('query', 'passage')]
  assert kernels[0].shape == (16, 5)
  assert np.abs(kernels[0] - kernels[1]).max() > 0
  lines = [json.loads(line) for line
           in (tmp_path / 'log.jsonl').read_text().splitlines()]
  assert lines[0]['scale'] == pytest.approx(20)
  assert lines[0]['learning_rate'] == 0


def two_stages(root):
  """A training that goes on from another, all below one folder."""
  few = {'mesh__data': 1, 'data__groups': 1, 'negatives__sources': (),
         'evaluation__eval_steps': 0, 'evaluation__bm25': False,
         'checkpointing__save_steps': 2}
  config = tiny.make_config(root, optim__steps=6, **few)
  config.stage1 = tiny.make_config(root, optim__steps=2, **few)
  config.stage1.workdir = str(root / 'first')
  return config_lib.parse(config)


def test_batches_that_come_once_more_are_told(finished, tmp_path, caplog):
  """And not those of another seed, or of other data."""
  def go_on(name, **keys):
    caplog.clear()
    config = tiny.make_config(finished, optim__steps=2, **keys)
    config.model.init = str(finished / 'work')
    run_train(config, tmp_path / name)
    return [line for line in caplog.messages if 'come once more' in line]

  assert go_on('same') == [
      f'{finished / "work"} has the same data and the same seed: its batches '
      'come once more, in the same order. Another config.seed gives others']
  assert not go_on('seed', seed=1)
  assert not go_on('data', data__tune_fraction=0.4)


def test_a_stage_1_without_a_workdir_lies_in_that_of_its_training(tmp_path):
  """So two trainings with other settings never meet."""
  config = two_stages(tmp_path)
  own = dataclasses.replace(
      config, stage1=dataclasses.replace(config.stage1, workdir=''))
  for name in ('one', 'two'):
    job = train.TrainJob(own, tmp_path / name)
    assert job.stage1.run.workdir == tmp_path / name / 'stage1'
    assert isinstance(job.run.start, given.Start)
    assert job.run.start.checkpoint == str(tmp_path / name / 'stage1')


def test_a_tree_that_was_moved_goes_on(tmp_path):
  """Data, stage 1 and a training that was interrupted, all at another place."""
  here, there, cut = (tmp_path / name for name in ('here', 'there', 'cut'))
  here.mkdir()
  with copied_at(4, here / 'work', cut):
    plan.run(train.TrainJob(two_stages(here), here / 'work').targets())
  whole = losses_of(here / 'work')
  shutil.rmtree(here / 'work')
  cut.rename(here / 'work')
  here.rename(there)
  first = (there / 'first' / 'log.jsonl').stat().st_mtime_ns
  job = train.TrainJob(two_stages(there), there / 'work')
  plan.run([job.gold])  # Prepared anew: its place is another.
  states = {one.title: one.is_made() for one in artifact.closure(job.targets())
            if one.name == 'training'}
  assert states == {'stage 1: training': True, 'training': False}
  plan.run(job.targets())
  assert (there / 'first' / 'log.jsonl').stat().st_mtime_ns == first
  assert losses_of(there / 'work') == whole


def test_a_random_projection_is_not_evaluated(tmp_path, caplog):
  """Its row is left out, and a line says so; with stage 1 there is a start."""
  def systems(**overrides):
    config = config_lib.parse(tiny.make_config(tmp_path, **overrides))
    job = train.TrainJob(config, tmp_path / 'w')
    return [one.name for one in job.targets()]

  with caplog.at_level('INFO'):
    assert systems() == ['data', 'bm25', 'initial', 'training', 'trained']
    assert not caplog.messages
    assert systems(model__projection_dim=8) == [
        'data', 'bm25', 'training', 'trained']
  assert caplog.messages == [
      'initial is not evaluated: the projection on top of '
      f'{tmp_path / "model"} (config.model.projection_dim) is random before '
      'the training']
  config = tiny.make_config(tmp_path, model__projection_dim=8)
  config.stage1 = tiny.make_config(
      tmp_path, model__projection_dim=8, workdir=str(tmp_path / 'first'))
  config.evaluation.untouched = True
  job = train.TrainJob(config_lib.parse(config), tmp_path / 'w')
  names = [one.name for one in job.targets()]
  assert 'initial' in names and 'untouched' not in names


def test_untouched_and_hybrid_are_rows_by_switch(finished, tmp_path, capsys):
  """What stage 1 began with, and BM25 with the result, in the order of work."""
  few = {'optim__steps': 2, 'evaluation__eval_steps': 2}
  config = tiny.make_config(
      finished, evaluation__untouched=True, evaluation__hybrid=True,
      evaluation__bm25_k1=20.0, evaluation__bm25_b=0.0, **few)
  config.stage1 = tiny.make_config(
      finished, workdir=str(tmp_path / 'first'), **few)
  tiny.run(train.TrainJob, config, tmp_path / 'work')
  run_of = lambda work, system: next(
      (work / 'evaluation').glob(f'*-{system}')
  ).joinpath('run.trec').read_text().replace(system, 'system')
  work = tmp_path / 'work'
  assert run_of(work, 'untouched') == run_of(finished / 'work', 'initial')
  assert run_of(work, 'initial') != run_of(work, 'untouched')
  ids = lambda system: set(
      re.findall('^(\\S+) Q0', run_of(work, system), re.M))
  assert ids('hybrid') == ids('trained') == ids('bm25')
  tuned = folders.read_json(work / 'weights' / 'manifest.json')['tuned']
  assert len(tuned['hybrid']['weights']) == 2
  _searches_as_the_hybrid(finished, work, run_of(work, 'hybrid'), capsys)


def _searches_as_the_hybrid(root, work, run, capsys):
  """`job=search` ranks and scores as the row does, with the table it made.

  So it does whatever its own k1 and b of BM25 are.
  """
  query, _, first, _, score, _ = run.split('\n')[0].split()
  text = next(json.loads(line)['text'] for line
              in (root / 'data' / 'queries.jsonl').open()
              if json.loads(line)['_id'] == query)
  config = tiny.make_config(
      root, job='search', checkpoint=str(work), query=text,
      evaluation__depth=1, evaluation__hybrid=True)
  capsys.readouterr()
  tiny.run(search.SearchJob, config, work.parent / 'search')
  answer = capsys.readouterr().out
  assert f'  1. {float(score):.4f}  ' in answer and f'[{first}]' in answer
  assert not list((work.parent / 'search').rglob('*.npy'))
  other = work.parent / 'other'  # Whose training did not tune these weights.
  shutil.copytree(root / 'work', other)
  shutil.copytree(work / 'weights', other / 'weights')
  config.checkpoint = str(other)
  with pytest.raises(errors.UserError, match='other are of another model '
                     'than is there now; train there again'):
    search.SearchJob(config_lib.parse(config), work.parent / 'none').targets()
  config.checkpoint = str(root / 'work')
  with pytest.raises(errors.UserError, match=r'work has none\. Train with'):
    search.check(config_lib.parse(config))


def test_a_hybrid_of_several_vectors_is_refused_at_once(tmp_path):
  config = config_lib.parse(tiny.make_config(
      tmp_path, evaluation__hybrid=True, model__score='poly-16'))
  with pytest.raises(errors.UserError, match='evaluation.hybrid.*model.score'):
    train.check(config)


def test_systems_are_told_in_the_order_of_work():
  names = ['hybrid', 'mine', 'trained', 'bm25', 'untouched', 'initial']
  assert sorted(names, key=summary.place_of) == [
      'bm25', 'untouched', 'initial', 'trained', 'hybrid', 'mine']
