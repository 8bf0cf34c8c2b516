"""Every loss through the command: trained, logged, resumed."""

import math

import pytest

from neg_contrast.losses import loss_table
from neg_contrast.training import run_log
from tests import tiny

SETTINGS = {
    'softmax': {'loss__hardest': 3},
    'triplet': {'loss__distance': 'euclidean', 'loss__hardest': 2},
    'hinge': {'loss__candidates': 'own', 'loss__bidirectional': False},
    'bce': {'loss__positive_weight': 5.0, 'loss__learn_scale': True},
    'lambdarank': {},
}


def records(workdir):
  return [r for r in run_log.read(workdir / run_log.FILE) if 'loss' in r]


def test_all_are_here():
  assert set(SETTINGS) == set(loss_table.LOSSES)


@pytest.mark.parametrize('kind', SETTINGS)
def test_a_run_that_dies_goes_on_to_the_last_bit(
    tmp_path_factory, tmp_path, monkeypatch, kind
):
  root = tmp_path_factory.getbasetemp() / 'losses'
  root.mkdir(exist_ok=True)
  settings = {'loss__kind': kind, 'optim__steps': 6, **SETTINGS[kind],
              'checkpointing__log_steps': 1}
  write = run_log.RunLog.write_step

  def dies(self, record):
    if record.step == 5:
      raise KeyboardInterrupt
    write(self, record)

  with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
    patch.setattr(run_log.RunLog, 'write_step', dies)
    tiny.train_only(root, tmp_path / 'died', **settings)
  tiny.train_only(root, tmp_path / 'died', **settings)
  tiny.train_only(root, tmp_path / 'whole', **settings)
  died, whole = records(tmp_path / 'died'), records(tmp_path / 'whole')
  assert [r['loss'] for r in died] == [r['loss'] for r in whole]
  assert len(whole) == 6
  for one in whole:
    assert math.isfinite(one['loss']) and one['loss'] > 0
    assert all(kind['gradient'] >= 0 for kind in one['contrast'].values())
  assert any(one['contrast']['given']['gradient'] > 0 for one in whole)
