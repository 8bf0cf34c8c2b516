"""`--sweep` and `job=study` on the tiny corpus: one plan, then a comparison."""

import csv
import dataclasses
import json
import pathlib
import shutil
from typing import Any

import ml_collections
import pytest

from neg_contrast import errors, jobs
from neg_contrast.artifacts import artifact, folders, plan
from neg_contrast.evaluation import finished_runs
from neg_contrast.jobs import study
from neg_contrast.jobs.common import declared_cells, study_checks, sweeps
from neg_contrast.settings import config as config_lib
from tests import tiny

CONFIG = '''
import pathlib
from neg_contrast.settings import config as config_lib
from tests.jobs import test_study

def get_config(arg=None):
  args = config_lib.arguments(arg, negatives='given', kind='train')
  return test_study.make_config(pathlib.Path({root!r}), **args)
'''
SWEEP = ('kind=evaluate model.pooling=cls,mean seed=0;'
         'kind=evaluate model.pooling=cls seed=1')
TRAININGS = 'negatives=random,given seed=0,1; negatives=random seed=2'


def make_config(root, negatives='given', kind='train', **overrides):
  """A training from a stage 1 on gold pairs, or an evaluation of its start."""
  make = lambda **more: tiny.make_config(root, **{
      'optim__steps': 2, 'evaluation__eval_steps': 0, 'evaluation__bm25': False,
      'evaluation__metrics': ('accuracy@1', 'mrr@10'), 'data__groups': 1,
      'mesh__data': 1, 'negatives__sources': (), 'data__split': 'test',
      'model__layers': 1,
      'negatives__mined_dir': str(root / 'mined'), **more, **overrides})
  config = make(job=kind, negatives__sources=(
      () if negatives == 'random' else (f'{negatives}:2',)))
  config.compare.systems = ('trained', 'initial')
  if kind == 'train':
    config.stage1 = make(workdir='anywhere')
  else:
    config.checkpoint = str(root / 'model')
  return config


def source_of(root, **overrides):
  path = root / 'config.py'
  if not path.exists():
    path.write_text(CONFIG.format(root=str(root)))
  return sweeps.Source(str(path), '', overrides)


def sweep(root, text, work, **overrides):
  source = source_of(root, **overrides)
  config = config_lib.parse(make_config(root))
  return sweeps.make_job(text, source, config, work)


def do(job, work):
  folders.make_folder(work)
  plan.run(job.targets())
  job.finish()


@pytest.fixture(scope='module')
def swept(tmp_path_factory):
  """A finished sweep of two rows."""
  root = tmp_path_factory.mktemp('sweep')
  work = root / 'work'
  do(sweep(root, SWEEP, work), work)
  return root


def test_a_sweep_ends_in_a_comparison(swept):
  work = swept / 'work'
  assert {path.name for path in work.iterdir() if path.is_dir()} - {
      '.locks', 'compiled'} == {
      f'kind=evaluate,model.pooling={pooling},seed={seed}'
      for pooling, seed in (('cls', 0), ('cls', 1), ('mean', 0))}
  rows = {}
  for line in csv.DictReader((work / 'comparison.csv').open()):
    rows.setdefault(line['row'], set()).add(line['seed'])
    folder = pathlib.Path(line['workdir'])
    assert folder.parent == work and (folder / 'report.html').exists()
    metrics = json.loads((folder / 'metrics.json').read_text())
    assert metrics[f'data/test/initial/{line["metric"]}'] == float(
        line['value'])
  assert rows == {'kind=evaluate,model.pooling=cls': {'0', '1'},
                  'kind=evaluate,model.pooling=mean': {'0'}}
  made = json.loads((work / 'comparison.json').read_text())['comparisons']
  assert [len(one['rows']) for one in made] == [2]


def test_a_finished_sweep_makes_nothing_again(swept):
  work = swept / 'work'
  cell = work / 'kind=evaluate,model.pooling=mean,seed=0'
  job = sweep(swept, SWEEP, work)
  assert 'to do' not in plan.describe(job.targets())
  before = [path.stat().st_mtime_ns for path in work.glob('*/report.html')]
  job.finish()
  assert before == [path.stat().st_mtime_ns
                    for path in work.glob('*/report.html')]
  (cell / 'evaluation').rename(work / 'away')
  job = sweep(swept, SWEEP, work)
  shown = plan.describe(job.targets())
  (work / 'away').rename(cell / 'evaluation')
  assert [line.split(']')[1].split('  ')[0].strip()
          for line in shown.splitlines() if '[to do' in line] == [
      f'{cell.name}: initial']


