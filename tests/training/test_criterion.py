"""Which of two values is better, by the table of metrics."""

import pytest

from neg_contrast.evaluation import metrics
from neg_contrast.evaluation.metrics import metric
from neg_contrast.training import criterion as criterion_lib


class MeanRank(metric.Metric):
  """`mean_rank`: the rank of the first positive."""

  less_is_better = True

  def values(self, ranking, asked):
    raise NotImplementedError


@pytest.mark.parametrize('name', [
    form.replace('@k', '@10') for form in metrics.METRICS])
def test_more_is_better_of_every_metric_here(name):
  criterion = criterion_lib.of_metric(name)
  assert criterion == criterion_lib.Criterion(name, less_is_better=False)
  assert criterion.is_better(0.2, 0.1)
  assert not criterion.is_better(0.1, 0.2)
  assert not criterion.is_better(0.1, 0.1)


@pytest.mark.parametrize('name', ['mean_rank', 'macro_mean_rank'])
def test_less_is_better_where_a_metric_says_so(monkeypatch, name):
  monkeypatch.setitem(metrics.METRICS, 'mean_rank', MeanRank())
  criterion = criterion_lib.of_metric(name)
  assert criterion.is_better(3.0, 4.0)
  assert not criterion.is_better(4.0, 3.0)
  assert not criterion.is_better(3.0, 3.0)
  assert metrics.best(name, [3.0, 2.0, 4.0]) == 2.0
  assert metrics.best('mrr', [3.0, 2.0, 4.0]) == 4.0
