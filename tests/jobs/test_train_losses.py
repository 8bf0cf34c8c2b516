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


@pytest.fixture
def train(tmp_path_factory, tmp_path):
  """Trains by a loss of this kind, into a workdir of this name."""
  root = tmp_path_factory.getbasetemp() / 'losses'
  root.mkdir(exist_ok=True)

  def run(kind, name):
    tiny.train_only(root, tmp_path / name, **{
        'loss__kind': kind, 'optim__steps': 6, **SETTINGS[kind],
        'checkpointing__log_steps': 1})
    return records(tmp_path / name)

  return run


@pytest.mark.parametrize('kind', SETTINGS)
def test_what_is_logged(train, kind):
  whole = train(kind, 'whole')
  assert len(whole) == 6
  for one in whole:
    assert math.isfinite(one['loss']) and one['loss'] > 0
    assert all(kind['gradient'] >= 0 for kind in one['contrast'].values())
  assert any(one['contrast']['given']['gradient'] > 0 for one in whole)


@pytest.mark.parametrize('kind', ['softmax', 'bce'])  # Without state, and with.
def test_a_run_that_dies_goes_on_to_the_last_bit(train, monkeypatch, kind):
  write = run_log.RunLog.write_step

  def dies(self, record):
    if record.step == 5:
      raise KeyboardInterrupt
    write(self, record)

  with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
    patch.setattr(run_log.RunLog, 'write_step', dies)
    train(kind, 'died')
  died, whole = train(kind, 'died'), train(kind, 'whole')
  assert [r['loss'] for r in died] == [r['loss'] for r in whole]
