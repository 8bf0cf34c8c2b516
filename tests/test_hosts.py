"""Several processes on this machine, with simulated devices, as one program."""

import functools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from neg_contrast import hosts, sharding
from neg_contrast.artifacts import checkpoints
from neg_contrast.data import tfds_records
from neg_contrast.jobs import mine, train
from neg_contrast.retrieval import mesh_search
from neg_contrast.settings import config as config_lib
from tests import hosts_worker, processes, tiny
from tests.jobs import (
  test_mixture,
  test_nce_bias,
  test_stage1,
  test_train,
  test_train_retrieved,
)
from tests.retrieval import test_mesh_search

ROOT = pathlib.Path(__file__).parents[1]
STEPS = 30


def free_port():
  with socket.socket() as s:
    s.bind(('127.0.0.1', 0))
    return s.getsockname()[1]


def start(count, devices, *tasks, heartbeat=300, env_of=lambda number: {}):
  """Processes with so many devices each, which do tasks of `hosts_worker`.

  A busy machine can keep one from its heartbeat for long. Each has what
  `env_of` its number gives in its environment too.
  """
  port, started = free_port(), []
  for number in range(count):
    env = dict(
        os.environ, NPROC='16', JAX_PLATFORMS='cpu',
        XLA_FLAGS=processes.with_devices(devices),
        COORDINATOR=f'127.0.0.1:{port}', PROCESSES=str(count),
        PROCESS=str(number), HEARTBEAT=str(heartbeat), **env_of(number),
    )
    started.append(processes.Process(
        'from tests import hosts_worker\nhosts_worker.main()',
        [json.dumps(tasks, default=str)], env=env,
    ))
  return started


def outputs_of(started, codes=(0,)):
  """What they print, once all have ended with one of the codes."""
  try:
    told = [''.join(process.communicate(timeout=900))
            for process in started]
  finally:
    for process in started:
      process.kill()
      process.wait()
  for process, text in zip(started, told, strict=True):
    first = max(text.find('Traceback'), 0)  # What follows may be but its echo.
    assert process.returncode in codes, f'{text[first:][:6000]}\n{text[-3000:]}'
  return told


def config_file(folder, root, module='tiny', call='make_config', **overrides):
  """A file for --config; the config of a call on a folder, anywhere."""
  path = folder / f'config{len(list(folder.glob("config*.py")))}.py'
  path.write_text(
      'from neg_contrast.artifacts import places\n'
      f'import tests.{module}\n\n\n'
      'def get_config():\n'
      f'  return tests.{module}.{call}(places.path({str(root)!r}), '
      f'**{overrides!r})\n'
  )
  return path


def command(folder, root, workdir, **kwargs):
  """The task of a whole command."""
  path = config_file(folder, root, **kwargs)
  return 'command', f'--config={path}', f'--workdir={workdir}'


def job(folder, root, workdir, **kwargs):
  """The task of a job alone."""
  return 'job', config_file(folder, root, **kwargs), workdir


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  """A corpus and a model; runs over them by this process alone."""
  folder = tmp_path_factory.mktemp('hosts')
  config = tiny.make_config(folder, **SETTINGS)
  tiny.run(train.TrainJob, config, folder / 'alone')
  tiny.write_beir(folder / 'mined' / 'data', documents=60)
  tiny.write_model(folder / 'mined' / 'model')
  with pytest.MonkeyPatch.context() as patch:
    hosts_worker.use_small_parts(patch.setattr)
    tiny.run(mine.MineJob,
             tiny.make_config(folder / 'mined', **mining_of(folder, 'alone')),
             folder / 'mined' / 'alone' / 'work')
    (folder / 'questions').mkdir()
    test_stage1.make_pairs(test_stage1.make_config(
        folder / 'questions', **pairs_of(folder / 'questions', 'alone')))
  return folder


def pairs_of(root, name):
  """Settings of pairs with cuts, which go into a folder of this name."""
  return {'synthetic__pairs': 'inverse_cloze', 'synthetic__per_passage': 2,
          'synthetic__dir': str(root / 'pairs' / name)}