def test_what_cells_share_is_made_once(swept, tmp_path):
  job = sweep(swept, TRAININGS, tmp_path)
  listed: list[Any] = [
      one for one in artifact.closure(job.targets()) if one.is_listed]
  assert [one.title for one in listed if 'stage 1' in one.title] == [
      'negatives=random,seed=0: stage 1: training']
  folders_of = [str(one.folder.relative_to(tmp_path)) for one in listed
                if one.name == 'training']
  assert len(folders_of) == 6 and folders_of[0].startswith('shared/stage1-')
  assert folders_of[1:] == [
      'negatives=random,seed=0', 'negatives=random,seed=1',
      'negatives=given,seed=0', 'negatives=given,seed=1',
      'negatives=random,seed=2']
  shown = plan.describe(listed)
  assert shown.count(': initial ') == 1, shown  # They start from the same.
  several = sweep(swept, 'stage1.seed=0,1 seed=0,1', tmp_path).targets()
  assert sum(one.title.endswith('stage 1: training')
             for one in artifact.closure(several)) == 2


@pytest.mark.parametrize('systems', [
    ('initial', 'trained'), ('trained', 'initial')])
def test_what_one_cell_has_for_several_names_no_row(
    systems, swept, tmp_path, monkeypatch
):
  monkeypatch.setattr(
      study.finished_runs, 'read', lambda folder, workdir, system:
      finished_runs.FinishedRun(
          workdir, system, 'data/test', (), {'mrr': len(str(workdir))}, {},
          None))
  config = make_config(swept)
  config.compare.systems = systems
  job = sweeps.make_job(
      TRAININGS, source_of(swept), config_lib.parse(config), tmp_path)
  job.targets()
  (rows,) = job.rows().values()
  assert [(row.name, len(row.runs)) for row in rows] == [
      ('initial', 1), ('negatives=random', 3), ('negatives=given', 2)]


def test_a_row_of_seeds_alone_has_the_name_of_its_config(tmp_path):
  source = source_of(tmp_path)
  rows = [cell.row for cell in sweeps.cells('seed=0,1', source, tmp_path)]
  assert rows == [pathlib.Path(source.file).stem] * 2


def make_study(root):
  """A start, and a row that goes on from it."""
  config = make_config(root, 'random', study__seeds=(0, 1))
  start, given = make_config(root, 'random'), make_config(root, 'given')
  config.job, config.stage1, start.stage1 = 'study', None, None
  config.cells = ml_collections.ConfigDict({
      'tiny': {'start': start, 'given': given}})
  config.study.rows, config.study.once = ('start', 'given'), ('start',)
  return config


def test_a_row_that_others_start_from_is_made_once(swept, tmp_path):
  job = jobs.make_job(config_lib.parse(make_study(swept)), tmp_path)
  targets = job.targets()
  needed: Any = artifact.closure(targets)
  trained = [str(one.folder.relative_to(tmp_path))
             for one in needed if one.name == 'training']
  assert trained == [f'tiny/{name}' for name in (
      'start-seed0', 'given-seed0', 'given-seed1')]
  shown = plan.describe(targets)
  assert 'tiny-given seed 1: training' in shown
  config = make_study(swept)
  config.study.seed_stage1 = True
  job = jobs.make_job(config_lib.parse(config), tmp_path)
  assert sum(one.name == 'training'
             for one in artifact.closure(job.targets())) == 4
  config.study.rows = ('given',)
  job = jobs.make_job(config_lib.parse(config), tmp_path)
  needed = artifact.closure(job.targets())
  assert all('/start-' not in str(one.folder)
             for one in needed if one.name == 'training')


