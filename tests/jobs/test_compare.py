"""`job=compare`, on made-up folders of evaluations."""

import csv
import json
import shutil
import subprocess

import numpy as np
import pytest

from neg_contrast import errors, jobs
from neg_contrast.evaluation import confidence, finished_runs, run_groups
from neg_contrast.jobs import compare
from neg_contrast.settings import config as config_lib
from tests import finished

LOG = [{'step': step, 'loss': 4.0 - step / 4} for step in (1, 2, 3)] + [
    {'step': 3, 'evaluation': {'accuracy@1': 0.5}}]


def run(work, *workdirs, **settings):
  config = config_lib.base_config()
  config.job = 'compare'
  config.compare.workdirs = tuple(map(str, workdirs))
  config.compare.update(settings)
  parsed = config_lib.parse(config)
  jobs.check(parsed)
  work.mkdir(parents=True, exist_ok=True)
  job = compare.CompareJob(parsed, work)
  assert not job.targets()
  job.finish()
  return json.loads((work / 'comparison.json').read_text())['comparisons'][0]


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
  """Two strategies with two seeds each; folder -> values."""
  root = tmp_path_factory.mktemp('runs')
  values = {}
  for strategy, shift in (('random', 0.0), ('bm25', 0.5)):
    for seed in (0, 1):
      name = f'{strategy}-{seed}'
      values[name] = finished.write(
          root / name, finished.config_of(seed, strategy),
          shift + 0.1 * seed, seed=hash(seed), log=LOG)
  return root, values


@pytest.fixture(scope='module')
def compared(runs, tmp_path_factory):
  """The workdir of their comparison, and what it holds."""
  work = tmp_path_factory.mktemp('compared')
  return work, run(work, runs[0] / 'random-*', runs[0] / 'bm25-*')


def test_seeds_are_put_together_and_paired(runs, compared):
  _, values = runs
  work, made = compared
  names = ['negatives.sources=()', 'negatives.sources=(bm25:2)']
  assert list(made['rows']) == names and made['baseline'] == names[0]
  means = {name: np.mean([*of['mrr@10'].values()])
           for name, of in values.items()}
  of_bm25 = made['rows'][names[1]]['metrics']['mrr@10']
  seeds = [means['bm25-0'], means['bm25-1']]
  np.testing.assert_allclose(of_bm25['by_seed'], seeds)
  np.testing.assert_allclose(of_bm25['sd'], np.std(seeds, ddof=1))
  pair = next(one for one in made['differences'] if one['metric'] == 'mrr@10')
  by_query = np.mean([[values[f'bm25-{seed}']['mrr@10'][query]
                       - values[f'random-{seed}']['mrr@10'][query]
                       for query in values['bm25-0']['mrr@10']]
                      for seed in (0, 1)], axis=0)
  assert pair['difference'] == pytest.approx(0.5) == by_query.mean()
  np.testing.assert_allclose((pair['low'], pair['high']),
                             confidence.interval(by_query), atol=1e-12)
  shown = (work / 'comparison.md').read_text()
  row = next(line for line in shown.splitlines() if '(bm25:2) | 2' in line)
  assert f'{np.mean(seeds):.4f} ± {np.std(seeds, ddof=1):.4f}\\*' in row
  assert '+0.5000, +0.5000' in shown  # By seed.


def test_a_seed_counts_once(runs, tmp_path):
  for seed in (0, 1):
    shutil.copytree(runs[0] / f'bm25-{seed}', tmp_path / f'bm25-{seed}')
  copy = tmp_path / 'copy'
  shutil.copytree(tmp_path / 'bm25-1', copy)
  with pytest.raises(errors.UserError, match=(
      f'{copy}: has the settings and the seed .1. of {tmp_path}/bm25-1, and '
      'seeds count once; leave one of the two out of --config.compare.workd'
  )):
    run(tmp_path / 'w', runs[0] / 'random-*', tmp_path / 'bm25-*', copy)
  for seed in (0, 1):  # Of one training, after two.
    finished.write(tmp_path / f'later-{seed}', finished.config_of(
        stage1=finished.config_of(seed)), seed)
  made = run(tmp_path / 'w', tmp_path / 'later-*')
  assert [len(row['seeds']) for row in made['rows'].values()] == [2]


