"""Pools that a training makes again: laws of whole trainings."""

import dataclasses
import json
import pathlib
import re
import shutil
from typing import Any

import jax
import numpy as np
import pytest

from neg_contrast import errors, jobs
from neg_contrast.artifacts import folders, plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.data import examples
from neg_contrast.jobs import train as train_job
from neg_contrast.jobs.common import settings_of_rooms
from neg_contrast.mining import candidates, pool_files, refreshed_pool
from neg_contrast.models import by_name
from neg_contrast.negatives import pool as pool_lib
from neg_contrast.negatives import refresh
from neg_contrast.negatives.sources import pool_source
from neg_contrast.retrieval import text_encoder
from neg_contrast.settings import config as config_lib
from neg_contrast.settings import keys
from neg_contrast.training import encoder_run, run_log
from tests import processes, test_killed, tiny
from tests.jobs import test_train

STEPS, EVERY, DEPTH, SIZE = 10, 4, 20, 6


def settings(root, **overrides):
  return {
      'negatives__sources': ('model:2',),
      'negatives__checkpoint': str(root / 'model'),
      'negatives__mined_dir': str(root / 'mined'),
      'negatives__depth': DEPTH, 'negatives__pool_size': SIZE,
      'negatives__refresh_steps': EVERY, 'optim__steps': STEPS,
      'optim__learning_rate': 1e-2, **overrides}


def train(root, workdir, **overrides):
  tiny.train_only(root, workdir, **settings(root, **overrides))


PASSAGES, QUERIES = 80, 60
IN_PARTS = {'index__table_rows': 64, 'index__chunk_tokens': 1}
PARTS = [f'refreshed/*/{name}' for name in (
    'embeddings/passages-?????.npy', 'found/?????-of-?????',
    'dropped_by/?????-of-?????')]


def train_in_parts(root, workdir, **overrides):
  """Vectors are in two files, too."""
  train(root, workdir, **{**IN_PARTS, **overrides})


def generations(workdir):
  """Arrays of each pool that was made again, by step."""
  return {
      int(folder.name): {path.stem: np.load(path)
                         for path in sorted(folder.glob('*.npy'))}
      for folder in sorted((workdir / refresh.FOLDER).glob('???????'))
      if folders.read_manifest(folder, pool_lib.FORMAT)
  }


def assert_alike(first, second):
  """Pools of equal models but for rounding: passages that score the same may
  have changed places."""
  np.testing.assert_allclose(first['score'], second['score'], atol=1e-5)
  gaps = np.abs(np.diff(first['score'], axis=1)) < 1e-5
  is_near = np.pad(gaps, ((0, 0), (0, 1))) | np.pad(gaps, ((0, 0), (1, 0)))
  assert is_near.mean() < 0.5
  for name in ('rows', 'dropped_by'):
    np.testing.assert_array_equal(
        np.where(is_near, 0, first[name]), np.where(is_near, 0, second[name]))
  for name in ('source', 'query_rows'):
    np.testing.assert_array_equal(first[name], second[name])


def assert_same(first, second, step=STEPS):
  """Losses, parameters and pools, to the last bit."""
  test_train.assert_same_run(first, second, step)
  jax.tree.map(np.testing.assert_array_equal, generations(first),
               generations(second))


def records(workdir):
  return [one for one in run_log.read(workdir / run_log.FILE)
          if 'refresh' in one]


@pytest.fixture(autouse=True)
def small(monkeypatch):
  """Five parts of a search, and of filters."""
  use_small_parts(monkeypatch.setattr)


def use_small_parts(change=setattr):
  change(candidates, '_ON_MESH', 1)
  change(refreshed_pool, '_QUERIES_AT_ONCE', 14)
  change(pool_files, 'QUERIES_AT_ONCE', 14)


