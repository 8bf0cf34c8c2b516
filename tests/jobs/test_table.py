"""A grid of tiny trainings, printed beside numbers of a paper."""

import json
import re
import shutil

import ml_collections
import pytest

from neg_contrast import errors, jobs
from neg_contrast.artifacts import artifact, plan
from neg_contrast.benchmarks import outlook
from neg_contrast.jobs import table
from neg_contrast.jobs.common import recipe_scores
from neg_contrast.models import by_name
from neg_contrast.report import paper
from neg_contrast.settings import config as config_lib
from neg_contrast.training import run_artifacts
from tests import tiny

METRICS = ('accuracy@1', 'accuracy@5', 'mrr@10')


def make_cell(root, strategy, stage1=False, **overrides):
  """A training; from stage 1 on neighbours, or from the model itself."""
  config = tiny.make_config(root, **{
      'optim__steps': 3, 'evaluation__eval_steps': 0, 'mesh__data': 1,
      'evaluation__metrics': METRICS, 'evaluation__answer_ks': (1,),
      'negatives__sources': () if strategy == 'random' else (f'{strategy}:2',),
      'negatives__pool_size': 4, 'negatives__depth': 6,
      'negatives__mined_dir': str(root / 'mined'),
      'synthetic__dir': str(root / 'synthetic'), **overrides,
  })
  if stage1:
    config.stage1 = make_cell(root, 'random', synthetic__pairs='neighbours',
                              synthetic__per_passage=1,
                              workdir=str(root / 'stage1'))
  return config


def make_table(root, **overrides):
  config = make_cell(root, 'random', job='table', **overrides)
  config.cells = ml_collections.ConfigDict({
      'generated': {name: make_cell(root, name, stage1=True)
                    for name in ('random', 'bm25')},
      'none': {name: make_cell(root, name) for name in ('bm25', 'random')},
      'baselines': {'dpr_single': make_cell(
          root, 'bm25', model__shared=False, loss__bidirectional=False,
          loss__scale=1.0,
      )},
  })
  config.ensemble.hybrid_depth = 20
  config.table.members = ('random', 'bm25')
  config.table.metrics = ('answer_accuracy@1', 'mrr@10')
  config.table.datasets = ('squad',)
  config.table.paper = str(root / 'paper.csv')
  if not (root / 'paper.csv').exists():
    (root / 'paper.csv').write_text('\n'.join([
        ','.join(paper.COLUMNS),
        '2,squad,generated,random,answer_accuracy@1,30.1',
        '2,squad,generated,fusion_rank,answer_accuracy@1,34.2',
        '4,squad,none,bm25,answer_accuracy@1,25.3',
        '2,squad,,DPR ours,answer_accuracy@1,25.3', '',
    ]))
  return config


MOST_LOADED = []  # Trainings whose weights were in memory, at every step.


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
  root = tmp_path_factory.mktemp('table')
  keep_only = artifact.keep_only

  def watched(wanted, are_large=True):
    keep_only(wanted, are_large)
    MOST_LOADED.append(sum(isinstance(one, run_artifacts.Run)
                           for one in artifact._loaded))

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(artifact, 'keep_only', watched)
    tiny.run(table.TableJob, make_table(root), root / 'work')
  return root


def test_memory_holds_few_of_many_trainings(finished):
  """Of six trainings, those that one artifact needs: two members at most."""
  assert len(MOST_LOADED) > 30 and max(MOST_LOADED) <= 2


def rows_of(markdown):
  """Label -> cells, and the order of labels."""
  lines = [[cell.strip() for cell in line.split('|')[1:-1]]
           for line in markdown.splitlines() if line.startswith('| ')]
  return [(label, cells) for label, *cells in lines]


def value_of(folder, metric):
  manifest = json.loads((folder / 'manifest.json').read_text())
  return f'{round(100 * manifest["metrics"][metric], 1):.1f}'


