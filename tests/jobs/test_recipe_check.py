"""`--check` on finished runs: right, wrong, missing, changed, and unknown."""

import csv
import dataclasses
import json
import shutil

import pytest

from neg_contrast import errors, jobs
from neg_contrast.artifacts import folders
from neg_contrast.evaluation import finished_runs, tampering
from neg_contrast.jobs import ensemble, evaluate, nce_synthetic
from neg_contrast.jobs.common import (
  recipe_check,
  recipe_scores,
  recipe_settings,
  sweeps,
)
from neg_contrast.report import expected
from neg_contrast.settings import config as config_lib
from tests import finished, processes, tiny
from tests.jobs import test_nce_bias, test_study

EVALUATE = '''
import pathlib
from neg_contrast.settings import config as config_lib
from tests.jobs import test_recipe_check

def get_config(arg=None):
  config_lib.arguments(arg, size='small')
  return test_recipe_check.make_config(pathlib.Path({root!r}))
'''
NCE = '''
from tests.jobs import test_nce_bias

def get_config(arg=None):
  return test_nce_bias.synthetic()
'''


def make_config(root):
  return tiny.make_config(
      root, job='evaluate', checkpoint=str(root / 'model'), data__groups=1,
      evaluation__metrics=('accuracy@1', 'mrr@10'))


@pytest.fixture(scope='module')
def made(tmp_path_factory):
  """A config file, and its finished run."""
  root = tmp_path_factory.mktemp('recipe')
  (root / 'mine.py').write_text(EVALUATE.format(root=str(root)))
  tiny.run(evaluate.EvaluateJob, make_config(root), root / 'work')
  return root


@pytest.fixture
def run(made, tmp_path):
  """A copy of the run that a test may change."""
  shutil.copytree(made / 'work', tmp_path / 'work')
  return tmp_path / 'work'


def recipe_of(made, work, file=None, argument='', sweep='', **overrides):
  overrides = {key.replace('__', '.'): of for key, of in overrides.items()}
  config = make_config(made)
  for key, value in overrides.items():
    config_lib.set_key(config, key, value)
  return recipe_settings.Recipe(
      sweeps.Source(str(made / 'mine.py'), argument, overrides),
      config_lib.parse(config), sweep, work, file and str(file))


def check(recipe):
  return recipe_check.check(
      jobs.make_job(recipe.config, recipe.workdir), recipe)


@pytest.mark.parametrize('argument, name', [
    ('', 'mine.py'), ('size=small', 'mine.py:size=small'),
    ('train,size=small', 'mine.py:train,size=small'),
    ('gold=beir:/here/squad/,split=dev,generator=workdirs/t5',
     'mine.py:gold=beir:squad,split=dev,generator=t5')])
def test_a_name_has_no_folders_of_this_machine(argument, name, tmp_path):
  source = sweeps.Source(str(tmp_path / 'mine.py'), argument, {})
  config = config_lib.parse(config_lib.base_config())
  assert recipe_settings.Recipe(source, config, '', tmp_path, None).name == name


def values_of(work, system='initial'):
  return {metric: value for key, value in json.loads(
      (work / 'metrics.json').read_text()).items()
      for name, metric in [key.rsplit('/', 2)[1:]] if name == system}


def write(path, *rows):
  """A csv file; what a row does not say is plain."""
  plain = dict.fromkeys(expected.COLUMNS, '') | {
      'config': 'mine.py', 'dataset': 'data/test', 'system': 'initial',
      'metric': 'mrr@10', 'tolerance': '0.001', 'date': '2026-11-23',
      'source': expected.RUN_HERE}
  with path.open('w', newline='') as f:
    writer = csv.DictWriter(f, expected.COLUMNS)
    writer.writeheader()
    writer.writerows(plain | row for row in rows)
  return path


def refuse(recipe, message):
  with pytest.raises(errors.UserError, match=message) as refused:
    check(recipe)
  assert '\n' not in str(refused.value)


def test_inside_outside_and_missing(made, run, tmp_path, capsys):
  values = values_of(run)
  right = [{'metric': name, 'value': value + 0.0009}
           for name, value in values.items()]
  recipe = recipe_of(made, run, write(tmp_path / 'right.csv', *right))
  assert check(recipe)
  assert '2 inside, 0 outside, 0 missing' in capsys.readouterr().out
  wrong = {'value': values['mrr@10'] + 0.0011}
  recipe = recipe_of(made, run, write(tmp_path / 'wrong.csv', wrong))
  assert not check(recipe)
  assert '0 inside, 1 outside, 0 missing' in capsys.readouterr().out
  for row in ({'metric': 'map', 'value': 0.5},
              {'system': 'trained', 'value': 0.5}):
    missing = write(tmp_path / 'missing.csv', right[0], row)
    assert not check(recipe_of(made, run, missing))
    assert '1 inside, 0 outside, 1 missing' in capsys.readouterr().out