@dataclasses.dataclass
class Whole:
  """A finished training.

  Attributes:
    root: its data and model; it is in `whole`.
    params: step -> parameters that made a pool.
    drawn: step -> queries, and the passages drawn for them.
    named: files and folders that got their names, in order.
  """

  root: pathlib.Path
  params: dict[int, Any]
  drawn: dict[int, tuple[np.ndarray, np.ndarray]]
  named: list[pathlib.Path]

  def copy_pool(self, work):
    shutil.copytree(self.root / 'whole' / 'pool', work / 'pool')


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
  """What others are to equal."""
  root = tmp_path_factory.mktemp('refresh')
  tiny.write_beir(root / 'data', documents=20)
  remake = encoder_run.DualEncoderTraining.remake
  draw = pool_source.FromPool.draw

  def note(self, given, moment):
    made.params[moment.step] = jax.tree.map(np.asarray, given['encoder'])
    remake(self, given, moment)

  def note_draw(self, step, numbers, query_rows):
    drawn = draw(self, step, numbers, query_rows)
    made.drawn[step] = query_rows, drawn.rows
    return drawn

  with pytest.MonkeyPatch.context() as patch:
    use_small_parts(patch.setattr)
    patch.setattr(encoder_run.DualEncoderTraining, 'remake', note)
    patch.setattr(pool_source.FromPool, 'draw', note_draw)
    made = Whole(root, {}, {}, test_killed.note_parts('*', patch.setattr))
    train_in_parts(root, root / 'whole')
  return made


def test_a_refreshed_pool_can_be_given(whole, tmp_path):
  pool = whole.root / 'whole' / refresh.FOLDER / '0000008'
  tiny.train_only(
      whole.root, tmp_path, optim__steps=1, checkpointing__log_steps=1,
      negatives__sources=('pool:2',), negatives__pool=str(pool))
  told, = test_train.losses_of(tmp_path).values()
  assert np.isfinite(told)


def test_pools_are_the_nearest_by_the_parameters_of_their_step(whole):
  root, params = whole.root, whole.params
  config = config_lib.parse(
      tiny.make_config(root, **settings(root, **IN_PARTS)))
  prepared = dataset_lib.Dataset(config.data).prepared
  model = by_name.load_workdir(root / 'whole')
  encoder = text_encoder.TextEncoder(
      model, settings_of_rooms.encoding(config))
  made, positives = generations(root / 'whole'), examples.known_positives(
      prepared)
  assert list(made) == list(params) == [4, 8]
  passages = list(prepared.passages)
  for step, arrays in made.items():
    now = encoder.with_params(params[step])
    queries = [prepared.queries[int(row)].text for row in arrays['query_rows']]
    scores = now.encode_queries(queries) @ now.encode_passages(passages).T
    np.testing.assert_allclose(
        arrays['score'], -np.sort(-scores, axis=1)[:, :DEPTH], atol=1e-5)
    np.testing.assert_allclose(arrays['score'], np.take_along_axis(
        scores, arrays['rows'], axis=1), atol=1e-5)
    for line, query in enumerate(arrays['query_rows']):
      known = set(positives[int(query)].tolist())
      rows = arrays['rows'][line].tolist()
      is_kept = arrays['dropped_by'][line] == 0
      assert len(set(rows)) == DEPTH and is_kept.sum() == SIZE
      groups = prepared.passage_groups[rows]
      assert not known & set(groups[is_kept].tolist())
      others = [group for group in groups.tolist() if group not in known]
      assert groups[is_kept].tolist() == others[:SIZE]
      assert arrays['positive_scores'][line, 0] == pytest.approx(max(
          scores[line, row] for row in known if row >= 0), abs=1e-5)
  assert (made[4]['rows'] != made[8]['rows']).any()


