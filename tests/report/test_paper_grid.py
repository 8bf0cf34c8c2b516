"""A grid of trainings as a table of the paper, from evaluations written out."""

import dataclasses

import pytest

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.evaluation import evaluations, per_query
from neg_contrast.report import paper, paper_grid
from neg_contrast.settings import config as config_lib
from tests import corpora

METRIC = 'answer_accuracy@1'
QUERIES = [f'q{n}' for n in range(40)]


@pytest.fixture
def grid(tmp_path):
  """A grid of no trainings."""
  data = corpora.data_of(tmp_path, corpora.write_beir(
      tmp_path / 'squad', {'a': 'one', 'b': 'two', 'c': 'three'}))
  return paper_grid.Grid(
      tmp_path / 'work', (), False, False, (),
      config_lib.TableConfig(metrics=(METRIC,)), data.config, data.load())


def with_cells(grid, *cells, **values):
  return dataclasses.replace(
      grid, cells=tuple(tuple(cell.split('/')) for cell in cells), **values)


def write(workdir, system, right, split='test', passages=3):
  """An evaluation in which the first so many queries were right."""
  folder = workdir / 'evaluation' / f'squad-{split}-{system}'
  with folders.writing(folder, {
      'identity': {}, 'queries': len(QUERIES), 'passages': passages,
      'metrics': {METRIC: right / len(QUERIES)},
  }, format=evaluations.FORMAT) as scratch:
    per_query.write(scratch / per_query.FILE, [
        per_query.Result(query, '', None, '', False, (),
                         {METRIC: float(number < right)})
        for number, query in enumerate(QUERIES)
    ], [METRIC])


def write_all(grid, **right):
  """Those of all rows; by label, or 20 of 40."""
  for _, entries in grid.layout():
    for entry in entries:
      label = entry.label.replace(' ', '_').replace('+', 'and')
      write(entry.workdir, entry.system, right.get(label, 20))


def rows_of(made):
  return [row for group in made.groups for row in group.rows]


def labels(grid):
  return [(title, [entry.label for entry in entries])
          for title, entries in grid.layout()]


def test_without_trainings_there_is_bm25(grid):
  assert labels(grid) == [('Baselines', ['BM25'])]


def test_the_layout_is_the_papers(grid):
  made = with_cells(
      grid, 'generated/bm25', 'generated/mine', 'none/bm25',
      'baselines/dpr_single', 'no_hard_negatives/random',
      has_stage1=True, has_ensemble=True)
  assert labels(made) == [
      ('Baselines', ['BM25', 'DPR (Single)', 'DPR ours', 'BM25 + DPR']),
      ('Stage 1 with hard negatives', [
          'Stage 1', 'Rnd + BM25', 'mine', 'Ensemble (embedding)',
          'Ensemble (rank)']),
      ('No hard negatives in stage 1', ['Rnd']),
      ('No stage 1', ['Rnd + BM25']),
  ]


def test_stage_1_and_ensembles_are_of_trainings_after_it(grid):
  made = with_cells(grid, 'none/random', has_stage1=True, has_ensemble=True)
  assert labels(made) == [('Baselines', ['BM25']), ('No stage 1', ['Rnd'])]


def test_where_evaluations_lie(grid):
  made = with_cells(grid, 'generated/fine', 'baselines/dpr_single', 'none/bm25',
                    has_stage1=True, has_ensemble=True)
  work = grid.workdir
  places = {entry.label: (entry.workdir, entry.system)
            for _, entries in made.layout() for entry in entries}
  assert places == {
      'BM25': (work, 'bm25'),
      'DPR (Single)': (work / 'cells' / 'baselines-dpr_single', 'trained'),
      'DPR ours': (work / 'cells' / 'none-bm25', 'trained'),
      'Rnd + BM25': (work / 'cells' / 'none-bm25', 'trained'),
      'BM25 + DPR': (work / 'hybrid', 'hybrid'),
      'Stage 1': (work, 'stage1'),
      'Rnd + Fine': (work / 'cells' / 'generated-fine', 'trained'),
      'Ensemble (embedding)': (work / 'ensemble', 'fusion_embedding'),
      'Ensemble (rank)': (work / 'ensemble', 'fusion_rank'),
  }


def test_cells_are_ordered_as_in_the_paper():
  cells = [('other', 'a'), ('none', 'bm25'), ('generated', 'mixed'),
           ('generated', 'zeta'), ('generated', 'alpha'), ('none', 'random'),
           ('generated', 'random'), ('no_hard_negatives', 'fine')]
  assert sorted(cells, key=paper_grid.order) == [
      ('generated', 'random'), ('generated', 'mixed'), ('generated', 'alpha'),
      ('generated', 'zeta'), ('no_hard_negatives', 'fine'),
      ('none', 'random'), ('none', 'bm25'), ('other', 'a')]