def test_published_numbers_alone(made, run, tmp_path, capsys):
  """They are shown, and rows of the run are proposed."""
  file = write(tmp_path / 'a.csv', {
      'value': 0.9, 'tolerance': '', 'date': '',
      'source': 'published, not run here: a paper'})
  assert check(recipe_of(made, run, file))
  shown = capsys.readouterr().out
  assert '1 published without a tolerance' in shown
  assert 'None of them was run here yet' in shown
  assert shown.count('\nmine.py,') == 4


def test_rows_of_a_run_are_printed_and_can_be_added(made, run, tmp_path,
                                                    capsys):
  recipe = recipe_of(made, run, seed=3, workdir='elsewhere',
                     data__prepared_dir=str(made / 'prepared'))
  recipe_without = dataclasses.replace(recipe, file=None)
  refuse(recipe_without, f'^{made}/expected.csv: has no row of mine.py with '
         'these flags; add the lines above to')
  printed = capsys.readouterr().out
  lines = list(csv.DictReader(printed.splitlines()))
  assert [row['flags'] for row in lines] == ['--config.seed=3'] * 4
  assert {row['data'] for row in lines} != {''}
  assert {row['machine'] for row in lines} != {''}
  for row in lines:
    row['tolerance'] = '0'
    row['value'] = str(values_of(run, row['system'])[row['metric']])
  file = write(tmp_path / 'own.csv', *lines)
  assert check(dataclasses.replace(recipe, file=str(file)))
  refuse(recipe_of(made, run, file), r'own.csv: has no row of mine.py with '
         r'these flags, but of mine.py --config.seed=3; add .* seconds. The '
         r'nearest differs in --config.seed$')


@pytest.mark.parametrize('changes, flags', [
    ({}, ''), ({'seed': 0}, ''), ({}, '--config.seed=0'),
    ({'seed': 3}, '--config.seed=3'),
    ({'seed': 3, 'model__pooling': 'cls'},
     '--config.model.pooling=cls --config.seed=3'),
    ({'data__prepared_dir': 'x', 'mesh__data': 1}, ''),
    ({'model__chunk_groups': -1}, '--config.model.remat=full'),
    ({'index__block_rows': 7, 'index__table_rows': 7}, ''),
    ({'data__on_invalid': 'skip', 'serve__port': 1}, ''),
    ({}, '--config.benchmark.rounds=2'),
    ({'checkpoint': 'a/model'}, '--config.checkpoint=b/c/model'),
    ({'evaluation__runs': ('a/b.trec',)},
     '''--config.evaluation.runs="('b.trec',)"'''),
    ({'data__source': 'beir:/here/data'}, '--config.data.source=beir:data/'),
])
def test_rows_that_belong(made, tmp_path, changes, flags):
  file = write(tmp_path / 'a.csv', {'value': 1, 'flags': flags},
               {'value': 1, 'flags': flags, 'config': 'yours.py'})
  rows = expected.read(file)
  assert recipe_settings.belonging(
      rows, recipe_of(made, tmp_path, **changes)) == [rows[0]]


@pytest.mark.parametrize('changes, config, flags', [
    ({'seed': 1}, 'mine.py', ''), ({}, 'mine.py', '--config.seed=1'),
    ({'data__source': 'beir:b'}, 'mine.py', '--config.data.source=beir:a'),
    ({'data__source': 'dpr:a'}, 'mine.py', '--config.data.source=beir:a'),
    ({'sweep': 'seed=0,1'}, 'mine.py', ''),
    ({}, 'mine.py', '--sweep=seed=0,1'),
    ({'model__query_prefix': 'a/b c'}, 'mine.py',
     "'--config.model.query_prefix=d/b c'"),
])
def test_rows_that_do_not_belong(made, tmp_path, changes, config, flags):
  file = write(tmp_path / 'a.csv',
               {'value': 1, 'config': config, 'flags': flags})
  assert not recipe_settings.belonging(
      expected.read(file), recipe_of(made, tmp_path, **changes))


@pytest.mark.parametrize('row, message', [
    ({'config': 'mine.py:length=1'}, ':2: config argument .* unknown key'),
    ({'flags': '--config.optim.step=1'}, ':2: .*did you mean optim.steps'),
    ({'flags': '--config.optim.steps=-1'}, ':2: config.optim.steps=-1: lies'),
    ({'value': 'much'}, ":2: value is 'much'"),
])
def test_lines_that_can_not_be_right(made, run, tmp_path, row, message):
  file = write(tmp_path / 'bad.csv', {'value': 1, **row})
  refuse(recipe_of(made, run, file), f'^{file}{message}')