def test_a_mean_over_worlds_is_not_the_difference_by_query(tmp_path):
  """Its column holds values of queries, whose mean is the `micro_` one."""
  metrics = 'unnormalized_accuracy', 'accuracy@1'
  for number in (0, 1):
    values = finished.write(tmp_path / f'run{number}', finished.config_of(
        strategy=str(number)), number, metrics=metrics)
  read = finished_runs.read_workdir(tmp_path / 'run1', ('trained',))[0]
  assert read.values['micro_unnormalized_accuracy'] == values[metrics[0]]
  made = run(tmp_path / 'w', tmp_path / 'run*')
  assert [one['metric'] for one in made['differences']] == ['accuracy@1']
  shown = (tmp_path / 'w' / 'comparison.md').read_text()
  assert 'unnormalized' in shown.partition('differences')[0]


def by_seed(work, row):
  """The differences of a row in mrr@10, as the table has them."""
  table = (work / 'comparison.md').read_text().partition('differences')[2]
  line = next(one for one in table.splitlines()
              if one.startswith(f'| {row} | mrr@10 |'))
  values = line.replace('−', '-').strip(' |').rpartition('| ')[2]
  return [float(value) for value in values.split(', ')]


def test_a_row_that_all_share_has_each_seed(tmp_path):
  for seed in (0, 1):
    name = tmp_path / f'run{seed}'
    finished.write(name, finished.config_of(seed), seed, seed=seed)
    finished.write(name, None, system='bm25', seed=9)
  made = run(tmp_path / 'w', tmp_path / 'run*', systems=('trained', 'bm25'))
  assert list(made['rows'])[0] == 'bm25'
  of_bm25, *of_rows = (
      finished_runs.read_workdir(tmp_path / name, (system,))[0].means['mrr@10']
      for name, system in (('run0', 'bm25'), ('run0', 'trained'),
                           ('run1', 'trained')))
  assert by_seed(tmp_path / 'w', 'bm25') == pytest.approx(
      [of_bm25 - mean for mean in of_rows], abs=1e-4)


def test_seeds_of_an_earlier_stage_are_paired(tmp_path):
  """Two runs with one seed, after trainings of two."""
  shifts = {'a': (0.0, 1.0), 'b': (0.2, 1.4)}
  for strategy, own in shifts.items():
    for seed in (0, 1):
      finished.write(tmp_path / f'{strategy}{seed}', finished.config_of(
          0, strategy, stage1=finished.config_of(seed)), own[seed])
  made = run(tmp_path / 'w', tmp_path / 'a*', tmp_path / 'b*')
  name = [*made['rows']][1].replace('_', r'\_')
  assert by_seed(tmp_path / 'w', name) == pytest.approx([0.2, 0.4], abs=1e-4)


def test_documents_of_other_depths_are_refused(tmp_path):
  for number, depth in enumerate((10, 100)):
    finished.write(tmp_path / f'run{number}', finished.config_of(number),
                   metrics=('document_recall@10',), rules={'depth': depth})
  with pytest.raises(errors.UserError, match='depth=100.*with 10'):
    run(tmp_path / 'w', tmp_path / 'run*')


def test_what_a_sweep_keeps_beside_its_runs(runs, tmp_path):
  """And a row of several seeds is not called by one of them."""
  for seed in (0, 1):
    shutil.copytree(runs[0] / f'bm25-{seed}', tmp_path / f'fine,seed={seed}')
  (tmp_path / 'compiled').mkdir()
  made = run(tmp_path / 'w' / 'out', tmp_path / 'fine*', tmp_path / '[c-f]*')
  assert list(made['rows']) == ['fine']


