"""Several processes with everything in a bucket equal one on a disk."""

import json
import pathlib
import re
import shutil
import signal

import pytest

from neg_contrast.artifacts import buckets, folders, leases, places
from neg_contrast.data import prepared, tfds_records
from neg_contrast.jobs import (
  ensemble,
  evaluate,
  generate_questions,
  mine,
  train,
  train_generator,
)
from neg_contrast.models import t5_config
from neg_contrast.retrieval import bm25_folder
from tests import bucket, hosts_worker, test_hosts, tiny
from tests.jobs import test_ensemble, test_stage1, test_train
from tests.negatives import test_refresh

TAKEN = f'{bucket.BUCKET}/taken'  # By another program.
COUNTED = f'{bucket.BUCKET}/counted/corpus'  # Prepared, without postings.
TRAINING = {  # Its negatives are mined again after steps 2 and 4.
    'optim__steps': 6, 'evaluation__eval_steps': 3,
    'checkpointing__save_steps': 2, 'evaluation__bm25': False,
    'negatives__sources': ('model:2', 'given:1'),
    'negatives__refresh_steps': 2, 'negatives__depth': 20,
    'negatives__pool_size': 6, 'index__chunk_tokens': 1,
    'index__table_rows': 32,
}
MINING = {
    'job': 'mine', 'negatives__sources': ('model+bm25+context:2',),
    'negatives__depth': 20, 'negatives__pool_size': 10,
    'index__chunk_tokens': 1, 'index__table_rows': 32,
}
GENERATOR = {'optim__steps': 4, 'evaluation__eval_steps': 2}
SEARCH = {
    'job': 'evaluate', 'evaluation__bm25': False, 'index__kind': 'scann',
    'index__shard_rows': 16, 'index__chunk_tokens': 1, 'index__table_rows': 32,
}