def test_a_csv_that_is_not_there(made, run):
  refuse(recipe_of(made, run, 'no/where.csv'),
         '^--expected=no/where.csv: no such file')


def test_other_data(made, run, tmp_path, capsys):
  good = values_of(run)['mrr@10']
  file = write(tmp_path / 'a.csv', {'value': good, 'data': 'python 3.9'})
  refuse(recipe_of(made, run, file), r'are of other data \(python 3.9, and '
         r'this is [0-9a-f]{12}\); add')
  state = capsys.readouterr().out.splitlines()[0].split(',')[7]
  file = write(tmp_path / 'a.csv', {'value': 9, 'data': 'python 3.9'},
               {'value': good, 'data': state})
  assert check(recipe_of(made, run, file))
  assert '1 inside, 0 outside, 0 missing' in capsys.readouterr().out


def test_python_docs_are_told_by_the_version_of_python(tmp_path, monkeypatch):
  finished.write(tmp_path)
  run = finished_runs.read_workdir(tmp_path, ('trained',))[0]
  assert recipe_scores._data_of(run) == 'fingerprint'[:12]
  monkeypatch.setattr('sys.version_info', (3, 12, 4, 'final', 0))
  run = dataclasses.replace(run, dataset='python_docs/test')
  assert recipe_scores._data_of(run) == 'python 3.12'


def test_an_unfinished_run(made, run, tmp_path):
  refuse(recipe_of(made, tmp_path / 'nothing'), 'nothing: is not finished: .*'
         'is to do.* Run the same command without --check first')
  assert not (tmp_path / 'nothing').exists()
  (run / 'metrics.json').unlink()
  refuse(recipe_of(made, run), 'metrics.json: no such file: the run is not fi')
  shutil.rmtree(run / 'evaluation' / 'data-test-initial')
  refuse(recipe_of(made, run), 'is not finished: "initial" is to do. Run')


def edit(path, change):
  content = json.loads(path.read_text())
  change(content)
  path.write_text(json.dumps(content))


@pytest.mark.parametrize('key, value', [
    ('data/test/initial/mrr@10', 0.99), ('data/test/better/mrr@10', 0.99),
    ('data/test/initial/mrr@10', None)])
def test_metrics_that_were_changed(made, run, tmp_path, key, value):
  """Also where the file of what is expected was changed with them."""
  file = write(tmp_path / 'a.csv', {'value': 0.99})

  def change(metrics):
    metrics[key] = value
    if value is None:
      del metrics[key]

  edit(run / 'metrics.json', change)
  refuse(recipe_of(made, run, file), f'metrics.json: {key} is {value}, and '
         '.* was measured: it was changed by hand. Run the same command')


def test_what_a_training_tuned_has_no_evaluation(tmp_path):
  values = {'data/test/trained/mrr': 0.5, 'data/tune/calibrated/ece': 0.1}
  (tmp_path / 'metrics.json').write_text(json.dumps(values))
  known = {'data/test/trained/mrr': 0.5}
  tampering.check_metrics(tmp_path, known, known)
  values['data/test/other/mrr'] = 0.9
  (tmp_path / 'metrics.json').write_text(json.dumps(values))
  with pytest.raises(errors.UserError, match='data/test/other/mrr is 0.9'):
    tampering.check_metrics(tmp_path, known, known)


def test_evaluations_that_were_changed(made, run, tmp_path):
  file = write(tmp_path / 'a.csv', {'value': 0.99})
  folder = run / 'evaluation' / 'data-test-initial'
  manifest = (folder / 'manifest.json').read_text()
  edit(folder / 'manifest.json',
       lambda content: content['metrics'].update({'mrr@10': 0.99}))
  refuse(recipe_of(made, run, file), 'manifest.json: damaged')
  (folder / 'manifest.json').write_text(manifest)
  content = folders.read_sealed(folder / 'manifest.json')
  content['metrics']['mrr@10'] = 0.99
  folders.write_sealed(folder / 'manifest.json', content)  # With its checksum.
  edit(run / 'metrics.json',
       lambda content: content.update({'data/test/initial/mrr@10': 0.99}))
  refuse(recipe_of(made, run, file), 'mrr@10 of initial on data/test is 0.99 '
         'in manifest.json, and 0.* in per_query.tsv: it was changed by hand')
  (folder / 'manifest.json').write_text(manifest)
  table = folder / 'per_query.tsv'
  table.write_text(table.read_text().replace('1', '2', 1))
  refuse(recipe_of(made, run, file), 'per_query.tsv: damaged')


