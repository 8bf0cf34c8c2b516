"""A training with every path in s3:// equals that on a disk."""

import jax
import numpy as np
import pytest

from neg_contrast.artifacts import buckets, leases, places, plan
from neg_contrast.jobs import train
from neg_contrast.settings import config as config_lib
from neg_contrast.training import run_log
from tests import bucket, s3_bucket, tiny
from tests.jobs import test_train


def make_config(folder, root):
  """With mined negatives; what was made here is of `folder`."""
  return tiny.make_config(
      folder, data__source=f'beir:{root}/data', model__init=f'{root}/model',
      data__prepared_dir=f'{root}/prepared', negatives__sources=('bm25:1',),
      negatives__mined_dir=f'{root}/mined', negatives__depth=6,
      negatives__pool_size=3, optim__steps=5, checkpointing__save_steps=2,
      evaluation__eval_steps=0)


def test_a_training_interrupted_and_resumed_elsewhere(tmp_path, monkeypatch):
  monkeypatch.setattr(buckets, '_TRUSTED_SECONDS', 0.0)
  near = tmp_path / 'near'
  near.mkdir()
  run = lambda root, work: plan.run([train.TrainJob(
      config_lib.parse(make_config(near, root)), work).run])
  run(near, near / 'run')
  with bucket.running(tmp_path / 'one', s3_bucket.Server) as server:
    root, work = server.address, places.path(f'{server.address}/run')
    for name in ('data', 'model'):
      bucket.upload(near / name, f'{root}/{name}')
    write = run_log.RunLog.write_step

    def dies(self, record):
      if record.step == 4:
        raise KeyboardInterrupt
      write(self, record)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), (
        leases.program(work)):
      patch.setattr(run_log.RunLog, 'write_step', dies)
      run(root, work)
    monkeypatch.setenv('NEG_CONTRAST_CACHE', str(tmp_path / 'two'))
    with leases.program(work):
      run(root, work)

    assert test_train.losses_of(work) == test_train.losses_of(near / 'run')
    steps = sorted(int(name) for name in buckets.names(f'{work}/checkpoints'))
    assert steps == sorted(int(path.name) for path in (
        near / 'run' / 'checkpoints').iterdir())
    monkeypatch.setenv('NEG_CONTRAST_CACHE', str(tmp_path / 'three'))
    for one, other in zip(
        jax.tree.leaves(test_train.params_of(near / 'run', steps[-1])),
        jax.tree.leaves(test_train.params_of(work, steps[-1])), strict=True):
      np.testing.assert_array_equal(one, other)
    assert not [name for name in bucket.names(root)
                if 'lease' in name or '.partial' in name]