def settings_of(root, name, settings):
  """Those of a job whose data lie in a folder, and what it makes in another."""
  models = (('model__init', 'negatives__checkpoint') if settings is TRAINING
            else ('checkpoint',))
  return {
      **settings, 'data__source': f'beir:{root}/data',
      'data__prepared_dir': f'{root}/{name}/prepared',
      'negatives__mined_dir': f'{root}/{name}/mined',
      **dict.fromkeys(models, f'{root}/model'),
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


def pairs_of(root):
  """Settings of pairs with cuts, which go into a folder of their own."""
  return {'synthetic__pairs': 'inverse_cloze', 'synthetic__per_passage': 2,
          'synthetic__dir': f'{root}/pairs'}


def round_trips_of(root):
  """Settings of questions whose passages a model finds again."""
  return {'synthetic__dir': f'{root}/found', 'synthetic__round_trip_rank': 4,
          'synthetic__round_trip_checkpoint': f'{root}/model'}


@pytest.fixture(scope='module')
def further(tmp_path_factory):
  """Pairs, questions and an ensemble, by one."""
  root = tmp_path_factory.mktemp('further')
  asked, fused = root / 'asked', root / 'fused'
  for folder in (asked, fused):
    folder.mkdir()
  with pytest.MonkeyPatch.context() as patch:
    hosts_worker.use_small_parts(patch.setattr)
    patch.setitem(t5_config.T5_SIZES, 't5-nano', test_stage1.NANO)
    tiny.run(train_generator.TrainGeneratorJob,
             test_stage1.make_generator(asked, **GENERATOR),
             asked / 'generator')
    tiny.run(generate_questions.GenerateQuestionsJob,
             test_stage1.make_questions(asked, **round_trips_of(asked)),
             asked / 'kept')
    test_stage1.make_pairs(test_stage1.make_config(asked, **pairs_of(asked)))
    tiny.run(ensemble.EnsembleJob, fused_of(fused), fused / 'work')
  return root


def fused_of(root):
  """An ensemble of two members."""
  return test_ensemble.make_config(
      root, *test_ensemble.MEMBERS[:2], index__block_rows=8)


def further_tasks(folder):
  """What two processes do in the bucket, to equal `further`."""
  asked, fused = (f'{bucket.BUCKET}/{name}' for name in ('asked', 'fused'))
  at = lambda root, name, module, call, **settings: test_hosts.job(
      folder, root, f'{root}/{name}', module=module, call=call, **settings)
  stage1 = 'jobs.test_stage1'
  return [
      at(asked, 'by two', stage1, 'make_generator', **GENERATOR),
      at(asked, 'kept', stage1, 'make_questions', **round_trips_of(asked)),
      ('pairs', test_hosts.config_file(
          folder, asked, stage1, **pairs_of(asked))),
      at(fused, 'work', 'test_bucket_hosts', 'fused_of'),
  ]


@pytest.fixture(scope='module')
def far(folder, further, tmp_path_factory):
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
    bucket.upload(corpus_of(folder), COUNTED)
    for given in ('asked/data', 'asked/model', 'asked/generator', 'fused/data',
                  'fused/model', 'fused/ada', 'fused/bob', 'fused/cleo'):
      bucket.upload(further / given, f'{bucket.BUCKET}/{given}')
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
                      *further_tasks(caches),
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
  """Kills processes when they put the first part of step 6."""

  def trouble(method, path):
    is_it = re.search(r'TrainJob(/|%2F)checkpoints(/|%2F)6\b', path)
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
  assert 'starting after step 4' in told['again'][0]
  assert 'starting after step 0' in told['two'][0]
  work = places.path(f'{bucket.BUCKET}/two/TrainJob')
  of_steps = [name.split('/')[3] for name in written
              if name.startswith('two/TrainJob/checkpoints/')]
  assert {'2', '4', '6'} <= set(of_steps) and '1' not in of_steps
  test_refresh.assert_same(folder / 'by two', work, 6)


@pytest.mark.usefixtures('far')
def test_two_build_an_index_and_search_as_one(folder):
  """By ScaNN, in five shards."""
  pick = lambda files: {path: data for path, data in files.items()
                        if path.parts[0] == 'EvaluateJob'}
  near = pick(near_files(folder / 'one'))
  assert near == pick(far_files('two'))
  alone = folder / 'one' / 'EvaluateJob'
  both = places.path(f'{bucket.BUCKET}/two/EvaluateJob')
  indexes = []
  for workdir in (alone, both):
    (index,) = workdir.glob('retrieval/*/scann-*')
    indexes.append({str(path.relative_to(index)): path.read_bytes()
                    for path in index.glob('shard-*/**/*') if path.is_file()})
  assert indexes[0] == indexes[1]
  assert len({name.partition('/')[0] for name in indexes[0]}) == 5  # Shards.
  (run,) = alone.glob('evaluation/*/run.trec')
  assert run.read_text() == (both / run.relative_to(alone)).read_text()
  facts = [folders.read_json(
      workdir / run.relative_to(alone).with_name('manifest.json')
  )['index'] for workdir in (alone, both)]
  assert facts[0] == facts[1] and facts[0]['kind'] == 'scann'


@pytest.mark.usefixtures('far')
def test_two_store_the_same_pairs(further):
  """Ids, judgements and cuts to the last byte; records as they are read."""
  stored = []
  for root in (further, places.path(bucket.BUCKET)):
    folder = root / 'asked' / 'pairs' / 'pairs'
    (manifest,) = folder.glob('*/manifest.json')
    rows = tfds_records.Rows(manifest.parent / 'queries')
    stored.append([
        [str(row) for row in rows], manifest.parent.name,
        json.loads(manifest.read_text())['fingerprint'],
    ])
  assert stored[0] == stored[1] and len(stored[0][0]) > 24
  name = f'asked/pairs/pairs/{stored[0][1]}'
  near = near_files(further / name)
  assert near == far_files(name)
  assert 'cuts.npy' in {path.name for path in near}


@pytest.mark.usefixtures('far')
def test_two_train_a_generator_and_write_the_same(further):
  both = places.path(f'{bucket.BUCKET}/asked/by two')
  test_hosts.assert_near(
      test_train.losses_of(further / 'asked' / 'generator'),
      test_train.losses_of(both))
  assert len(list((both / test_stage1.shown_questions.FOLDER).iterdir())) == 2
  for name in ('found', 'kept'):
    near = near_files(further / 'asked' / name)
    assert near == far_files(f'asked/{name}')
    assert len(near) > 1, name
  assert [path for path in near_files(further / 'asked' / 'found')
          if 'round-trip' in str(path)]


@pytest.mark.usefixtures('far')
def test_two_fuse_the_same(further):
  """BM25, members, fusions and their weights."""
  near, far = near_files(further / 'fused'), far_files('fused')
  for name in ('work/evaluation', 'work/weights', 'prepared'):
    pick = lambda files: {
        re.sub('beir-data-[0-9a-f]{8}', 'beir-data', str(path)): data
        for path, data in files.items()
        if str(path).startswith(name)}  # noqa: B023
    assert pick(near) == pick(far)
  assert len({path.parts[2] for path in far
              if str(path).startswith('work/evaluation')}) >= 6
  assert len([path for path in far if 'bm25_rankings' in path.parts]) > 4


@pytest.mark.usefixtures('far')
def test_two_make_pools_again_as_one(folder):
  """8 devices, and 2 x 2: they divide encoding and filters, and search."""
  alone = folder / 'one' / 'TrainJob'
  both = places.path(f'{bucket.BUCKET}/two/TrainJob')
  wanted, found = map(test_refresh.generations, (alone, both))
  assert list(wanted) == list(found) == [2, 4]
  for step, arrays in wanted.items():
    test_refresh.assert_alike(arrays, found[step])
  told = [record['step'] for record in test_hosts.records_of(both)
          if 'refresh' in record]
  assert told == [3, 5]


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