def test_an_ensemble_and_its_members(made, tmp_path, capsys):
  shutil.copytree(made / 'model', tmp_path / 'other')
  fused = tiny.make_config(
      made, job='ensemble', evaluation__bm25=False, ensemble__hybrid=False,
      evaluation__metrics=('mrr@10',), ensemble__weights=(0.5, 0.5),
      ensemble__members=(str(made / 'model'), str(tmp_path / 'other')))
  tiny.run(ensemble.EnsembleJob, fused, tmp_path / 'work')
  recipe = dataclasses.replace(recipe_of(made, tmp_path / 'work'),
                               config=config_lib.parse(fused))
  capsys.readouterr()
  refuse(recipe, 'has no row')
  lines = csv.DictReader(capsys.readouterr().out.splitlines())
  assert {row['system'] for row in lines} == {
      'model', 'other', 'fusion_embedding', 'fusion_rank'}


def test_nce_on_a_synthetic_population(tmp_path, capsys):
  config = tmp_path / 'nce.py'
  config.write_text(NCE)
  work = tmp_path / 'work'
  tiny.run(nce_synthetic.NceSyntheticJob, test_nce_bias.synthetic(), work)
  parsed = config_lib.parse(test_nce_bias.synthetic())
  recipe = recipe_settings.Recipe(
      sweeps.Source(str(config), '', {}), parsed, '', work, None)
  capsys.readouterr()
  refuse(recipe, 'has no row of nce.py')
  lines = list(csv.DictReader(capsys.readouterr().out.splitlines()))
  assert {(row['dataset'], row['system']) for row in lines} == {
      ('synthetic/population', name)
      for name in ('cross-entropy', 'hard', 'random')}
  write(tmp_path / 'expected.csv', *(
      {**row, 'tolerance': '1e-3'} for row in lines))
  assert check(recipe)
  metrics = (work / 'metrics.json').read_text()
  edit(work / 'metrics.json', lambda content: content.update(
      {'synthetic/population/hard/loss': 0.5}))
  refuse(recipe, 'metrics.json: synthetic/population/hard/loss is 0.5, and')
  (work / 'metrics.json').write_text(metrics)
  edit(work / 'curves.json', lambda content: content['points'][-1]['hard']
       .update(loss=0.5))
  refuse(recipe, 'curves.json: damaged')


@pytest.fixture(scope='module')
def swept(tmp_path_factory):
  """A finished sweep of two rows, one with two seeds."""
  root = tmp_path_factory.mktemp('sweep')
  test_study.do(test_study.sweep(root, test_study.SWEEP, root / 'work'),
                root / 'work')
  return root


def check_sweep(root, file=None, text=test_study.SWEEP):
  job = test_study.sweep(root, text, root / 'work')
  return recipe_check.check(job, recipe_settings.Recipe(
      test_study.source_of(root),
      config_lib.parse(test_study.make_config(root)), text,
      root / 'work', file and str(file)))


def test_rows_of_a_sweep_are_means_over_seeds(swept, capsys):
  with pytest.raises(errors.UserError, match='has no row of config.py'):
    check_sweep(swept)
  lines = list(csv.DictReader(capsys.readouterr().out.splitlines()))
  seeds = {}
  for row in csv.DictReader((swept / 'work' / 'comparison.csv').open()):
    seeds.setdefault((row['row'], row['metric']), []).append(
        float(row['value']))
  assert {(row['system'], row['metric']): float(row['value'])
          for row in lines} == {
      key: pytest.approx(sum(of) / len(of), rel=1e-5)
      for key, of in seeds.items()}
  assert [bool(row['tolerance']) for row in lines] == [
      len(seeds[row['system'], row['metric']]) > 1 for row in lines]
  file = write(swept / 'own.csv', *(
      {**row, 'tolerance': row['tolerance'] or '1e-4'} for row in lines))
  assert check_sweep(swept, file)


def test_seeds_in_another_order(swept):
  """They are the same runs: nothing was changed."""
  text = ('kind=evaluate model.pooling=cls seed={};'
          'kind=evaluate model.pooling=mean seed=0')
  for seeds in ('0,1', '1,0'):
    with pytest.raises(errors.UserError, match='has no row of config.py'):
      check_sweep(swept, text=text.format(seeds))
  with pytest.raises(errors.UserError, match='hand, or written with other ro'):
    check_sweep(swept, text=text.format('1'))


