import pathlib

import pytest

from neg_contrast import errors
from neg_contrast.report import paper

PATH = pathlib.Path(__file__).parents[2] / 'configs' / 'lu_et_al.csv'
HARD = ('random', 'coarse', 'fine', 'bm25', 'context', 'mixed')
ACCURACIES = [f'answer_accuracy@{k}' for k in (1, 5, 10, 20, 100)]


@pytest.fixture(scope='module')
def numbers():
  return paper.read(PATH)


@pytest.mark.parametrize('row, expected', [
    ((2, 'nq', '', 'DPR (Single)'), [78.4, 85.4]),
    ((2, 'squad', '', 'BM25 + DPR'), [71.5, 81.3]),
    ((2, 'squad', '', 'ANCE (Single)'), []),
    ((2, 'nq', 'generated', 'Stage 1'), [31.6, 59.2, 68.1, 74.7, 84.7]),
    ((2, 'squad', 'generated', 'fusion_rank'), [34.2, 58.3, 66.6, 73.4, 83.8]),
    ((2, 'nq', 'generated', 'fusion_embedding'),
     [52.0, 73.3, 78.5, 82.8, 88.4]),
    ((3, 'msmarco_dev', '', 'BM25-Anserini'), [18.7, 85.7]),
    ((3, 'msmarco_dev', '', 'ME-BERT'), [33.4]),
    ((3, 'msmarco_dev', 'generated', 'fine'), [31.2, 97.7]),
    ((3, 'trec_dl_2019', 'generated', 'coarse'), [67.4]),
    ((4, 'squad', 'no_hard_negatives', 'fine'), [31.0, 54.3, 63.4, 70.5, 82.5]),
    ((4, 'nq', 'none', 'mixed'), [39.1, 63.8, 72.4, 78.1, 85.9]),
    ((4, 'nq', 'none', 'fusion_rank'), []),
])
def test_numbers(numbers, row, expected):
  assert list(numbers.find(*row).values()) == expected


def test_metrics_of_a_row(numbers):
  assert numbers.find(2, 'nq', '', 'BM25') == {
      'answer_accuracy@20': 59.1, 'answer_accuracy@100': 73.7,
  }
  assert list(numbers.find(4, 'squad', 'none', 'fine')) == ACCURACIES
  assert list(numbers.find(3, 'msmarco_dev', '', 'ANCE')) == [
      'mrr@10', 'recall@1000',
  ]
  assert list(numbers.find(3, 'trec_dl_2019', '', 'ANCE')) == ['ndcg@10']


@pytest.mark.parametrize('dataset', ['nq', 'squad'])
def test_tables_agree_where_they_print_the_same(numbers, dataset):
  for row in HARD:
    full = numbers.find(4, dataset, 'generated', row)
    assert len(full) == 5
    assert full == numbers.find(2, dataset, 'generated', row)
  # The re-implementation of DPR is BM25 negatives without stage 1.
  assert numbers.find(2, dataset, '', 'DPR ours') == numbers.find(
      4, dataset, 'none', 'bm25'
  )


def test_nothing_is_missing(numbers):
  counts = {}
  for place, cells in numbers.rows.items():
    key = place.table, place.dataset
    counts[key] = counts.get(key, 0) + len(cells)
    # A deeper cut finds no less: this sees most slips of a digit.
    found = [cells[name] for name in ACCURACIES if name in cells]
    assert found == sorted(found)
  assert counts == {
      # 14 rows of 5, without the 3 unknown of 4 baselines; ANCE has no SQuAD.
      (2, 'nq'): 14 * 5 - 4 * 3, (2, 'squad'): 13 * 5 - 3 * 3,
      (3, 'msmarco_dev'): 14 * 2 - 2, (3, 'trec_dl_2019'): 14,
      (4, 'nq'): 18 * 5, (4, 'squad'): 18 * 5,
  }
  assert str(paper.SIZES['nq']) == '21,015,324 passages, 3,610 queries'


@pytest.mark.parametrize('line, message', [
    ('2,nq,,BM25', 'csv:3: 4 fields, not table, dataset'),
    ('5,nq,,BM25,mrr@10,1', "csv:3: table is '5'; there are 2, 3, 4"),
    ('2,NQ,,BM25,mrr@10,1', "csv:3: dataset is 'NQ'; there are nq, squad"),
    ('2,nq,full,BM25,mrr@10,1', "csv:3: stage1 is 'full'"),
    ('2,nq,,BM25,mrr,1', "csv:3: metric is 'mrr'; there are answer_accuracy@1"),
    ('2,nq,,BM25,mrr@10,-', "csv:3: value is '-'"),
    ('2,nq,,BM25,mrr@10,nan', "csv:3: value is 'nan'"),
    ('2,nq,,BM25,mrr@10,784', "csv:3: value is '784'"),
    ('2,nq,,BM25,ndcg@10,2', 'csv:3: .*BM25.* has ndcg@10 already'),
])
def test_damaged_lines_are_named(tmp_path, line, message):
  path = tmp_path / 'csv'
  path.write_text(f'{",".join(paper.COLUMNS)}\n2,nq,,BM25,ndcg@10,1\n{line}\n')
  with pytest.raises(errors.UserError, match=message):
    paper.read(path)


def test_other_files_are_named(tmp_path):
  path = tmp_path / 'csv'
  with pytest.raises(errors.UserError, match='csv: no such file'):
    paper.read(path)
  path.write_text('')
  with pytest.raises(errors.UserError, match='csv: no rows'):
    paper.read(path)
  path.write_text('table;dataset\n')
  with pytest.raises(errors.UserError, match='csv:1: the header is not'):
    paper.read(path)