def pairs(folder, root, name):
  """The task of making them."""
  path = config_file(folder, root / 'questions', 'jobs.test_stage1',
                     **pairs_of(root / 'questions', name))
  return 'pairs', path


def mining_of(root, name):
  """Settings of a job that mines into a folder of this name."""
  return {
      'job': 'mine', 'checkpoint': str(root / 'mined' / 'model'),
      'negatives__sources': ('model+bm25+context:2',),
      'negatives__depth': 20, 'negatives__pool_size': 10,
      'negatives__mined_dir': str(root / 'mined' / name / 'mined'),
      'index__chunk_tokens': 1, 'index__table_rows': 64,
  }


def mixture_of(root, name):
  """Settings of a training on two sets; pools and topics go into a folder."""
  return {'negatives__mined_dir': str(root / 'mixed' / name),
          'data__together': 'topic:2', 'data__topics': 3,
          'evaluation__bm25': False, 'optim__steps': 6,
          'evaluation__eval_steps': 3}


SETTINGS = {'optim__steps': STEPS, 'evaluation__eval_steps': 10,
            'evaluation__bm25': False}


REMEMBERING = {
    'negatives__sources': ('sampled:4', 'queue:16', 'shared_corpus:5'),
    'negatives__hard_percent': 50.0, 'negatives__momentum': 0.9,
    'optim__ema': 0.5, 'optim__steps': 4,
}
TRAININGS = {'remembering': REMEMBERING, 'retrieved': test_train_retrieved.LTRE}


@pytest.fixture(scope='module')
def wide(tmp_path_factory):
  """A larger model, of 0.6 million parameters, and a plain run with it.

  Its weights are not as wild as those of the small one, where a gradient is
  a thousand times less certain than its numbers are.
  """
  folder = tmp_path_factory.mktemp('wide')
  tiny.write_beir(folder / 'data')
  tiny.write_model(folder / 'model', hidden_size=128, num_layers=4,
                   intermediate_size=256, initializer_range=0.05)
  with pytest.MonkeyPatch.context() as patch:
    held = watch_optimizer_state(patch)
    tiny.train_only(folder, folder / 'plain', **WIDE, **BIAS)
  return folder, held[-1]


WIDE = {'optim__steps': 4, 'optim__learning_rate': 1e-3}
BIAS = {'nce__log_steps': 4, 'nce__queries': 4, 'nce__labels': 9,
        'nce__draws': 2}


def watch_optimizer_state(patch):
  """Bytes of its leaves, and on a device: those of every save, in a list."""
  save, held = checkpoints.Checkpoints.save, []

  def saving(self, state, progress):
    leaves = jax.tree.leaves(state.opt_state)
    held.append(([leaf.nbytes for leaf in leaves], max(
        sum(shard.data.nbytes for leaf in leaves
            for shard in leaf.addressable_shards if shard.device == device)
        for device in jax.devices()
    )))
    save(self, state, progress)

  patch.setattr(checkpoints.Checkpoints, 'save', saving)
  return held


@pytest.fixture(scope='module')
def four(root, wide, tmp_path_factory):
  """What four processes save and train, in one program; what they print.

  In a mesh of 4 x 2 with FSDP.
  """
  folder = tmp_path_factory.mktemp('four')
  settings = {**WIDE, **BIAS, 'mesh__model': 2, 'mesh__fsdp': True}
  return folder, outputs_of(start(
      4, 2, ('save', folder / 'saved'),
      ('train', wide[0], folder / 'work', settings), ('search',),
      pairs(folder, root, 'four')))


@pytest.fixture(scope='module')
def together(root, four, tmp_path_factory):
  """The same by two processes, in one program; what they print."""
  folder = tmp_path_factory.mktemp('together')
  return outputs_of(start(
      2, 2,
      ('hosts',),
      *(('restore', four[0] / 'saved', layout)
        for layout in ('whole', 'fsdp')),
      command(folder, root, root / 'together', **SETTINGS),
      job(folder, root, root / 'together' / 'mixture',
          module='jobs.test_mixture', **mixture_of(root, 'both')),
      *(('train', root, root / 'together' / name, settings)
        for name, settings in TRAININGS.items()),
      job(folder, root / 'mined', root / 'mined' / 'both' / 'work',
          **mining_of(root, 'both')),
      pairs(folder, root, 'two'),
  ))


