"""Every loss through the command: trained, logged, resumed."""

import math
import shutil

import pytest

from neg_contrast.losses import loss_table
from neg_contrast.training import run_log
from tests import tiny
from tests.jobs import test_train

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


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  return tmp_path_factory.mktemp('losses')


def train(root, kind, workdir):
  """Trains by a loss of this kind, on two devices."""
  tiny.train_only(root, workdir, **{
      'loss__kind': kind, 'optim__steps': 6, 'mesh__data': 2, **SETTINGS[kind]})
  return records(workdir)


@pytest.fixture(scope='module')
def whole(root):
  """The workdir of a finished training by a loss of this kind.

  A copy of it at step 3 is beside it.
  """
  def workdir_of(kind):
    work = root / kind
    if not work.exists():
      with test_train.copied_at(3, work, root / f'{kind}-cut'):
        train(root, kind, work)
    return work

  return workdir_of


@pytest.mark.parametrize('kind', SETTINGS)
def test_what_is_logged(whole, kind):
  steps = records(whole(kind))
  assert len(steps) == 6
  for one in steps:
    assert math.isfinite(one['loss']) and one['loss'] > 0
    assert all(kind['gradient'] >= 0 for kind in one['contrast'].values())
  assert any(one['contrast']['given']['gradient'] > 0 for one in steps)


@pytest.mark.parametrize('kind', ['softmax', 'bce'])  # Without state, and with.
def test_a_run_that_dies_goes_on_to_the_last_bit(root, whole, tmp_path, kind):
  work = tmp_path / 'died'
  shutil.copytree(f'{whole(kind)}-cut', work)
  assert len(records(work)) == 3
  died = train(root, kind, work)
  assert [r['loss'] for r in died] == [r['loss'] for r in records(whole(kind))]
