"""Several processes with everything in a bucket equal one on a disk."""

import json
import pathlib
import re
import shutil
import signal

import pytest

from neg_contrast.artifacts import buckets, leases, places
from neg_contrast.data import prepared
from neg_contrast.jobs import evaluate, mine, train
from neg_contrast.retrieval import bm25_folder
from tests import bucket, hosts_worker, test_hosts, tiny
from tests.jobs import test_train

TAKEN = f'{bucket.BUCKET}/taken'  # By another program.
COUNTED = f'{bucket.BUCKET}/counted/corpus'  # Prepared, without postings.
TRAINING = {'optim__steps': 4, 'evaluation__eval_steps': 2,
            'checkpointing__save_steps': 2, 'evaluation__bm25': False}
MINING = {
    'job': 'mine', 'negatives__sources': ('model+bm25+context:2',),
    'negatives__depth': 20, 'negatives__pool_size': 10,
    'index__chunk_tokens': 1, 'index__table_rows': 32,
}
SEARCH = {
    'job': 'evaluate', 'evaluation__bm25': False, 'index__kind': 'scann',
    'index__shard_rows': 40, 'index__chunk_tokens': 1, 'index__table_rows': 32,
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
  tiny.write_beir(root / 'data', documents=20)
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

  Each has a cache of its own. The two train on a disk first; when they train in
  the bucket they are killed as they begin to save the last step, and two others
  begin again. What they print.
  """
  caches = tmp_path_factory.mktemp('caches')
  with (bucket.running(caches / 'here') as emulator,
        pytest.MonkeyPatch.context() as patch):
    patch.setattr(buckets, '_TRUSTED_SECONDS', 0.0)
    for name in ('data', 'model'):
      bucket.upload(folder / name, f'{bucket.BUCKET}/{name}')
    corpus = corpus_of(folder)
    bucket.upload(corpus, COUNTED)
    patch.setattr(leases, 'RENEW_SECONDS', 0.3)

    def task(kind, place, job, settings, work=''):
      return getattr(test_hosts, kind)(
          caches, folder, work or f'{place}/{job.__name__}',
          **settings_of(place.rpartition('/')[0], place.rpartition('/')[2],
                        settings))

    def start(count, name, *tasks):
      return test_hosts.start(
          count, 4 // count, *tasks, env_of=lambda number:
          emulator.environment(caches / f'{name}-{number}'))

    def begin(name):
      return [('turns', f'{bucket.BUCKET}/turns-{name}'), ('refused', TAKEN)]

    two, four = (f'{bucket.BUCKET}/{name}' for name in ('two', 'four'))
    training = task('command', two, train.TrainJob, TRAINING)
    with leases.held(places.path(TAKEN)):
      started = start(2, 'two', *begin('two'), ('count', COUNTED),
                      task('job', two, mine.MineJob, MINING),
                      task('job', two, evaluate.EvaluateJob, SEARCH),
                      task('command', f'{folder}/one', train.TrainJob, TRAINING,
                           folder / 'by two'), training)
      emulator.trouble = kill_at_last_save(started)
      told = {'two': test_hosts.outputs_of(started, (-signal.SIGKILL,))}
      emulator.trouble = lambda method, path: ''
      told['four'] = test_hosts.outputs_of(start(
          4, 'four', *begin('four'), task('job', four, mine.MineJob, MINING)))
    told['again'] = test_hosts.outputs_of(start(2, 'again', training))
    yield told, caches, emulator.written


def corpus_of(folder):
  """The prepared corpus of the one process."""
  (manifest,) = (folder / 'one' / 'prepared').glob('*/manifest.json')
  return manifest.parent


def kill_at_last_save(started):
  """Kills processes when they put the first part of step 4."""

  def trouble(method, path):
    is_it = re.search(r'TrainJob(/|%2F)checkpoints(/|%2F)4\b', path)
    if method == 'POST' and is_it:
      for process in started:
        process.kill()
    return ''

  return trouble


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


def test_two_and_their_helpers_count_each_shard_once(folder, far):
  corpus = prepared.Prepared(corpus_of(folder))
  near = bm25_folder.folder_of(corpus)
  near.rename(near.with_name('by one'))
  bm25_folder.make(corpus, 8)
  wanted = near_files(near)
  shutil.rmtree(near)
  near.with_name('by one').rename(near)
  assert wanted == {path.relative_to(near.name): data for path, data
                    in far_files('counted/bm25').items()}
  put = [name.rpartition('/')[2] for name in far[2]
         if name.startswith('counted/bm25/') and name.endswith('.bin')]
  assert sorted(put) == sorted(map(str, wanted)) and len(put) == 10


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


def test_two_that_were_killed_end_as_two_on_a_disk(folder, far):
  """Both by kill -9 while they save; two with empty caches go on."""
  told, _, written = far
  assert 'starting after step 2' in told['again'][0]
  assert 'starting after step 0' in told['two'][0]
  work = places.path(f'{bucket.BUCKET}/two/TrainJob')
  of_steps = [name.split('/')[3] for name in written
              if name.startswith('two/TrainJob/checkpoints/')]
  assert {'2', '4'} <= set(of_steps) and '1' not in of_steps
  test_train.assert_same_run(folder / 'by two', work, 4)


@pytest.mark.usefixtures('far')
def test_two_build_an_index_as_one(folder):
  pick = lambda files: {path: data for path, data in files.items()
                        if path.parts[0] == 'EvaluateJob'}
  assert pick(near_files(folder / 'one')) == pick(far_files('two'))


def test_nothing_is_left_or_lies_elsewhere(far):
  told, caches, _ = far
  assert not [one for one in bucket.names(bucket.BUCKET)
              if 'lease' in one or '.partial' in one or '.parts/' in one]
  assert not list(caches.glob('**/gs:'))
  first, second = told['again']
  assert 'All of it is in' in first and 'plan:' not in second


def test_a_second_program_is_refused_whole(far):
  for name in ('two', 'four'):
    first, *others = far[0][name]
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