def test_every_table_has_its_rows_and_its_baseline(swept, tmp_path):
  """What a study finds in its folders, as a sweep left it there."""
  config = make_study(swept)
  config.study.seeds, config.study.once = (), ()
  config.cells = ml_collections.ConfigDict({
      group: {name: make_config(swept, kind='evaluate', model__pooling=name)
              for name in ('cls', 'mean')} for group in ('one', 'two')})
  config.study.rows, config.compare.baseline = ('mean', 'cls'), 'cls'
  for group in ('one', 'two'):
    for name in ('cls', 'mean'):
      shutil.copytree(
          swept / 'work' / f'kind=evaluate,model.pooling={name},seed=0',
          tmp_path / group / f'{name}-seed0')
  job = jobs.make_job(config_lib.parse(config), tmp_path)
  assert 'to do' not in plan.describe(job.targets())
  job.finish()
  made = json.loads((tmp_path / 'comparison.json').read_text())['comparisons']
  assert [one['title'] for one in made] == ['one', 'two']
  assert [list(one['rows']) for one in made] == [['mean', 'cls']] * 2
  assert {one['baseline'] for one in made} == {'cls'}
  assert (tmp_path / 'differences-2.pdf').exists()


def test_digits_are_a_text_where_the_key_takes_one(tmp_path):
  config = tiny.make_config(tmp_path)
  assert config.model.passage_prefix is None
  found = sweeps.value_of(config, 'model.passage_prefix', '1')
  config_lib.set_key(config, 'model.passage_prefix', found)
  assert config.model.passage_prefix == '1'
  assert sweeps.value_of(config, 'optim.steps', '1') == 1


def test_a_sweep_over_what_nothing_reads_is_told_of(swept, tmp_path, caplog):
  sweep(swept, 'negatives.judge_below=0.1,0.2', tmp_path)
  assert [line for line in caplog.messages if 'judge_below' in line] == [
      'config.negatives.judge_below: changes nothing here; it is read if there '
      'is a `judge`'] * 2


@pytest.mark.parametrize('text, message', [
    ('', '--sweep: is empty'),
    ('negatives', "'negatives' is no KEY=VALUE,VALUE"),
    ('negatives=given, seed=0', 'negatives: has an empty value'),
    ('negatives=given,given', 'negatives=given: stands there twice'),
    ('seed=0 seed=1', 'seed: stands there twice; join'),
    ('seed=0,1;seed=1', '--sweep: seed=1: stands there twice'),
    ('optim.learning_rate=1e-4,0.0001', '--sweep: optim.learning_rate=0.0001: '
     'stands there twice'),
    ('negativs=given', '--sweep: negativs=given: config argument .*unknown key '
     '"negativs"; did you mean negatives.; this config takes kind'),
    ('seed=0 negatives=given,best', '--sweep: seed=0,negatives=best: .*'
     'negatives.sources=.*"best" must be one of'),
    ('optim.step=3', '--sweep: optim.step=3: .*did you mean optim.steps'),
    ('optim.steps=3,-1', '--sweep: optim.steps=-1: config.optim.steps=-1: lies '
     'between 0'),
    ('model.query_prefix=:) seed=0,1', r"brackets in 'model.query_prefix=:\) "
     "seed=0,1' don't match"),
    ("negatives.sources=('bm25:1' seed=0,1", "brackets in .* don't match"),
    ('negatives.miner_seed=1.5', 'negatives.miner_seed=1.5: .*write a whole '
     'number'),
    ('optim.steps=many', '--sweep: optim.steps=many: .*write a whole number'),
    ("negatives.sources=('best:1','bm25:1')",
     r"negatives.sources=\('best:1','bm25:1'\): config.negatives."),
    ('negatives.sources=best:1', '"best" must be one of'),
    ('workdir=a', 'every cell has a folder of its own'),
    ('job=mine negatives=bm25', 'job=mine,negatives=bm25: .*config.stage1='),
    ('job=audit', 'config.job=.audit.: leaves no evaluations|config.stage1'),
    ('optim.steps=1 data.batch_size=4', 'batch_size: is set by --config too'),
])
def test_mistakes_in_a_sweep(swept, tmp_path, text, message):
  with pytest.raises(errors.UserError, match=message) as refused:
    sweep(swept, text, tmp_path, **{'data.batch_size': 8})
  assert '\n' not in str(refused.value) and not list(tmp_path.iterdir())