def test_metrics_of_candidates_where_these_differ(tmp_path):
  for number, queries in enumerate((9, 12)):
    finished.write(
        tmp_path / f'run{number}', finished.config_of(strategy=str(number)),
        metrics=('accuracy@1', 'normalized_accuracy'), queries=12)
    place = tmp_path / f'run{number}' / 'evaluation' / 'data-test-trained'
    if queries == 9:
      found = finished_runs.read_workdir(tmp_path / 'run0', ('trained',))[0]
      shutil.rmtree(place)
      values = found.values
      finished.rewrite(place, found, {
          'accuracy@1': values['accuracy@1'], 'normalized_accuracy': dict(
              list(values['micro_normalized_accuracy'].items())[:9])})
  made = run(tmp_path / 'w', tmp_path / 'run*')
  assert {one['metric'] for one in made['differences']} == {'accuracy@1'}


def test_keys_that_an_older_revision_lacks_are_as_by_default(tmp_path):
  known = json.loads(json.dumps(config_lib.to_dict(config_lib.Config())))
  for seed in (0, 1):
    config = {**known, 'seed': seed, 'stage1': {'optim': {'ema': 0.0}}}
    if seed:
      config['optim'] = {'learning_rate': known['optim']['learning_rate']}
      del config['evaluation']['criterion'], config['stage1']['optim']
    finished.write(tmp_path / f'run{seed}', config, seed)
  made = run(tmp_path / 'w', tmp_path / 'run*')
  assert [len(row['seeds']) for row in made['rows'].values()] == [2]


def test_a_set_may_have_the_name_of_a_section(tmp_path):
  for seed, weight in enumerate((1.0, 9.0)):
    finished.write(tmp_path / f'run{seed}', finished.config_of(
        seed, mixture={'sets': {'query': {'weight': weight}}}), seed)
  made = run(tmp_path / 'w', tmp_path / 'run*')
  assert list(made['rows']) == ['mixture.sets.query.weight=1',
                                'mixture.sets.query.weight=9']


def test_rows_have_the_names_that_are_given(runs, tmp_path):
  both = runs[0] / 'random-*', runs[0] / 'bm25-*'
  made = run(tmp_path / 'w', *both, names=('none', 'one'), baseline='one')
  assert list(made['rows']) == ['none', 'one'] and made['baseline'] == 'one'
  for names in (('one',), ('one', 'one')):
    with pytest.raises(errors.UserError,
                       match=r'compare.names=.*: negatives.sources=\(\); neg'):
      run(tmp_path / 'w', *both, names=names)


def test_holm_counts_what_was_compared(tmp_path):
  for n, shift in enumerate((0, 0.02, 0.2, 0.3)):
    finished.write(tmp_path / f'run{n}', finished.config_of(
        optim={'steps': n}), shift, seed=n)
  made = run(tmp_path / 'work', tmp_path / 'run*', metrics=('mrr@10',))
  pairs = {one['system']: one for one in made['differences']}
  assert len(pairs) == 3
  smallest = min(pairs.values(), key=lambda one: one['p'])
  assert smallest['p_holm'] == pytest.approx(min(1, 3 * smallest['p']))


def test_all_files_are_written(runs, compared, capsys):
  work, _ = compared
  lines = list(csv.DictReader((work / 'comparison.csv').open()))
  assert len(lines) == 2 * 2 * 2
  assert {line['seed'] for line in lines} == {'0', '1'}
  page = (work / 'comparison.html').read_text()
  assert page.count('<svg') == 3 and 'http' not in page.replace(
      'http-equiv', '').replace('http://www.w3.org/', '')
  for name in ('differences', 'curves-loss', 'curves-accuracy@1'):
    assert (work / f'{name}.svg').read_text().startswith('<?xml')
    pdf = (work / f'{name}.pdf').read_bytes()
    assert pdf.startswith(b'%PDF') and b'/Creator' not in pdf
  before = (work / 'differences.pdf').read_bytes()
  run(work, runs[0] / 'random-*', runs[0] / 'bm25-*')
  assert (work / 'differences.pdf').read_bytes() == before
  assert (work / 'comparison.md').read_text() in capsys.readouterr().out