def test_the_table_is_the_papers(finished):
  work = finished / 'work'
  rows = rows_of((work / 'table.md').read_text())
  assert [label for label, _ in rows] == [
      '', '*Baselines*', 'BM25', 'DPR (Single)', 'DPR ours', 'BM25 + DPR',
      '*Stage 1 with hard negatives*', 'Stage 1', 'Rnd', 'Rnd + BM25',
      'Ensemble (embedding)', 'Ensemble (rank)', '*No stage 1*', 'Rnd',
      'Rnd + BM25',
  ]
  places = {
      2: work / 'evaluation' / 'data-test-bm25',
      3: work / 'cells' / 'baselines-dpr_single' / 'evaluation',
      4: work / 'cells' / 'none-bm25' / 'evaluation',
      5: work / 'hybrid' / 'evaluation' / 'data-test-hybrid',
      7: work / 'evaluation' / 'data-test-stage1',
      8: work / 'cells' / 'generated-random' / 'evaluation',
      9: work / 'cells' / 'generated-bm25' / 'evaluation',
      10: work / 'ensemble' / 'evaluation' / 'data-test-fusion_embedding',
      11: work / 'ensemble' / 'evaluation' / 'data-test-fusion_rank',
      13: work / 'cells' / 'none-random' / 'evaluation',
      14: work / 'cells' / 'none-bm25' / 'evaluation',
  }
  for number, folder in places.items():
    if folder.name == 'evaluation':
      folder /= 'data-test-trained'
    for cell, metric in zip(rows[number][1], ('answer_accuracy@1', 'mrr@10'),
                            strict=True):
      assert value_of(folder, metric) in cell, rows[number]
  assert '(30.1)' in rows[8][1][0] and '(34.2)' in rows[11][1][0]
  assert '(25.3)' in rows[4][1][0] and '(25.3)' in rows[14][1][0]
  text = (work / 'table.md').read_text()
  assert 'not comparable: ours 48 passages, 12 queries; Lu et al. 21,015,' in (
      text)
  assert r'\begin{tabular}{lrr}' in (work / 'table.tex').read_text()
  page = (work / 'report.html').read_text()
  assert '<td>Ensemble (embedding)</td>' in page and 'id="table"' in page


def test_what_cells_share_is_made_once(finished):
  job = table.TableJob(config_lib.parse(make_table(finished)),
                       finished / 'work')
  targets = job.targets()
  assert plan.describe(targets).count('to do') == 0
  names = [one.title for one in artifact.closure(targets) if one.is_listed]
  assert names.count('generated-random: stage 1: training') == 1
  assert not any('stage 1' in name for name in names
                 if not name.startswith('generated-random'))
  mined = [name for name in names if re.search(': bm25$', name)]
  assert mined == ['generated-bm25: bm25']  # The first that needs it.
  assert len(list((finished / 'mined' / 'candidates').glob('*-bm25-*'))) == 1


def test_scores_of_cells_have_the_cell_in_their_name(finished):
  work = finished / 'work'
  scores = recipe_scores.scores_of(
      table.TableJob(config_lib.parse(make_table(finished)), work), 'table',
      work)
  values = {score.key: score.value for score in scores}
  assert {system for _, system, _ in values} == {
      'bm25', 'stage1', 'hybrid/hybrid', 'ensemble/fusion_embedding',
      'ensemble/fusion_rank', *(f'cells/{name}/trained' for name in (
          'generated-random', 'generated-bm25', 'none-random', 'none-bm25',
          'baselines-dpr_single'))}
  for name in ('none-bm25', 'generated-random'):
    written = json.loads((work / 'cells' / name / 'metrics.json').read_text())
    assert values['data/test', f'cells/{name}/trained', 'mrr@10'] == (
        written['data/test/trained/mrr@10'])