@pytest.mark.parametrize('text, compare, message', [
    ('seed=0,1', {'baseline': 'negatives=given'}, "config.compare.baseline='"
     "negatives=given': is none of the rows: config; trained; initial"),
    ('negatives=random,given', {'baseline': 'random'}, 'none of the rows: '
     'negatives=given; negatives=random; trained; initial'),
    ('negatives=random,given', {'metrics': ('mrr@10', 'mrr@3')},
     r"compare.metrics=\('mrr@10', 'mrr@3'\): negatives=random does not "
     'measure mrr@3; add it to config.evaluation.metrics, or name some of '
     'accuracy@1, mrr@10'),
    ("evaluation.metrics=('mrr',),('mrr','map')", {},
     r'compare.metrics=\(\): .* does not measure map; add'),
    ('kind=rerank', {'metrics': ('mrr@3',)}, 'measure mrr@3; add .*accuracy@100'
     ', .*normalized_accuracy'),
])
def test_what_is_compared_is_checked_before_it_runs(
    swept, tmp_path, text, compare, message
):
  config = make_config(swept)
  config.compare.update(compare)
  make = lambda: sweeps.make_job(
      text, source_of(swept, candidates='bm25'), config_lib.parse(config),
      tmp_path)
  with pytest.raises(errors.UserError, match=message) as refused:
    make()
  assert '\n' not in str(refused.value)
  config.compare.baseline = ''
  config.compare.metrics = ('mrr',) if 'map' in text else ('mrr@10',)
  make()


def test_values_of_a_sweep(swept, tmp_path):
  made = sweeps.cells('evaluation.metrics=("map",),("mrr",\'map\') '
                      'optim.learning_rate=1e-3 data.train_split=train',
                      source_of(swept), tmp_path)
  assert [cell.config.evaluation.metrics for cell in made] == [
      ('map',), ('mrr', 'map')]
  assert [cell.workdir.name[:-8] for cell in made] == [
      f'evaluation.metrics=-{name}-,optim.learning_rate=1e-3,'
      'data.train_split=train-' for name in ('map-,', 'mrr-,-map')]
  assert len({cell.workdir for cell in made}) == 2


def test_mistakes_in_a_study(swept, tmp_path):
  def refuse(message, **overrides):
    with pytest.raises(errors.UserError, match=message):
      config = make_study(swept)
      config.update_from_flattened_dict(overrides)
      jobs.make_job(config_lib.parse(config), tmp_path).targets()

  refuse('config.cells=None: is needed', cells=None)
  refuse("study.rows='fine': is none of the cells: given, start",
         **{'study.rows': ('fine',)})
  refuse("compare.baseline='start': is left out by config.study.rows; add it "
         'there, or name one of given',
         **{'study.rows': ('given',), 'compare.baseline': 'start'})
  refuse("compare.baseline='untrained': is none of the rows: given; start; "
         'trained; initial', **{'compare.baseline': 'untrained'})
  refuse('study.seeds=.*names each once', **{'study.seeds': (1, 1)})
  refuse('compare.systems=.*names at least one', **{'compare.systems': ()})
  refuse(r'cells\.tiny\.start\.job: evaluates initial on data/test, .* none',
         **{'compare.systems': ('reranked',)})
  for baseline in ('given', 'initial', 'given: initial'):
    config = make_study(swept)
    config.compare.baseline = baseline
    jobs.make_job(config_lib.parse(config), tmp_path)
  config = make_study(swept)
  config.cells['tiny'].given.job = 'mine'
  with pytest.raises(errors.UserError, match='config.cells.tiny.given'):
    jobs.make_job(config_lib.parse(config), tmp_path)


def test_a_cell_that_evaluates_nothing_is_refused():
  with pytest.raises(errors.UserError, match='job=.split.: leaves no evaluat'):
    study_checks.check_cell(config_lib.Config(job='split'))


def test_a_new_key_moves_no_folder(monkeypatch):
  """Of an earlier stage that runs share; unless it has another value."""
  stage = config_lib.parse(config_lib.base_config())
  config = dataclasses.replace(stage, seed=3, stage1=dataclasses.replace(
      stage, optim=dataclasses.replace(stage.optim, steps=7)))
  key, plain = declared_cells._key(config), config_lib.to_dict
  assert key != declared_cells._key(dataclasses.replace(config, stage1=None))
  assert key != declared_cells._key(dataclasses.replace(config, seed=4))

  def with_new(values, value):
    if values is not None:
      values['optim']['new'] = value
      with_new(values['stage1'], 1)
    return values

  monkeypatch.setattr(
      config_lib, 'to_dict', lambda one: with_new(plain(one), 1))
  assert declared_cells._key(config) == key
  monkeypatch.setattr(config_lib, 'to_dict', lambda one: with_new(
      plain(one), 2 if one is config else 1))
  assert declared_cells._key(config) != key
