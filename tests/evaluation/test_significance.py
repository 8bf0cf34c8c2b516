import numpy as np
import pytest

from neg_contrast.evaluation import confidence, significance


def values(seed, shift=0.0, count=60):
  rng = np.random.default_rng(seed)
  return {f'q{i}': float(v) + shift for i, v in enumerate(rng.random(count))}


def test_every_pair_of_every_metric(tmp_path):
  systems = {
      'low': {'mrr': values(0), 'accuracy@1': values(5)},
      'high': {'mrr': values(1, 0.5), 'accuracy@1': values(5)},
      'part': {'mrr': dict(list(values(2, 0.2).items())[:40])},
  }
  pairs = significance.compare(systems)
  assert [(p.metric, p.system, p.other, p.queries) for p in pairs] == [
      ('mrr', 'high', 'low', 60), ('mrr', 'high', 'part', 40),
      ('mrr', 'part', 'low', 40), ('accuracy@1', 'low', 'high', 60),
  ]
  first = pairs[0]
  differences = np.array([systems['high']['mrr'][q] - v
                          for q, v in systems['low']['mrr'].items()])
  assert first.difference == pytest.approx(differences.mean())
  assert (first.low, first.high) == confidence.interval(differences)
  assert first.p == confidence.p_value(differences) < 0.01
  assert first.p_holm == pytest.approx(3 * first.p)
  same = pairs[-1]
  assert (same.difference, same.p, same.p_holm) == (0, 1, 1)
  significance.write(tmp_path / 'pairs.tsv', pairs)
  lines = (tmp_path / 'pairs.tsv').read_text().splitlines()
  assert lines[0].split('\t') == list(significance.COLUMNS)
  assert len(lines) == 5 and lines[4].split('\t')[-2:] == ['1', '1']


def test_systems_without_shared_queries_are_no_pair():
  assert not significance.compare({
      'a': {'mrr': {'q1': 1.0}}, 'b': {'mrr': {'q2': 0.0}}, 'c': {},
  })


def test_what_no_metric_tells_apart():
  systems = {
      'low': {'mrr': values(0), 'accuracy@1': values(5)},
      'high': {'mrr': values(1, 0.5), 'accuracy@1': values(5)},
      'also': {'mrr': values(2), 'accuracy@1': values(5)},
  }
  pairs = significance.compare(systems)
  assert significance.undecided(pairs) == [('also', 'low')]
  assert not significance.undecided(significance.compare(
      {name: {'mrr': systems[name]['mrr']} for name in ('low', 'high')}))


def test_against_one_of_them():
  systems = {'low': {'mrr': values(0)}, 'high': {'mrr': values(1, 0.5)},
             'lower': {'mrr': values(3, -0.4)}}
  pairs = significance.against('low', systems)
  assert {p.system: p.other for p in pairs} == {'high': 'low', 'lower': 'low'}
  by_name = {p.system: p for p in pairs}
  assert by_name['lower'].difference < 0 < by_name['high'].difference
  assert by_name['lower'].low < by_name['lower'].difference
  assert by_name['lower'].high < 0
  assert by_name['high'].p_holm == pytest.approx(2 * by_name['high'].p)