def assert_near(first, second):
  """Losses, to a relative 1e-5 where they are above 1."""
  assert first.keys() == second.keys()
  for step, value in first.items():
    assert abs(second[step] - value) <= 1e-5 * max(1, value), step


def records_of(workdir):
  return [json.loads(line) for line
          in (workdir / 'log.jsonl').read_text().splitlines()]


def test_two_processes_train_and_evaluate_as_one(root, together):
  """8 devices, and 2 x 2; dropout on, N = 2."""
  alone, both = root / 'alone', root / 'together'
  assert_near(test_train.losses_of(alone), test_train.losses_of(both))
  steps = [record['step'] for record in records_of(both) if 'loss' in record]
  assert steps == list(range(1, STEPS + 1))  # One of them writes.
  tuned = lambda workdir: {
      record['step']: record['evaluation'] for record in records_of(workdir)
      if 'evaluation' in record}
  assert tuned(alone) == tuned(both)
  read = lambda workdir: json.loads((workdir / 'metrics.json').read_text())
  assert read(alone) == read(both)
  first, second = together
  assert 'plan:' in first and 'All of it is in' in first
  assert f'step {STEPS}' in first
  for line in ('plan:', 'All of it', f'step {STEPS}', 'accuracy'):
    assert line not in second


@pytest.mark.parametrize('name', TRAININGS)
def test_two_processes_draw_and_remember_as_one(root, together, name):
  """Negatives by the model as it is, a queue, averages; and those of LTRe."""
  alone, both = root / f'alone-{name}', root / 'together' / name
  tiny.train_only(root, alone, **TRAININGS[name])
  assert_near(test_train.losses_of(alone), test_train.losses_of(both))
  drawn = lambda workdir: [
      np.load(path) for path in sorted(workdir.glob('sampled/*/rows.npy'))]
  if name == 'remembering':
    assert len(drawn(alone)) == 1 and (drawn(alone)[0] >= 0).all()
  jax.tree.map(np.testing.assert_array_equal, drawn(both), drawn(alone))


def test_two_processes_train_on_a_mixture_as_one(root, together):
  alone, both = root / 'alone-mixture', root / 'together' / 'mixture'
  tiny.run(train.TrainJob, test_mixture.make_config(
      root, **mixture_of(root, 'alone')), alone)
  assert_near(test_train.losses_of(alone), test_train.losses_of(both))
  read = lambda workdir: json.loads((workdir / 'metrics.json').read_text())
  assert read(alone) == read(both)
  drawn = [record['drawn_small'] for record in records_of(both)
           if 'drawn_small' in record]
  assert drawn == [0, 0, 0, 8, 8, 8]
  pools = files_of(root / 'mixed' / 'both')
  assert pools and pools == files_of(root / 'mixed' / 'alone')
  assert sum(path.name == 'topics.npy' for path in pools) == 2


def test_fsdp_has_the_same_losses_and_less_memory(
    wide, tmp_path, monkeypatch
):
  folder, (sizes, whole) = wide
  held = watch_optimizer_state(monkeypatch)
  tiny.train_only(folder, tmp_path / 'work', mesh__fsdp=True, **WIDE)
  assert_near(test_train.losses_of(folder / 'plain'),
              test_train.losses_of(tmp_path / 'work'))
  split = held[-1][1]
  large = sum(size for size in sizes if size >= 4 * 2**16)
  assert whole == sum(sizes) and large > 0.9 * whole
  assert split == large / 8 + (whole - large)
  assert len({on_device for _, on_device in held}) == 1


@functools.cache
def found_by_one():
  """What `hosts_worker` prints of a search by this process alone."""
  vecs, queries, ranks = test_mesh_search.random_vecs()
  return [f'found {on_devices} {block_rows} ' + test_mesh_search.digest(
      mesh_search.MeshSearch(
          vecs, ranks, test_mesh_search.mesh(), block_rows,
          on_devices=on_devices).search(queries, 9))
          for on_devices, block_rows in ((False, 64), (True, 64), (False, 4096))
          ] + [f'drawn {is_iid} ' + hosts_worker.draws_digest(
              test_mesh_search.mesh(), is_iid) for is_iid in (False, True)]