def test_steps_draw_from_the_newest_generation(whole):
  """And the log says what each generation cost and changed."""
  work = whole.root / 'whole'
  made = generations(work)
  mined = pool_lib.read(work / 'pool')
  made[0] = {name: np.asarray(getattr(mined, name)) for name in
             ('rows', 'dropped_by', 'query_rows')}
  for step in range(STEPS):
    arrays = made[step // EVERY * EVERY]
    query_rows, rows = whole.drawn[step]
    lines = np.searchsorted(arrays['query_rows'], query_rows)
    kept = np.where(arrays['dropped_by'] == 0, arrays['rows'], -1)[lines]
    assert (rows[:, :, None] == kept[:, None, :]).any(axis=2).all()
  told = records(work)
  assert [one['step'] for one in told] == [5, 9]
  for one, (before, after) in zip(told, ((0, 4), (4, 8)), strict=True):
    facts = one['refresh']
    assert (facts['passages'], facts['queries']) == (PASSAGES, QUERIES)
    assert facts['seconds'].keys() == {'encoding', 'searching', 'filtering'}
    then, now = (
        {(line, row) for line in range(QUERIES)
         for row in made[at]['rows'][line][made[at]['dropped_by'][line] == 0]}
        for at in (before, after))
    assert facts['new'] == len(now - then) / len(now) > 0
    assert facts['counts']['negatives'] == QUERIES * SIZE
    assert facts['hubness']['top1_most'] >= 1


def assert_near(whole, work):
  """Losses and pools, but for rounding."""
  want, got = map(test_train.losses_of, (whole.root / 'whole', work))
  for step, value in want.items():
    assert got[step] == pytest.approx(value, abs=1e-5 * max(1, value))
  for first, second in zip(*(generations(place).values() for place in (
      whole.root / 'whole', work)), strict=True):
    assert_alike(first, second)


def test_plan_and_report_tell_of_it(whole, tmp_path):
  """Of a training on one device, which is the same but for rounding."""
  config = tiny.make_config(whole.root, **settings(
      whole.root, **IN_PARTS, mesh__data=1, evaluation__bm25=False,
      evaluation__eval_steps=0))
  job = train_job.TrainJob(config_lib.parse(config), tmp_path)
  said = plan.describe(job.targets())
  assert (f'negatives made again every {EVERY} steps, up to 2 times, each of '
          f'{PASSAGES} passages encoded') in said
  whole.copy_pool(tmp_path)
  tiny.run(train_job.TrainJob, config, tmp_path)
  assert_near(whole, tmp_path)
  page = (tmp_path / 'report.html').read_text()
  table = page[page.index('<h3>Made again</h3>'):]
  told = [one['refresh'] for one in records(tmp_path)]
  assert len(told) == 2
  for facts in told:
    assert f'<td>{facts["new"]:.0%}</td>' in table
    assert f'<td>{facts["hubness"]["skewness"]:.2f}</td>' in table
  assert 'encoding' in table and 'positives dropped' in table
  events = next((tmp_path / 'tensorboard').iterdir()).read_bytes()
  assert b'refresh/hubness/skewness' in events


def test_a_mesh_gives_the_same(whole, tmp_path):
  whole.copy_pool(tmp_path / 'work')
  train_in_parts(
      whole.root, tmp_path / 'work', mesh__data=4, mesh__model=2)
  assert_near(whole, tmp_path / 'work')


def test_beyond_the_end_it_is_the_mined_pool(whole, tmp_path):
  for name, steps in (('static', 0), ('late', STEPS)):
    whole.copy_pool(tmp_path / name)
    train_in_parts(
        whole.root, tmp_path / name, negatives__refresh_steps=steps)
  test_train.assert_same_run(tmp_path / 'static', tmp_path / 'late', STEPS)
  assert not (tmp_path / 'late' / refresh.FOLDER).exists()
  assert test_train.losses_of(tmp_path / 'late') != test_train.losses_of(
      whole.root / 'whole')


_KILLED = '''
import os, pathlib, sys
from tests import test_killed
from tests.negatives import test_refresh
root, work, pattern = sys.argv[1:]
replace = os.replace
def tell(source, path):
  replace(source, path)
  print('named', path, flush=True)
os.replace = tell
test_refresh.use_small_parts()
test_killed.note_parts(pattern, stop_at=2)
test_refresh.train_in_parts(pathlib.Path(root), pathlib.Path(work))
'''


def interrupted(*_, **__):
  raise KeyboardInterrupt


@pytest.fixture(scope='module')
def stopped(whole, tmp_path_factory):
  """A training stopped after step 7 and saved after step 6; it draws from 4.

  Three programs that make the pool of step 4 were killed, with -9, when a part
  was whole and the next one had no name yet: of vectors, of what is found, of
  filters. A fourth ends it.

  Returns:
    The folder of the training; what got its name until then, in order.
  """
  work = tmp_path_factory.mktemp('stopped') / 'work'
  whole.copy_pool(work)
  named, write = [], run_log.RunLog.write_step

  def stop(self, record):
    if record.step == 8:
      raise KeyboardInterrupt
    write(self, record)

  for pattern in PARTS:
    process = processes.Process(_KILLED, [whole.root, work, pattern])
    is_stopped = 'stopped\n' in process.lines()
    process.kill()
    told, error = process.communicate(30)
    assert is_stopped, told + error
    assert len(test_killed.parts_in(work, pattern)) == 1
    named += map(pathlib.Path, re.findall('^named (.*)', told, re.M))
  with pytest.MonkeyPatch.context() as patch:
    use_small_parts(patch.setattr)
    here = test_killed.note_parts('*', patch.setattr)
    patch.setattr(run_log.RunLog, 'write_step', stop)
    with pytest.raises(KeyboardInterrupt):
      train_in_parts(whole.root, work)
  assert list(generations(work)) == [4]
  return work, named + here


def test_killed_and_interrupted_in_refreshes_it_ends_the_same(
    whole, stopped, tmp_path, monkeypatch):
  """No part is made twice; a generation is put back where it is missed."""
  (begun, before), root, work = stopped, whole.root, tmp_path / 'work'
  shutil.copytree(begun, work)
  shutil.move(work / 'refreshed' / '0000004', work / 'elsewhere')
  with pytest.raises(errors.UserError, match=(
      r'refreshed/0000004: the pool .* after step 4 is not there, .* put it '
      'back, or train in another --workdir')) as raised:
    train_in_parts(root, work)
  assert '\n' not in str(raised.value)
  shutil.move(work / 'elsewhere', work / 'refreshed' / '0000004')
  after = test_killed.note_parts('*', monkeypatch.setattr)
  for owner, name in ((encoder_run.DualEncoderTraining, 'remake'),
                      (refreshed_pool.RefreshedPool, 'write'),
                      (run_log.RunLog, 'write_refresh')):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
      patch.setattr(owner, name, interrupted)
      train_in_parts(root, work)
  train_in_parts(root, work)
  assert_same(root / 'whole', work)
  assert [one['step'] for one in records(work)] == [5, 9]
  assert not list((work / refresh.FOLDER).glob('*.parts'))
  for pattern in PARTS:
    wanted, *made = (
        [path.relative_to(folder) for path in named
         if test_killed.is_part(path, pattern)] for folder, named in (
             (root / 'whole', whole.named), (begun, before), (work, after)))
    assert len(wanted) >= 4  # Of two generations.
    assert sorted(sum(made, [])) == sorted(wanted)


def test_a_damaged_generation_is_told_of(whole, stopped, tmp_path):
  root, work = whole.root, tmp_path / 'work'
  shutil.copytree(stopped[0], work)
  folder = work / 'refreshed' / '0000004'
  path = folder / 'rows.npy'
  data = bytearray(path.read_bytes())
  data[-3] ^= 1
  path.write_bytes(data)
  with pytest.raises(errors.UserError, match=(
      r'refreshed/0000004: .* is damaged \(.*rows.npy.* put it back')):
    train_in_parts(root, work)
  data[-3] ^= 1
  path.write_bytes(data)
  manifest = folders.read_sealed(folder / folders.MANIFEST)
  manifest['identity']['settings']['run'] = 'other'
  folders.write_sealed(folder / folders.MANIFEST, manifest)
  with pytest.raises(errors.UserError, match='is of another training'):
    train_in_parts(root, work)


_KILLED_DRAW = '''
import pathlib, sys
from tests import test_killed, tiny
test_killed.note_parts('sampled/?????', stop_at=2)
tiny.train_only(*map(pathlib.Path, sys.argv[1:]),
                negatives__sources=('sampled:4',), optim__steps=9)
'''


def test_killed_in_a_draw_it_ends_the_same(tmp_path, monkeypatch):
  """kill -9 in the second draw by the model, which is made again."""
  tiny.write_beir(tmp_path / 'data')
  named = test_killed.note_parts('sampled/?????', monkeypatch.setattr)
  train_once = lambda work: tiny.train_only(
      tmp_path, work, negatives__sources=('sampled:4',), optim__steps=9)
  train_once(tmp_path / 'whole')
  draws = len(named)
  assert draws > 2
  process = processes.Process(_KILLED_DRAW, [tmp_path, tmp_path / 'work'])
  is_stopped = 'stopped\n' in process.lines()
  process.kill()
  assert is_stopped, process.communicate(30)
  process.wait(30)
  first, = test_killed.parts_in(tmp_path / 'work', 'sampled/?????')
  assert first.name == '00000'
  named.clear()
  train_once(tmp_path / 'work')
  assert first not in named and len(named) == draws - 1
  for folder in (tmp_path / 'whole' / 'sampled').glob('?????'):
    np.testing.assert_array_equal(*(
        np.load(work / 'sampled' / folder.name / 'rows.npy')
        for work in (tmp_path / 'whole', tmp_path / 'work')))
  assert (test_train.losses_of(tmp_path / 'whole')
          == test_train.losses_of(tmp_path / 'work'))


@pytest.mark.parametrize(('overrides', 'told'), [
    ({'negatives__sources': ('bm25:2',)}, 'has none of them'),
    ({'negatives__sources': ('bm25:1', 'context:1')}, 'has none of them'),
    ({'negatives__sources': ()},
     'has none of them'),
    ({'negatives__sources': ('sampled:2',)}, 'refresh_epochs'),
    ({'negatives__pool': 'some/pool'}, 'leave that out'),
    ({'job': 'train_reranker', 'evaluation__depth': 20}, 'for dual encoders'),
    ({'negatives__refresh_steps': -1}, 'at least 0'),
])
def test_refused_with_a_reason(tmp_path, overrides, told):
  config = tiny.make_config(tmp_path, **settings(
      tmp_path, **{'evaluation__metrics': ('accuracy@1',), **overrides}))
  with pytest.raises(errors.UserError, match=told) as raised:
    jobs.check(config_lib.parse(config))
  assert 'negatives.refresh_steps' in str(raised.value)


def test_it_counts_only_where_it_is_set(tmp_path):
  make = lambda **kwargs: keys.counting(
      config_lib.NegativesConfig(sources=('model:1',), **kwargs))
  assert 'refresh_steps' not in make()
  assert make(refresh_steps=5)['refresh_steps'] == 5


def test_other_worlds_are_left_out(tmp_path):
  """Of mentions: what is found lies in the worlds that are trained on."""
  config = tiny.make_linking_config(
      tmp_path, evaluation__eval_steps=0, **{
          **settings(tmp_path), 'negatives__depth': 4,
          'negatives__pool_size': 3, 'negatives__sources': ('model:1',),
          'optim__steps': 3, 'negatives__refresh_steps': 2})
  parsed = config_lib.parse(config)
  (tmp_path / 'work').mkdir()
  plan.run([train_job.TrainJob(parsed, tmp_path / 'work').run])
  prepared = dataset_lib.Dataset(parsed.data).prepared
  (arrays,) = generations(tmp_path / 'work').values()
  trained = set(prepared.query_worlds[arrays['query_rows']].tolist())
  assert len(trained) < len(prepared.worlds)
  assert set(prepared.passage_worlds[arrays['rows']].ravel().tolist()) == (
      trained)
  positives = examples.known_positives(prepared)[arrays['query_rows']]
  kept = np.where(arrays['dropped_by'] == 0, arrays['rows'], -2)
  assert not (kept == positives[:, :1]).any()
  assert np.isfinite(arrays['positive_scores']).all()
  told = json.loads(
      (tmp_path / 'work' / 'refreshed' / '0000002' / folders.MANIFEST)
      .read_text())['refresh']
  assert told['passages'] == int(np.isin(
      prepared.passage_worlds, list(trained)).sum())
