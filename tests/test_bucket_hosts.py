"""Several processes with everything in a bucket equal one on a disk."""

import json
import pathlib
import re

import pytest

from neg_contrast.artifacts import buckets, leases, places
from neg_contrast.jobs import evaluate, mine, train
from tests import bucket, hosts_worker, test_hosts, tiny
from tests.jobs import test_train

TAKEN = f'{bucket.BUCKET}/taken'  # By another program.
TRAINING = {'optim__steps': 4, 'evaluation__eval_steps': 2,
            'checkpointing__save_steps': 2}
MINING = {
    'job': 'mine', 'negatives__sources': ('model+bm25+context:2',),
    'negatives__depth': 20, 'negatives__pool_size': 10,
    'index__chunk_tokens': 1, 'index__table_rows': 64,
}
SEARCH = {
    'job': 'evaluate', 'evaluation__bm25': False, 'index__kind': 'scann',
    'index__shard_rows': 40, 'index__chunk_tokens': 1, 'index__table_rows': 64,
}


def settings_of(root, name, settings):
  """Those of a job whose data lie in a folder, and what it makes in another."""
  model = 'model__init' if settings is TRAINING else 'checkpoint'
  return {
      **settings, 'data__source': f'beir:{root}/data',
      'data__prepared_dir': f'{root}/{name}/prepared', model: f'{root}/model',
      'negatives__mined_dir': f'{root}/{name}/mined',
  }


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  """Data and a model; what one process makes of them on a disk."""
  root = tmp_path_factory.mktemp('disk')
  tiny.write_beir(root / 'data', documents=40)
  tiny.write_model(root / 'model')
  with pytest.MonkeyPatch.context() as patch:
    hosts_worker.use_small_parts(patch.setattr)
    for job, settings in ((mine.MineJob, MINING), (train.TrainJob, TRAINING),
                          (evaluate.EvaluateJob, SEARCH)):
      tiny.run(job, tiny.make_config(
          root, **settings_of(root, 'one', settings)),
               root / 'one' / job.__name__)
  return root


@pytest.fixture(scope='module')
def far(folder, tmp_path_factory):
  """The same in a bucket, by two processes and by four, with no common disk.

  Each has a cache of its own. What they print.
  """
  caches = tmp_path_factory.mktemp('caches')
  with (bucket.running(caches / 'here') as emulator,
        pytest.MonkeyPatch.context() as patch):
    patch.setattr(buckets, '_TRUSTED_SECONDS', 0.0)
    for name in ('data', 'model'):
      bucket.upload(folder / name, f'{bucket.BUCKET}/{name}')

    patch.setattr(leases, 'RENEW_SECONDS', 0.1)

    def run(count, name, *jobs):
      told = [('turns', f'{bucket.BUCKET}/turns-{name}'), ('refused', TAKEN)]
      for task, job, settings in jobs:
        given = {'folder': caches, 'root': folder,
                 'workdir': f'{bucket.BUCKET}/{name}/{job.__name__}'}
        make = getattr(test_hosts, task)
        told.append(make(**given, **settings_of(
            bucket.BUCKET, name, settings)))
      with leases.held(places.path(TAKEN)):
        return test_hosts.outputs_of(test_hosts.start(
            count, 4 // count, *told, env_of=lambda number:
            emulator.environment(caches / f'{name}-{number}')))

    yield {
        'two': run(2, 'two', ('job', mine.MineJob, MINING),
                   ('command', train.TrainJob, TRAINING),
                   ('job', evaluate.EvaluateJob, SEARCH)),
        'four': run(4, 'four', ('job', mine.MineJob, MINING)),
    }, caches


def far_files(name):
  """Arrays and texts that lie in the bucket, but for those of trainings."""
  address = f'{bucket.BUCKET}/{name}'
  return {pathlib.Path(one): buckets.get_bytes(f'{address}/{one}')
          for one in bucket.names(address)
          if one.endswith(('.npy', '.jsonl', '.tsv', '.bin', '.sqlite'))}


def near_files(folder):
  return {path.relative_to(folder): path.read_bytes()
          for path in folder.rglob('*') if path.is_file() and path.suffix in
          ('.npy', '.jsonl', '.tsv', '.bin', '.sqlite')}


def made_by_parts(files):
  """Prepared data, token stores, postings, tables, pools.

  Where a source lies is in the name of its folder.
  """
  return {re.sub('beir-data-[0-9a-f]{8}', 'beir-data', str(path)): data
          for path, data in files.items()
          if path.parts[0] in ('prepared', 'mined', 'MineJob')}


@pytest.mark.usefixtures('far')
@pytest.mark.parametrize('name', ['two', 'four'])
def test_they_prepare_encode_and_mine_the_same_bytes(folder, name):
  wanted = made_by_parts(near_files(folder / 'one'))
  found = made_by_parts(far_files(name))
  if name == 'four':  # Who did not train: one made more for that.
    wanted = {path: wanted.get(path) for path in found}
  assert sorted(wanted) == sorted(found)
  assert wanted == found
  kinds = {path.rpartition('/')[2] for path in found}
  assert {'rows.npy', 'scores.npy', 'text_ids.bin'} <= kinds


@pytest.mark.usefixtures('far')
def test_two_train_and_report_as_one(folder):
  alone = folder / 'one' / 'TrainJob'
  both = places.path(f'{bucket.BUCKET}/two/TrainJob')
  test_hosts.assert_near(
      test_train.losses_of(alone), test_train.losses_of(both))
  read = lambda workdir: json.loads((workdir / 'metrics.json').read_text())
  assert read(alone) == read(both)
  steps = lambda workdir: sorted(
      path.name for path in (workdir / 'checkpoints').iterdir())
  assert steps(alone) == steps(both)


@pytest.mark.usefixtures('far')
def test_two_build_an_index_as_one(folder):
  pick = lambda files: {path: data for path, data in files.items()
                        if path.parts[0] == 'EvaluateJob'}
  assert pick(near_files(folder / 'one')) == pick(far_files('two'))


def test_nothing_is_left_or_lies_elsewhere(far):
  told, caches = far
  assert not [one for one in bucket.names(bucket.BUCKET)
              if 'lease' in one or '.partial' in one or '.parts/' in one]
  assert not list(caches.glob('**/gs:'))
  first, second = told['two']
  assert 'All of it is in' in first and 'plan:' not in second


def test_a_second_program_is_refused_whole(far):
  for first, *others in far[0].values():
    assert f'refused: {TAKEN}: another program works there' in first
    for text in others:
      assert 'refused: process 0 failed' in text
    assert 'taken' not in first.split()


@pytest.mark.usefixtures('far')
def test_each_but_the_first_has_a_log_of_its_own():
  work = f'{bucket.BUCKET}/two/TrainJob'
  assert [one for one in bucket.names(work) if one.startswith('logs/')] == [
      'logs/process-00001.log']
  text = (places.path(work) / 'logs' / 'process-00001.log').read_text()
  assert '  INFO  training: ' in text
