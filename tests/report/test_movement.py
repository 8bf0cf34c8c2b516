import numpy as np
import pytest

from neg_contrast.evaluation import trec
from neg_contrast.report import movement

RUN = {
    'q1': [('a', 3.0), ('b', 2.0), ('c', 1.0)],
    'q2': [('c', 0.5)],
    'é\u00a0x': [('a b'.replace(' ', '\u00a0'), 2.0), ('a', 1.25)],
}


@pytest.fixture
def lines(tmp_path):
  trec.write_run(tmp_path / 'run', RUN, 'tag')
  return (tmp_path / 'run').read_bytes().splitlines(keepends=True)


def test_first_ranks(lines):
  positives = {'q1': {'c', 'b'}, 'q2': {'x'}, 'é\u00a0x': {'a'},
               'nowhere': {'a'}, 'none': set()}
  assert movement.first_ranks(lines, positives) == (
      {'q1': 2, 'q2': None, 'é\u00a0x': 2, 'nowhere': None, 'none': None}, 3
  )
  assert movement.first_ranks([], {'q1': {'a'}}) == ({'q1': None}, 0)


def test_rankings_of_some_queries(lines):
  assert movement.rankings(lines, ['é\u00a0x', 'nowhere']) == {
      'é\u00a0x': RUN['é\u00a0x'], 'nowhere': [],
  }


def test_compare_sorts_by_the_change_of_reciprocal_ranks():
  before = {'same': 3, 'a': 2, 'b': 100, 'c': None, 'lost': 1, 'd': 4,
            'nothing': None, 'only before': 1}
  after = {'same': 3, 'a': 1, 'b': 3, 'c': 90, 'lost': None, 'd': 5,
           'nothing': None, 'only after': 1}
  found = movement.compare(before, after)
  assert found.risen == ('a', 'b', 'c')
  assert found.fallen == ('lost', 'd')
  assert found.same == 2
  back = movement.compare(after, before)
  assert (back.risen, back.fallen) == (found.fallen, found.risen)


def test_no_query_is_lost():
  rng = np.random.default_rng(0)
  sides = [
      {f'q{i}': int(r) or None for i, r in enumerate(rng.integers(0, 9, 200))}
      for _ in range(2)
  ]
  found = movement.compare(*sides)
  assert len({*found.risen, *found.fallen}) + found.same == 200
  gains = [1 / (sides[1][q] or np.inf) - 1 / (sides[0][q] or np.inf)
           for q in found.risen]
  assert min(gains) > 0 and gains == sorted(gains, reverse=True)


def test_first_cuts():
  values = {20: {'a': 1.0, 'b': 1.0, 'c': 0.0},
            1: {'a': 1.0, 'b': 0.0, 'c': 0.0}}
  assert movement.first_cuts(values) == {'a': 1, 'b': 20, 'c': None}
  assert movement.first_cuts({}) == {}