def assert_searched_as_by_one(told):
  """What each process found with the others, on devices and on cores."""
  for text in told:
    for line in found_by_one():
      assert line in text


def test_four_processes_train_and_search_as_one(wide, four):
  """In a mesh of 4 x 2 with FSDP, against one process in 8 x 1 without."""
  (folder, _), (made, told) = wide, four
  assert len(told) == 4
  assert_searched_as_by_one(told)
  losses = test_train.losses_of(folder / 'plain')
  assert list(losses) == list(range(1, 5)) and min(losses.values()) > 1
  assert_near(losses, test_train.losses_of(made / 'work'))
  wanted, found = (test_nce_bias.biases_of(place)
                   for place in (folder / 'plain', made / 'work'))
  assert list(found) == list(wanted) == [4]
  for name in ('loss', 'gradient', 'gold_mass'):
    assert found[4]['model'][name] == pytest.approx(
        wanted[4]['model'][name], rel=1e-3)


def wait_for(condition, started):
  end = time.monotonic() + 600
  while time.monotonic() < end and not condition():
    assert all(process.poll() is None for process in started), (
        started[0].communicate())
    time.sleep(0.005)
  assert condition()


def saved_steps(workdir):
  return [int(path.name) for path in (workdir / 'checkpoints').glob('*')
          if path.name.isdigit()]


@pytest.mark.usefixtures('together')
def test_stopped_and_killed_they_end_the_same(root, tmp_path):
  """SIGTERM to one: all save the same step. kill -9 of one: all end."""
  work = tmp_path / 'work'
  task = command(tmp_path, root, work, **SETTINGS)
  started = start(2, 2, task)
  wait_for(lambda: saved_steps(work), started)
  started[1].send_signal(signal.SIGTERM)
  outputs_of(started, codes=(128 + signal.SIGTERM,))
  stopped = max(saved_steps(work))
  assert stopped == max(test_train.losses_of(work)) < STEPS

  started = start(2, 2, task, heartbeat=15)
  wait_for(lambda: max(saved_steps(work)) > stopped, started)
  started[1].kill()
  killed = time.monotonic()
  outputs_of(started, codes=(-signal.SIGKILL, -signal.SIGABRT))
  assert time.monotonic() - killed < 90
  assert max(saved_steps(work)) < STEPS

  outputs_of(start(2, 2, task))
  test_train.assert_same_run(root / 'together', work, STEPS)


def test_checkpoint_of_four_is_read_by_one_and_two(four, together):
  """8 devices with FSDP; then 8 and 2 x 2, with it and without."""
  folder, of_four = four
  (saved,) = {re.search('digest (.*)', text)[1] for text in of_four}
  for fsdp in (False, True):
    state = hosts_worker.restore(folder / 'saved', fsdp)
    assert hosts_worker.digest(state) == saved
  for text in together:
    assert re.findall('digest (.*)', text) == [saved, saved]


def files_of(folder):
  """Arrays and texts; manifests tell of the environment."""
  return {path.relative_to(folder): path.read_bytes()
          for path in folder.rglob('*') if path.is_file()
          and path.suffix in ('.npy', '.jsonl', '.tsv', '.bin', '.sqlite')}


@pytest.mark.usefixtures('together')
def test_processes_mine_the_same_bytes(root):
  """Four of them, with no common disk: test_bucket_hosts.py."""
  alone, both = (files_of(root / 'mined' / name) for name in ('alone', 'both'))
  assert alone == both
  names = {path.name for path in both}
  assert {'rows.npy', 'scores.npy'} <= names
  assert len([path for path in both if 'embeddings' in path.parts]) >= 4


@pytest.mark.usefixtures('four', 'together')
def test_processes_store_the_same_pairs(root):
  """Ids, judgements and cuts to the last byte; records as they are read."""
  stored = []
  for name in ('alone', 'two', 'four'):
    folder = root / 'questions' / 'pairs' / name / 'pairs'
    (made,) = (path.parent for path in folder.glob('*/manifest.json'))
    rows = tfds_records.Rows(made / 'queries')
    assert len(list(made.glob('queries/*array_record*'))) > 2
    stored.append([
        files_of(made), list(map(str, rows)), sorted(
            path.relative_to(folder) for path in folder.rglob('*')),
        json.loads((made / 'manifest.json').read_text())['fingerprint'],
    ])
  assert stored[0] == stored[1] == stored[2]
  assert 'cuts.npy' in {path.name for path in stored[0][0]}


