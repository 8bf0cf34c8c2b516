"""A plan of two stages with every path in a bucket equals that on a disk."""

import json
import os
import pathlib
import re

import numpy as np
import pytest

from neg_contrast.artifacts import buckets, places
from neg_contrast.jobs import train
from tests import bucket, left_out, processes, tiny
from tests.jobs import test_stage1, test_train

STEPS = 5  # Of each stage; a checkpoint after every second one.


def train_two_stages(root: str, workdir: str) -> None:
  """The job: pairs, stage 1, stage 2 with negatives of BM25, evaluations."""
  left_out.everything()
  config = test_stage1.make_config(pathlib.Path('unused'))
  _place(config, root)
  config.negatives.sources = ('bm25:1',)
  config.negatives.depth, config.negatives.pool_size = 6, 3
  config.evaluation.bm25 = True
  config.stage1 = test_stage1.make_config(pathlib.Path('unused'))
  _place(config.stage1, root)
  config.stage1.synthetic.pairs = 'crops'
  config.stage1.synthetic.per_passage = 1
  config.stage1.evaluation.eval_steps = 0
  config.stage1.workdir = f'{root}/stage1'
  tiny.run(train.TrainJob, config, places.path(workdir))


def _place(config, root):
  config.data.source = f'beir:{root}/data'
  config.data.prepared_dir = f'{root}/prepared'
  config.model.init = f'{root}/model'
  config.negatives.mined_dir = f'{root}/mined'
  config.synthetic.dir = f'{root}/synthetic'
  config.optim.steps = STEPS
  config.checkpointing.save_steps = 2


def start(root, workdir, folder, env):
  (folder / 'unused' / 'data').mkdir(parents=True, exist_ok=True)
  (folder / 'unused' / 'model').mkdir(exist_ok=True)
  return processes.Process(
      'import sys\nfrom tests import test_bucket_plan as t\n'
      'from neg_contrast import api\n'
      'api.show_progress()\n'
      't.train_two_stages(*sys.argv[1:])\n',
      [root, workdir], cwd=folder,
      env={**os.environ, 'XLA_FLAGS': processes.with_devices(1),
           'PYTHONPATH': str(processes.ROOT), **env})


def finish(process):
  out, err = process.communicate(timeout=900)
  assert process.returncode == 0, (out + err)[-5000:]
  return out


def kill_after(process, *marks):
  """kill -9 when it has printed lines that hold these, one after another."""
  left = list(marks)
  for line in process.lines():
    if left and left[0] in line:
      del left[0]
    if not left:
      break
  assert not left and process.poll() is None, process.communicate()
  process.kill()
  process.communicate()


def test_two_stages_in_a_bucket_killed_twice_equal_a_disk(tmp_path):
  with bucket.running(tmp_path / 'cache') as emulator:
    tiny.write_sentences(tmp_path / 'data')
    tiny.write_model(tmp_path / 'model')
    for name in ('data', 'model'):
      bucket.upload(tmp_path / name, f'{bucket.BUCKET}/{name}')
    finish(start(str(tmp_path), str(tmp_path / 'run'), tmp_path, {}))

    work = f'{bucket.BUCKET}/run'
    begin = lambda machine: start(
        bucket.BUCKET, work, tmp_path / 'far',
        emulator.environment(tmp_path / machine))
    kill_after(begin('one'), 'training: ', 'step 4/')  # In stage 1.
    kill_after(begin('one'), 'stage 1: training: done in', 'step 2/')
    buckets.remove(f'{work}/lease.json')  # Another machine would wait a while.
    buckets.remove(f'{bucket.BUCKET}/stage1/lease.json')
    out = finish(begin('two'))  # Has none of the copies.
    trained = re.findall(r'training: \d+ examples', out)
    assert len(trained) == 1, out[-5000:]  # Stage 1 was done.
    assert not (tmp_path / 'far' / 'gs:').exists()

    far = places.path(work)
    for stage in ('run', 'stage1'):
      assert test_train.losses_of(places.path(f'{bucket.BUCKET}/{stage}')) == (
          test_train.losses_of(tmp_path / stage))
    near = json.loads((tmp_path / 'run' / 'metrics.json').read_text())
    assert json.loads((far / 'metrics.json').read_text()) == near
    steps = sorted(int(name) for name in buckets.names(f'{work}/checkpoints'))
    assert steps == sorted(int(path.name) for path in (
        tmp_path / 'run' / 'checkpoints').iterdir())
    for step in steps:
      for one, other in zip(
          _leaves(tmp_path / 'run', step), _leaves(far, step), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not [name for name in bucket.names(bucket.BUCKET)
                if 'lease' in name or '.partial' in name]


def _leaves(workdir, step):
  import jax

  return jax.tree.leaves(test_train.params_of(workdir, step))


def test_a_bucket_that_refuses_is_one_line(tmp_path):
  with bucket.running(tmp_path / 'cache') as emulator:
    emulator.trouble = lambda method, path: 'refuse'
    process = processes.command(
        '--config=quickstart', f'--workdir={bucket.BUCKET}/run',
        env={**os.environ, **emulator.environment(tmp_path / 'cache')})
    out, err = process.communicate(timeout=300)
  assert process.returncode == 2, out + err
  lines = [line for line in err.splitlines() if line.startswith('error: ')]
  assert len(lines) == 1 and 'the bucket refuses' in lines[0]
  assert 'Traceback' not in out + err


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
  monkeypatch.setattr(buckets, '_TRUSTED_SECONDS', 0.0)
