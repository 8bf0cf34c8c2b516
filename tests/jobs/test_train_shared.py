"""Trainings with a queue, an average and shared passages, as whole jobs."""

import json
import shutil

import jax
import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.artifacts import checkpoints, plan
from neg_contrast.jobs import train, train_reranker
from neg_contrast.models import by_name
from neg_contrast.settings import config as config_lib
from neg_contrast.training import run_log
from tests import processes, tiny
from tests.jobs import test_train

ALL = {'negatives__sources': ('given:2', 'queue:16', 'shared_corpus:5'),
       'negatives__momentum': 0.9, 'optim__ema': 0.5, 'optim__steps': 7}


def losses_of(workdir):
  return {r['step']: r['loss'] for r in run_log.read(workdir / run_log.FILE)
          if 'loss' in r}


def restored(workdir, step):
  """What was saved of a step, without looking at how."""
  import orbax.checkpoint as ocp

  folder = workdir / checkpoints.FOLDER / str(step)
  read = lambda item: ocp.StandardCheckpointer().restore(folder / item)
  return read('params'), read('memory')


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
  """A finished run, and a copy of it at step 3 of 7."""
  root = tmp_path_factory.mktemp('shared')
  with test_train.copied_at(3, root / 'work', root / 'cut'):
    tiny.run(train.TrainJob, tiny.make_config(root, **ALL), root / 'work')
  return root


def test_the_log_has_what_the_queue_gave(finished):
  records = run_log.read(finished / 'work' / run_log.FILE)
  steps = [one for one in records if 'loss' in one]
  assert [one['queue_age'] for one in steps] == [0, 1, 1.5, 1.5, 1.5, 1.5, 1.5]
  for one in steps:
    kinds = one['contrast']
    assert set(kinds) == {'batch', 'given', 'shared_corpus', 'shared_queue'}
    assert 0 < kinds['shared_corpus']['mass'] < 1
    assert (kinds['shared_queue']['mass'] > 0) == (one['step'] > 1)


def test_any_mesh_gives_the_same_losses(finished, tmp_path):
  """Split parameters and a gradient cache, too; the other used eight devices.
  """
  tiny.train_only(finished, tmp_path, **ALL, mesh__data=2, mesh__model=2,
                  mesh__fsdp=True, model__chunk_groups=2)
  want, got = losses_of(finished / 'work'), losses_of(tmp_path)
  assert want.keys() == got.keys() and min(want.values()) > 0.5
  for step, value in want.items():
    assert abs(got[step] - value) <= 1e-5 * max(1, value), step


def test_a_run_that_dies_goes_on_to_the_last_bit(finished, tmp_path):
  """At step 3 of 7; the queue and both averages are of that step then."""
  work = tmp_path / 'work'
  shutil.copytree(finished / 'cut', work)
  assert list(losses_of(work)) == [1, 2, 3]
  config = config_lib.parse(tiny.make_config(finished, **ALL))
  plan.run([train.TrainJob(config, work).run])
  assert losses_of(work) == losses_of(finished / 'work')
  jax.tree.map(np.testing.assert_array_equal, restored(work, 7),
               restored(finished / 'work', 7))


def test_the_average_counts_as_trained(finished):
  step = 7
  params, memory = restored(finished / 'work', step)
  assert set(memory) == {'queue', 'momentum', 'average'}
  assert memory['queue'].shape == (2, 8, 16)
  opened = checkpoints.Checkpoints(finished / 'work')
  chosen = opened.selected_step()
  opened.close()
  model = by_name.load_workdir(finished / 'work')
  _, kept = restored(finished / 'work', chosen)
  jax.tree.map(np.testing.assert_array_equal, model.params,
               kept['average']['encoder'])
  apart = jax.tree.map(lambda a, b: float(np.abs(a - b).max()),
                       params['encoder'], memory['average']['encoder'])
  assert max(jax.tree.leaves(apart)) > 1e-4


_TRAINS = '''
import pathlib, sys
from tests import tiny
from tests.jobs import test_train_shared
root, work = map(pathlib.Path, sys.argv[1:])
tiny.train_only(root, work, **test_train_shared.ALL)
'''


def test_killed_while_it_saves_it_ends_the_same(finished, tmp_path):
  """kill -9; queue, momentum and average are those of a whole run."""
  rng, work = np.random.default_rng(0), tmp_path / 'work'
  start = lambda: processes.Process(_TRAINS, [finished, work])
  assert test_train.kill_at(start(), 'saving', work, rng)
  process = start()
  assert process.wait(240) == 0, process.communicate(1)
  whole, last = finished / 'work', ALL['optim__steps']
  test_train.assert_same_run(whole, work, last)
  jax.tree.map(np.testing.assert_array_equal, restored(whole, last),
               restored(work, last))


def test_early_stopping_judges_the_average(finished, tmp_path):
  """Of a decay near 1 it is the model that training began with."""
  settings = {**ALL, 'optim__ema': 0.999999, 'evaluation__eval_steps': 7,
              'evaluation__bm25': False, 'mesh__data': 1}
  tiny.run(train.TrainJob, tiny.make_config(finished, **settings), tmp_path)
  values = json.loads((tmp_path / 'metrics.json').read_text())
  for metric in ('accuracy@1', 'accuracy@5'):
    assert (values[f'data/test/trained/{metric}']
            == values[f'data/test/initial/{metric}'])


@pytest.mark.parametrize(('settings', 'message'), [
    ({'negatives__sources': ('queue:12',)},
     r'have a queue of whole batches: a multiple of data.batch_size=8, '
     'such as queue:16'),
    ({'negatives__sources': ('queue:3',)}, 'such as queue:8'),
    ({'negatives__momentum': 0.9},
     'fills a queue; name one in negatives.sources'),
    ({'negatives__sources': ('queue:8',), 'negatives__momentum': 1.0},
     'below 1'),
    ({'negatives__sources': ('given:1', 'queue:8'), 'loss__candidates': 'own',
      'loss__bidirectional': False}, 'compares a query with its own alone'),
    ({'negatives__sources': ('given:1', 'shared_corpus:8'),
      'loss__candidates': 'own', 'loss__bidirectional': False},
     'compares a query with its own alone'),
    ({'optim__ema': -0.1}, 'at least 0'),
])
def test_refused(tmp_path, settings, message):
  with pytest.raises(errors.UserError, match=message):
    train.check(config_lib.parse(tiny.make_config(tmp_path, **settings)))


@pytest.mark.parametrize('name', ['shared_corpus', 'queue'])
def test_rerankers_share_nothing(tmp_path, name):
  config = tiny.make_config(
      tmp_path, negatives__sources=('given:2', f'{name}:8'), candidates='bm25')
  with pytest.raises(errors.UserError, match="can't be trained on"):
    train_reranker.check(config_lib.parse(config))