@pytest.mark.skipif(shutil.which('pdflatex') is None, reason='no LaTeX')
def test_latex_compiles_and_fits_the_page(runs, tmp_path):
  run(tmp_path, runs[0] / 'random-*', runs[0] / 'bm25-*',
      names=('random', 'bm25_& ≥ 9'))
  (tmp_path / 'paper.tex').write_text(
      '\\documentclass{article}\\begin{document}'
      '\\input{comparison}\\end{document}')
  subprocess.run(['pdflatex', '-halt-on-error', 'paper'], cwd=tmp_path,
                 check=True, capture_output=True)
  assert 'Overfull' not in (tmp_path / 'paper.log').read_text()


def test_latex_needs_no_package(compared):
  text = (compared[0] / 'comparison.tex').read_text()
  body = text.replace('$\\pm$', '').replace('$-$', '')
  assert 'rule' not in body and body.isascii() and '$' not in body
  rows = [line for line in text.splitlines() if line.endswith('\\\\')]
  assert {line.count('&') for line in rows} == {3, 6}


def test_systems_that_rows_share_are_one_row(tmp_path):
  for n in range(2):
    config = finished.config_of(optim={'steps': n})
    finished.write(tmp_path / f'run{n}', config, n)
    finished.write(tmp_path / f'run{n}', None, -1, system='bm25', seed=9)
    finished.write(tmp_path / f'run{n}', None, n, system='initial', seed=n)
  made = run(tmp_path / 'work', tmp_path / 'run*',
             systems=('trained', 'initial', 'bm25'))
  assert list(made['rows']) == ['bm25', 'optim.steps=0',
                                'optim.steps=0: initial', 'optim.steps=1',
                                'optim.steps=1: initial']
  assert made['baseline'] == 'optim.steps=0'


def test_a_row_may_have_the_name_of_a_shared_system(tmp_path):
  for n in range(2):
    finished.write(tmp_path / f'run{n}', finished.config_of(n), n)
    finished.write(tmp_path / f'run{n}', None, -1, system='bm25', seed=9)
  rows = run_groups.join([
      (name, one) for n, name in enumerate(('bm25', 'other'))
      for one in finished_runs.read_workdir(
          tmp_path / f'run{n}', ('trained', 'bm25'))])
  assert [row.name for row in rows] == ['system bm25', 'bm25', 'other']


def test_metrics_of_other_depths_are_not_compared(tmp_path):
  metrics = ('accuracy@1', 'mrr', 'answer_accuracy@5')
  write = lambda name, seed, **rules: finished.write(
      tmp_path / name, finished.config_of(seed), metrics=metrics, rules=rules)
  write('a', 0, depth=100, answer_rule='string')
  write('b', 1, depth=20, answer_rule='regex')
  write('old', 2)
  compare = lambda *names, **settings: run(
      tmp_path / 'work', *(tmp_path / name for name in names), **settings)
  with pytest.raises(errors.UserError, match='b: mrr was measured with config.'
                     'evaluation.depth=20, and that of .*a with 100; evaluate'):
    compare('a', 'b', metrics=('mrr',))
  with pytest.raises(errors.UserError, match='evaluation.answer_rule=regex'):
    compare('a', 'b', metrics=('answer_accuracy@5',))
  assert compare('a', 'b', metrics=('accuracy@1',))['rows']
  assert compare('a', 'old', metrics=metrics)['rows']


def test_an_evaluation_beside_a_training_that_has_it_too(tmp_path):
  """Each has the name of its row, of what comes first in it."""
  finished.write(tmp_path / 'run0', finished.config_of(optim={'steps': 0}), 0)
  finished.write(tmp_path / 'run0', None, 2, system='initial')
  finished.write(tmp_path / 'run1', finished.config_of(optim={'steps': 1}), 3,
                 system='initial')
  made = run(tmp_path / 'work', tmp_path / 'run*',
             systems=('trained', 'initial'))
  assert list(made['rows']) == ['initial', 'optim.steps=0', 'optim.steps=1']
  assert made['baseline'] == 'optim.steps=0'