def test_numbers_are_percent_of_what_was_measured(grid):
  made = with_cells(grid, 'none/random', pairs={'neighbours', 'crops'})
  write_all(made, BM25=10, Rnd=38)
  table = made.table('test', '')
  bm25, rnd = rows_of(table)
  assert (bm25.ours, rnd.ours) == ({METRIC: 25.0}, {METRIC: 95.0})
  assert bm25.size == paper.Size(3, 40)
  assert not bm25.paper and not bm25.comparable and table.paper_size is None
  assert table.columns == (METRIC,)
  assert table.title == 'squad/test: 3 passages; stage 1: crops, neighbours'
  assert grid.table('test', '').title == 'squad/test: 3 passages'


def test_differences_from_random_are_marked_in_their_group(grid):
  made = with_cells(grid, 'none/random', 'none/bm25', 'none/fine',
                    'generated/fine')
  # 17 and 1 of 40 more than random; elsewhere there is nothing to compare.
  write_all(made, Rnd=20, Rnd_and_BM25=37, Rnd_and_Fine=21, DPR_ours=37)
  table = made.table('test', '')
  marks = {(group.title, row.label): dict(row.marks)
           for group in table.groups for row in group.rows if row.marks}
  assert marks == {('No stage 1', 'Rnd + BM25'): {METRIC: '†'}}
  assert set(table.legend) == {'†'}


@pytest.mark.parametrize(('names', 'is_marked'), [
    (('fine',), True), (('fine', 'coarse'), False),
])
def test_what_chance_explains_is_not_marked(grid, names, is_marked):
  # Six queries of one sign have p = 2 / 2^6 = 0.031; of two systems, twice it.
  made = with_cells(grid, 'none/random', *(f'none/{name}' for name in names))
  write_all(made, Rnd=20, Rnd_and_Fine=26, Rnd_and_Coarse=26)
  marks = [bool(row.marks) for row in rows_of(made.table('test', ''))]
  assert marks == [False, False, *[is_marked] * len(names)]


def test_worse_ones_are_marked_too(grid):
  made = with_cells(grid, 'none/random', 'none/context')
  write_all(made, Rnd=38, Rnd_and_Context=4)
  rows = {row.label: row.marks for row in rows_of(made.table('test', ''))}
  assert rows['Rnd + Context'] == {METRIC: '†'} and not rows['Rnd']


PAPER = """\
3,msmarco_dev,,BM25-Anserini,mrr@10,18.7
2,squad,,BM25,answer_accuracy@1,11
2,squad,generated,random,answer_accuracy@1,30.1
4,squad,none,random,answer_accuracy@1,20.5
4,squad,generated,fusion_rank,answer_accuracy@1,34.2
"""


def with_paper(grid, tmp_path):
  path = tmp_path / 'paper.csv'
  path.write_text(','.join(paper.COLUMNS) + '\n' + PAPER)
  return dataclasses.replace(grid, settings=config_lib.TableConfig(
      metrics=(METRIC,), paper=str(path)))


def test_the_papers_numbers_stand_beside_ours(grid, tmp_path, monkeypatch):
  made = with_cells(with_paper(grid, tmp_path), 'generated/random',
                    'none/random', 'none/fine', has_ensemble=True)
  write_all(made)
  table = made.table('test', 'squad')
  found = {(group.title[:2], row.label): dict(row.paper)
           for group in table.groups for row in group.rows}
  assert found == {
      ('Ba', 'BM25'): {METRIC: 11},
      ('St', 'Rnd'): {METRIC: 30.1}, ('St', 'Ensemble (embedding)'): {},
      ('St', 'Ensemble (rank)'): {METRIC: 34.2},
      ('No', 'Rnd'): {METRIC: 20.5}, ('No', 'Rnd + Fine'): {},
  }
  assert table.paper_size == paper.SIZES['squad']
  assert not any(row.comparable for row in rows_of(table))
  monkeypatch.setitem(paper.SIZES, 'squad', paper.Size(3, 40))
  assert all(row.comparable for row in rows_of(made.table('test', 'squad')))


def test_the_paper_names_bm25_otherwise_in_another_table(grid, tmp_path):
  write(grid.workdir, 'bm25', 20)
  made = with_paper(grid, tmp_path)
  bm25, = rows_of(made.table('test', 'msmarco_dev'))
  assert dict(bm25.paper) == {'mrr@10': 18.7}
  nothing, = rows_of(made.table('test', ''))
  assert not nothing.paper


def test_each_split_has_its_own_numbers(grid):
  write(grid.workdir, 'bm25', 20)
  write(grid.workdir, 'bm25', 30, split='dev')
  ours = [rows_of(grid.table(split, ''))[0].ours[METRIC]
          for split in ('test', 'dev')]
  assert ours == [50, 75]


def test_an_evaluation_that_is_gone_is_named(grid):
  with pytest.raises(errors.UserError, match='squad-test-bm25: the evaluation '
                     'is not there any more; run the same command again'):
    grid.table('test', '')
