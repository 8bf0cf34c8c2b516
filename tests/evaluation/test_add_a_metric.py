"""A metric is one class and one line in METRICS; all else follows.

It is seen in the check that `--plan` makes, in metrics.json, in per_query.tsv,
in the report, in the differences of systems, in tables and in the error of an
unknown metric.
"""

import csv
import json

import pytest

from neg_contrast import errors
from neg_contrast.artifacts import plan
from neg_contrast.data import dataset as dataset_lib
from neg_contrast.evaluation import metrics, summary
from neg_contrast.evaluation.metrics import metric
from neg_contrast.jobs import evaluate
from neg_contrast.jobs.common import reporting
from neg_contrast.settings import config as config_lib
from tests import tiny


class Unjudged(metric.Metric):
  """`unjudged@k`: the share of the top k that nobody has judged."""

  def values(self, ranking, asked):
    return {one.name: {
        query: sum(passage not in judged for passage, _
                   in ranking.run.get(query, ())[:one.cut]) / one.cut
        for query, judged in ranking.judgements.items()
    } for one in asked}


@pytest.fixture
def registered(monkeypatch):
  monkeypatch.setitem(metrics.METRICS, 'unjudged@k', Unjudged())


def make_job(root, *names):
  """(config, job) of an evaluation."""
  config = config_lib.parse(tiny.make_config(
      root, job='evaluate', checkpoint=str(root / 'model'),
      data__split='test', evaluation__metrics=names,
      evaluation__bm25=True, evaluation__depth=10))
  return config, evaluate.EvaluateJob(config, root / 'work')


def test_a_metric_is_seen_everywhere(registered, tmp_path, capsys):
  config, job = make_job(tmp_path, 'unjudged@5', 'mrr', 'macro_unjudged@5')
  targets = job.targets()  # What --plan checks.
  assert 'bm25' in plan.describe(targets)
  (tmp_path / 'work').mkdir()
  plan.run([one for one in targets if one.name in ('data', 'bm25')])
  dataset = dataset_lib.Dataset(config.data)
  summary.gather(tmp_path / 'work', dataset)
  reporting.write_report(tmp_path / 'work', config, dataset)
  values = json.loads((tmp_path / 'work' / 'metrics.json').read_text())
  value = values['data/test/bm25/unjudged@5']
  assert 0.7 < value < 1
  assert values['data/test/bm25/macro_unjudged@5'] == pytest.approx(value)
  folder = tmp_path / 'work' / 'evaluation' / 'data-test-bm25'
  with open(folder / 'per_query.tsv', encoding='utf-8') as f:
    lines = list(csv.DictReader(f, delimiter='\t'))
  assert value == pytest.approx(
      sum(float(line['unjudged@5']) for line in lines) / len(lines))
  page = (tmp_path / 'work' / 'report.html').read_text()
  assert 'unjudged@5' in page and f'{value:.4f}' in page
  assert 'unjudged@5' in capsys.readouterr().out


def test_an_unknown_metric_names_all(registered, tmp_path):
  _, job = make_job(tmp_path, 'mrr', 'unjudgd@5')
  with pytest.raises(errors.UserError) as caught:
    job.targets()
  assert str(caught.value) == (
      "config.evaluation.metrics: no metric 'unjudgd@5'; there are "
      'accuracy@k, recall@k, precision@k, ndcg@k, mrr@k, mrr, map, '
      'answer_accuracy@k, unnormalized_accuracy, normalized_accuracy, '
      'document_accuracy@k, document_recall@k, document_precision@k, '
      'document_ndcg@k, document_mrr@k, document_mrr, document_map, '
      'unjudged@k (k = 1, 2, ...), and macro_accuracy@k and the like')


def test_without_its_line_it_is_unknown(tmp_path):
  _, job = make_job(tmp_path, 'unjudged@5')
  with pytest.raises(errors.UserError, match="no metric 'unjudged@5'"):
    job.targets()


def test_a_metric_of_candidates_is_measured_wherever_there_are_some(
    monkeypatch
):
  class Kept(metric.Metric):
    """Whether the first candidate stays the first."""

    needs = (metric.JUDGEMENTS, metric.CANDIDATES)

    def values(self, ranking, asked):
      given = ranking.candidates()
      return {one.name: {
          query: float(given[query][0][0] == ranking.run[query][0][0])
          for query in ranking.judgements
      } for one in asked}

  monkeypatch.setitem(metrics.METRICS, 'kept', Kept())
  names = metrics.names_with(metric.CANDIDATES)
  assert names[-1] == 'kept'
  ranking = metric.Ranking(
      {'q': [('a', 2.0)], 'r': [('c', 1.0)]}, {'q': {'a': 1}, 'r': {'a': 1}},
      candidates=lambda: {'q': [('a', 5.0)], 'r': [('b', 3.0), ('c', 2.0)]})
  assert metrics.score(ranking, names).mean['kept'] == 0.5