def test_runs_without_a_config_have_their_folders_name(tmp_path):
  finished.write(tmp_path / 'a' / 'x')
  finished.write(tmp_path / 'b' / 'x')
  finished.write(tmp_path / 'b' / 'y')
  finished.write(tmp_path / 'c' / 'b' / 'x')
  made = run(tmp_path / 'work', tmp_path / '[ab]' / '*',
             tmp_path / 'c' / 'b' / 'x')
  assert list(made['rows']) == ['a/x', f'{tmp_path.name}/b/x', 'y', 'c/b/x']


@pytest.mark.parametrize('settings, message', [
    ({'split': 'dev'}, 'b: was evaluated on data/dev, and .*a on data/test'),
    ({'queries': 39}, 'b: was measured in accuracy@1 on 39 queries'),
    ({'metrics': ('mrr@10',)}, 'b: has no accuracy@1, which .*a has; run its '
     'command again'),
    ({'metrics': (*finished.METRICS, 'ndcg@10')}, 'a: has no ndcg@10, which'),
    ({'passages': 49}, r'another state of data/test \(49 passages\)'),
    ({'state': 'other'}, 'another state of data/test'),
    ({'system': 'bm25'}, 'b: has no evaluation of trained or reranked, only '
     'of bm25; name one with --config.compare.systems'),
])
def test_runs_that_can_not_be_compared(tmp_path, settings, message):
  finished.write(tmp_path / 'a', finished.config_of())
  finished.write(tmp_path / 'b', finished.config_of(1), **settings)
  with pytest.raises(errors.UserError, match=message) as refused:
    run(tmp_path / 'work', tmp_path / 'a', tmp_path / 'b')
  assert '\n' not in str(refused.value)


def test_other_mistakes(tmp_path):
  (tmp_path / 'empty').mkdir()
  with pytest.raises(errors.UserError, match='empty: holds no evaluation; fi'):
    run(tmp_path / 'work', tmp_path / 'empty')
  with pytest.raises(errors.UserError, match='there is no such folder'):
    run(tmp_path / 'work', tmp_path / 'gone*')
  with pytest.raises(errors.UserError, match='compare.workdirs=.*is needed'):
    run(tmp_path / 'work')
  finished.write(tmp_path / 'a', finished.config_of())
  with pytest.raises(errors.UserError, match='none of the rows: a'):
    run(tmp_path / 'work', tmp_path / 'a', baseline='b')
  finished.write(tmp_path / 'a', split='dev')
  with pytest.raises(errors.UserError, match='on data/dev, data/test; choose'):
    run(tmp_path / 'work', tmp_path / 'a')
  made = run(tmp_path / 'work', tmp_path / 'a', dataset='data/dev')
  assert made['dataset'] == 'data/dev' and not made['differences']
  (tmp_path / 'a' / 'run.json').write_text('{"config": 3}')
  with pytest.raises(errors.UserError, match='run.json: damaged'):
    run(tmp_path / 'work', tmp_path / 'a', dataset='data/dev')


@pytest.mark.parametrize(('queries', 'is_told'), [(29, True), (30, False)])
def test_intervals_of_few_queries_are_told_to_be_narrow(
    tmp_path, queries, is_told
):
  for n in range(2):
    finished.write(tmp_path / f'run{n}', shift=n, queries=queries, seed=n)
  run(tmp_path / 'work', tmp_path / 'run0', tmp_path / 'run1')
  for ending in ('md', 'tex', 'html'):
    text = (tmp_path / 'work' / f'comparison.{ending}').read_text()
    assert ('Of fewer than 30 queries intervals are too' in text) == is_told