def test_a_difference_is_printed_where_sizes_are_the_papers(
    finished, monkeypatch
):
  monkeypatch.setitem(paper.SIZES, 'squad', paper.Size(48, 12))
  job = tiny.run(table.TableJob, make_table(finished), finished / 'work')
  text = (finished / 'work' / 'table.md').read_text()
  assert 'not comparable' not in text
  assert re.search(r'\(30\.1, [−+]\d', text)
  monkeypatch.undo()
  job.finish()


def test_a_cell_that_was_removed_is_trained_again(finished, tmp_path):
  work = tmp_path / 'work'
  shutil.copytree(finished / 'work', work)
  shutil.rmtree(work / 'cells' / 'generated-bm25')
  job = table.TableJob(config_lib.parse(make_table(finished)), work)
  undone = [line.split(']')[1].split('  ')[0].strip()
            for line in plan.describe(job.targets()).splitlines()
            if '[to do' in line]
  assert undone[:4] == ['generated-bm25: pool', 'generated-bm25: training',
                        'generated-bm25: embeddings', 'generated-bm25: trained']
  assert {'weights', 'fusion_embedding'} <= set(undone)


def test_the_ensemble_is_a_checkpoint_and_cells_have_metrics(finished):
  work = finished / 'work'
  assert by_name.is_ensemble(str(work / 'ensemble'))
  values = json.loads(
      (work / 'cells' / 'none-bm25' / 'metrics.json').read_text()
  )
  assert 'data/test/trained/mrr@10' in values


def test_own_groups_and_rows_are_printed(finished):
  """On the cells that are there already, under other names."""
  config = make_table(finished)
  cells = {'baselines': {'plain': config.cells.baselines.dpr_single},
           'my group': {'random': config.cells.none.random,
                        'mine': config.cells.none.bm25}}
  config.cells = ml_collections.ConfigDict(cells)
  config.table.members = config.table.metrics = config.table.datasets = ()
  work = finished / 'own'
  for name, there in (('my group-mine', 'none-bm25'),
                      ('my group-random', 'none-random'),
                      ('baselines-plain', 'baselines-dpr_single')):
    shutil.copytree(finished / 'work' / 'cells' / there, work / 'cells' / name)
  job = tiny.run(table.TableJob, config, work)
  rows = rows_of((work / 'table.md').read_text())
  assert [label for label, _ in rows] == [
      '', '*Baselines*', 'BM25', 'plain', '*my group*', 'random', 'mine']
  assert rows[0][1] == list(METRICS)
  folder = work / 'cells' / 'my group-mine' / 'evaluation'
  assert value_of(folder / 'data-test-trained', 'mrr@10') in rows[6][1][2]
  assert 'to do' not in plan.describe(job.targets())


def test_members_must_be_cells(finished, tmp_path):
  config = make_table(finished)
  config.table.members = ('random', 'fine')
  with pytest.raises(errors.UserError,
                     match='there is no config.cells.generated.fine'):
    table.TableJob(config_lib.parse(config), tmp_path)


def test_metrics_must_be_known(finished, tmp_path):
  for section in ('table', 'evaluation'):
    config = make_table(finished)
    config[section].metrics = ('nope@3',)
    job = table.TableJob(config_lib.parse(config), tmp_path)
    with pytest.raises(errors.UserError,
                       match=f"config.{section}.metrics: no metric 'nope@3'"):
      job.targets()


def test_every_row_measures_the_columns(finished, tmp_path):
  config = make_table(finished)
  config.table.metrics = ('mrr@10',)
  table.TableJob(config_lib.parse(config), tmp_path).targets()
  for at, names, told in (
      (config.cells.none.bm25, ('accuracy@1',),
       r"config\.cells\.none\.bm25\.evaluation\.metrics=\('accuracy@1',\): "
       'lacks mrr@10, a column of the table; add it'),
      (config.cells.none.bm25, ('nope@3', 'mrr@10'),
       r"config\.cells\.none\.bm25\.evaluation\.metrics: no metric 'nope@3'"),
      (config, ('accuracy@1',), r'config\.evaluation\.metrics=.* lacks mrr@10'),
  ):
    at.evaluation.metrics = names
    job = table.TableJob(config_lib.parse(config), tmp_path)
    with pytest.raises(errors.UserError, match=told):
      job.targets()
    at.evaluation.metrics = ('accuracy@1', 'mrr@10')


