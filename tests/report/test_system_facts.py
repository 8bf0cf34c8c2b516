"""What the page says of systems, and of every two of them."""

import numpy as np

from neg_contrast.report import system_facts


def evaluated(workdir, name, **by_query):
  return system_facts.Evaluated(
      workdir / name, {
          'key': f'd/test/{name}', 'queries': 4, 'passages': 9,
          'metrics': {metric: float(np.mean([*values.values()]))
                      for metric, values in by_query.items()},
      }, by_query)


def test_queries_are_counted_by_the_first_metric(tmp_path):
  """Of another, such as one of answers, some queries may have no value."""
  systems = [
      evaluated(tmp_path, 'a', mrr={'p': 0.5, 'q': 1.0, 'r': 0.2, 's': 0.0},
                answers={'p': 1.0}),
      evaluated(tmp_path, 'b', mrr={'p': 1.0, 'q': 0.5, 'r': 0.5, 's': 0.0},
                answers={'p': 0.0}),
      evaluated(tmp_path, 'c', mrr={'p': 1.0}, answers={'p': 0.0}),
  ]
  group = system_facts.summarize('d/test', systems, tmp_path)
  made = group.comparison
  assert (made.before, made.after) == ('a', 'b')
  assert (made.queries, made.better, made.worse) == (4, 2, 1)
  assert [*made.metrics] == ['mrr', 'answers']
  assert len(group.pairs) == 6
  back = group.pairs['c', 'a']
  assert [*back.metrics] == ['mrr'] and back.metrics['mrr'].value == -0.5
  assert (back.queries, back.better, back.worse) == (1, 0, 1)