def test_sweeps_that_were_changed(swept, tmp_path):
  root = swept
  path = root / 'work' / 'comparison.json'
  before = path.read_text()

  def change(content):
    row, = list(content['comparisons'][0]['rows'].values())[-1:]
    row['metrics']['mrr@10']['by_seed'] = [0.99]

  edit(path, change)
  with pytest.raises(errors.UserError, match=r'mrr@10 is \[0.99\], and .* was'):
    check_sweep(root)
  path.write_text('{"comparisons": 3}')
  with pytest.raises(errors.UserError, match='comparison.json: damaged'):
    check_sweep(root)
  path.rename(tmp_path / 'away')
  with pytest.raises(errors.UserError, match='comparison.json: no such file'):
    check_sweep(root)
  path.write_text(before)
  cell = next((root / 'work').glob('*seed=1')) / 'metrics.json'
  metrics = cell.read_text()
  edit(cell, lambda content: content.update({'data/test/initial/mrr@10': 1}))
  with pytest.raises(errors.UserError, match='changed by hand'):
    check_sweep(root)
  cell.write_text(metrics)


def test_a_comparison_of_runs(tmp_path, capsys):
  for seed in (0, 1):
    for name in ('random', 'bm25'):
      finished.write(tmp_path / f'{name}-{seed}',
                     finished.config_of(seed, name), seed=seed + len(name))
  config = config_lib.base_config()
  config.job = 'compare'
  config.compare.workdirs = tuple(
      str(tmp_path / f'{name}-*') for name in ('random', 'bm25'))
  (tmp_path / 'compare.py').write_text(
      (processes.ROOT / 'configs' / 'compare.py').read_text())
  work = tmp_path / 'work'
  recipe = recipe_settings.Recipe(
      sweeps.Source(str(tmp_path / 'compare.py'), '',
                    {'compare.workdirs': config.compare.workdirs}),
      config_lib.parse(config), '', work, None)
  refuse(recipe, 'work/comparison.json: no such file: the run is not finished')
  work.mkdir()
  jobs.make_job(recipe.config, work).finish()
  capsys.readouterr()
  refuse(recipe, 'has no row of compare.py')
  lines = list(csv.DictReader(capsys.readouterr().out.splitlines()))
  assert {row['system'] for row in lines} == {
      'negatives.sources=()', 'negatives.sources=(bm25:2)'}
  assert {row['flags'] for row in lines} == {
      "\"--config.compare.workdirs=('random-*', 'bm25-*')\""}
  write(tmp_path / 'expected.csv', *lines)
  assert check(recipe)


def test_a_job_without_scores(made, tmp_path):
  config = tiny.make_config(made, job='search', checkpoint=str(made / 'model'),
                            query='a')
  recipe = dataclasses.replace(recipe_of(made, tmp_path),
                               config=config_lib.parse(config))
  refuse(recipe, '--check: job=search leaves no scores to check|not finished')


def command(*flags):
  return processes.run(processes.command(*flags))


def test_the_command_and_its_status(tmp_path):
  """0: right; 1: wrong; 2: nothing to say."""
  (tmp_path / 'nce.py').write_text(NCE)
  flags = [f'--config={tmp_path / "nce.py"}', f'--workdir={tmp_path / "work"}']
  unfinished = command(*flags, '--check')
  assert unfinished.returncode == 2 and not unfinished.stdout
  assert 'work: is not finished: "curves" is to do. Run' in unfinished.stderr
  assert not (tmp_path / 'work').exists()
  assert command(*flags).returncode == 0
  unknown = command(*flags, '--check')
  assert unknown.returncode == 2 and 'no row of nce.py' in unknown.stderr
  assert 'Traceback' not in unknown.stderr
  lines = list(csv.DictReader(unknown.stdout.splitlines()))
  assert len(lines) > 5  # Nothing else is printed there.
  file = write(tmp_path / 'expected.csv', *(
      {**row, 'tolerance': '1e-3'} for row in lines))
  right = command(*flags, '--check')
  assert right.returncode == 0, right.stderr
  assert f'{len(lines)} inside, 0 outside, 0 missing' in right.stdout
  assert 'plan:' not in right.stdout
  wrong = write(tmp_path / 'wrong.csv', {
      **lines[0], 'value': 9, 'tolerance': '0.1'})
  result = command(*flags, '--check', f'--expected={wrong}')
  assert result.returncode == 1 and '1 outside' in result.stdout
  file.write_text('config\n')
  bad = command(*flags, '--check')
  assert bad.returncode == 2 and f'error: {file}:1: the header' in bad.stderr