def test_no_split_of_the_table_is_tuned_on(finished, tmp_path):
  splits = {'data__test_split': 'train', 'data__tune_split': 'test'}
  config = make_cell(finished, 'random', job='table', **splits)
  config.cells = ml_collections.ConfigDict({
      'none': {'random': make_cell(finished, 'random', **splits)}})
  config.table.more_splits = ('test',)
  targets = table.TableJob(config_lib.parse(config), tmp_path).targets()
  with pytest.raises(errors.UserError, match=(
      'the tune split and the split "test", which is reported, have .* queries '
      'in common')):
    plan.run(targets, check=outlook.Splits(targets).check)
  assert not list(tmp_path.rglob('checkpoints'))  # Nothing was trained.


def test_trainings_of_one_workdir_are_alike(tmp_path):
  config = make_table(tmp_path)
  config.cells.generated.bm25.stage1.optim.steps = 2
  targets = table.TableJob(config_lib.parse(config), tmp_path).targets()
  with pytest.raises(errors.UserError, match=(
      r'(?s)stage1: is the workdir of two trainings .*"generated-random: stage '
      r'1: training" \(there\) and "generated-bm25: stage 1: training" \(here\)'
      r'.*config\.cells\.generated\.bm25\.stage1\.optim\.steps: 3 there, 2 here'
      r'.*another --config\.cells\.generated\.bm25\.stage1\.workdir')):
    outlook.refuse(targets)
  config.cells.generated.bm25.stage1.workdir += '-of-bm25'
  outlook.refuse(table.TableJob(config_lib.parse(config), tmp_path).targets())


def test_errors_name_the_cell(finished, tmp_path):
  config = make_table(finished)
  config.cells.none.bm25.optim.steps = -1
  with pytest.raises(errors.UserError, match=r'config\.cells\.none\.bm25\.opt'):
    config_lib.parse(config)
  config = make_table(finished)
  config.cells = None
  with pytest.raises(errors.UserError, match=r'config\.cells=None: is needed'):
    jobs.check(config_lib.parse(config))
  config = make_table(finished)
  config.cells.none.bm25.model.init = str(tmp_path / 'gone')
  told = plan.describe(
      table.TableJob(config_lib.parse(config), tmp_path).targets()
  )
  assert 'MISSING' in told and 'gone' in told


@pytest.mark.parametrize(('key', 'value', 'message'), [
    ('job', 'mine', "job='mine': is no training of a dual encoder"),
    ('data.source', 'beir:other', "data.source='beir:other': is not that of"),
    ('data.test_split', 'train', "data.test_split='train': is not that of the"),
    ('data.document', 'title', "data.document='title': is not that of the ta"),
])
def test_rows_are_of_the_data_of_the_table(
    finished, tmp_path, key, value, message
):
  config = make_table(finished)
  config.cells.none.bm25.update_from_flattened_dict({key: value})
  with pytest.raises(errors.UserError,
                     match=f'config.cells.none.bm25.{message}'):
    table.TableJob(config_lib.parse(config), tmp_path)


@pytest.mark.parametrize(('key', 'value', 'message'), [
    ('paper', 'absent.csv', 'absent.csv: no such file'),
    ('datasets', ('sqad',), 'has "sqad", and the paper has nq, squad, msmarco'),
    ('datasets', ('nq', 'squad'), 'are more than there are splits'),
])
def test_numbers_of_the_paper_are_looked_at_first(
    finished, key, value, message
):
  config = make_table(finished)
  config.table[key] = value
  with pytest.raises(errors.UserError, match=message):
    jobs.check(config_lib.parse(config))