def test_what_processes_tell_each_other(together):
  for told in together[:2]:
    assert 'process 1 (config.seed: 0 there, 1 here)' in told
  assert "failed KeyError('as planned')" in together[0]
  assert "UserError('process 0 failed" in together[1]
  assert_searched_as_by_one(together)


def test_the_coordinator_listens_where_it_is_told(monkeypatch):
  """And not at all addresses of the machine, as JAX would by itself."""
  given = []
  monkeypatch.delenv('JAX_COORDINATOR_BIND_ADDRESS', raising=False)
  monkeypatch.delenv('JAX_COORDINATOR_ADDRESS', raising=False)
  monkeypatch.setattr(jax.distributed, 'is_initialized', lambda: False)
  monkeypatch.setattr(jax, 'process_count', lambda: 2)
  monkeypatch.setattr(
      jax.distributed, 'initialize',
      lambda *_, coordinator_bind_address, **__: given.append(
          coordinator_bind_address))
  hosts.start('10.0.0.1:8476', 2, 0)
  monkeypatch.setenv('JAX_COORDINATOR_ADDRESS', '10.0.0.2:1')
  hosts.start()
  monkeypatch.setenv('JAX_COORDINATOR_BIND_ADDRESS', '0.0.0.0:1')
  hosts.start('10.0.0.1:8476', 2, 0)  # JAX reads that by itself.
  assert given == ['10.0.0.1:8476', '10.0.0.2:1', None]


def test_start_alone_and_half_told():
  """In a process whose devices did not start, as main has it."""
  code = (
      'import os, jax\n'
      'from neg_contrast import errors, hosts\n'
      'for given in ({"process": 1}, {"coordinator": "127.0.0.1:1"},\n'
      '              {"coordinator": "a:1", "processes": 2, "process": 2}):\n'
      '  try:\n'
      '    hosts.start(**given)\n'
      '  except errors.UserError as e:\n'
      '    assert "--coordinator=HOST:PORT" in str(e)\n'
      '    print("refused")\n'
      'hosts.start()\n'
      'for name in ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS",\n'
      '             "SLURM_PROCID", "SLURM_LOCALID"):\n'
      '  os.environ[name] = "1"  # One of a cluster, that is to work alone.\n'
      'hosts.start(processes=1)\n'
      'assert not jax.distributed.is_initialized()\n'
      'assert hosts.is_first() and hosts.count() == 1\n'
  )
  made = subprocess.run([sys.executable, '-c', code], capture_output=True,
                        text=True, cwd=ROOT, check=False)
  assert made.returncode == 0, made.stderr
  assert made.stdout.split() == ['refused'] * 3


def test_fsdp_gathers_weights_and_splits_gradients():
  """Not the activations, which XLA would rather split by features."""
  mesh = sharding.make_mesh(config_lib.MeshConfig())
  split, whole = (NamedSharding(mesh, spec) for spec in (
      PartitionSpec(None, 'data'), PartitionSpec()))
  rng = np.random.default_rng(0)
  x = rng.standard_normal((16, 24)).astype(np.float32)
  w = rng.standard_normal((24, 40)).astype(np.float32)
  loss = lambda w, x: (jax.numpy.tanh(x @ w) ** 2).mean()
  wanted = jax.grad(loss)(w, x)
  step = jax.jit(jax.grad(sharding.gather_when_used(loss, split, whole)))
  placed = sharding.put(
      (w, x), (split, NamedSharding(mesh, PartitionSpec('data')))
  )
  got = step(*placed)
  np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-8)
  assert got.sharding.is_equivalent_to(split, 2)
  gathered = re.findall(r'= f32(\[[\d,]+\])\S* all-gather',
                        step.lower(*placed).compile().as_text())
  assert gathered == ['[24,40]']
