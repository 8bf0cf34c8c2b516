"""Tables of what was measured, written out."""

import pytest

from neg_contrast.benchmarks import results_table, task
from neg_contrast.settings import config as config_lib


@pytest.mark.parametrize(('value', 'text'), [
    (0.0, '0'), (0.0012345, '0.00123'), (1.0, '1'), (12.345, '12.3'),
    (99.96, '100'), (100.4, '100'), (1234567.8, '1,234,568'),
])
def test_three_digits_tell_something(value, text):
  assert results_table.number(value) == text


def test_rows_stand_in_their_order_with_medians():
  lines = results_table.markdown('train, cpu', {
      'rows': {'round, s': [3.0, 1.0, 2.0, 9.0], task.PADDING: [0.25, 0.5],
               'passages': [40], task.QUERIES: [1500.0, 1000.0, 2500.0]},
      'reasons': {task.UTILISATION: 'no peak', 'odd': 'not shown'},
      'notes': {'devices': '1 x cpu'},
      'profile': {'fusion': 0.75, 'dot': 0.125},
  }).splitlines()
  assert lines == [
      '| train, cpu | median | least | most |',
      '|---|---:|---:|---:|',
      '| queries/s | 1,500 | 1,000 | 2,500 |',
      '| padding | 37.5% | 25.0% | 50.0% |',
      '| model FLOPs utilisation | – (no peak) | |  |',
      '| round, s | 2.5 | 1 | 9 |',
      '| passages | 40 | |  |',
      '| of device time: fusion | 75.0% | | |',
      '| of device time: dot | 12.5% | | |',
      '| devices | 1 x cpu | | |',
  ]


def test_what_was_measured_has_no_reason():
  lines = results_table.markdown('some', {
      'rows': {task.UTILISATION: [0.5]}, 'notes': {},
      'reasons': {task.UTILISATION: 'no peak'}}).splitlines()
  assert lines[2:] == ['| model FLOPs utilisation | 50.0% | |  |']


@pytest.mark.parametrize(('name', 'is_made_up', 'want'), [
    ('encode', False, 'encode, m, float32, beir:data'),
    ('search', True, 'search, m, float32, made-up texts of 7 and 90 tokens'),
    ('train', False, 'train, m, float32, beir:data, batch 2,048, 3 hard '
     'negatives, 4 groups, 5 steps a round'),
    ('input', True, 'input, m, float32, made-up texts of 7 and 90 tokens, '
     'batch 2,048, 3 hard negatives, 4 groups, 5 steps a round'),
])
def test_headings(name, is_made_up, want):
  assert results_table.title(
      config_lib.BenchmarkConfig(task=name, steps=5), config_lib.DataConfig(
          source='beir:data', expected_query_tokens=7,
          expected_passage_tokens=90, batch_size=2048, groups=4),
      3, 'm', 'float32', is_made_up) == want
