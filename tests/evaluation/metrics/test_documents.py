"""Metrics of documents, against what is counted by hand."""

import numpy as np
import pytest

from neg_contrast.evaluation import metrics, trec
from neg_contrast.evaluation.metrics import metric

RUN = {
    # Documents in order: A, B, C.
    'q1': [('a1', 9.0), ('a2', 8.0), ('b1', 7.0), ('a3', 6.0), ('c1', 5.0)],
    'q2': [('c1', 2.0), ('lone', 1.0)],
}
JUDGED = {'q1': {'b2': 1, 'b1': 0, 'c1': 2}, 'q2': {'lone': 1}, 'q3': {'a1': 1}}
DOCUMENTS = {'a1': 'A', 'a2': 'A', 'a3': 'A', 'b1': 'B', 'b2': 'B', 'c1': 'C',
             'lone': 'lone'}


def score(*names, documents=lambda: DOCUMENTS):
  return metrics.score(metric.Ranking(RUN, JUDGED, documents=documents), names)


def test_a_document_counts_by_its_best_passage():
  found = score('document_accuracy@1', 'document_accuracy@2', 'document_mrr@10',
                'document_recall@2', 'document_ndcg@3', 'accuracy@2')
  # b2 was not found, but b1 of its document is the second document of q1.
  assert found.per_query['document_accuracy@1'] == {'q1': 0, 'q2': 0, 'q3': 0}
  assert found.per_query['document_accuracy@2'] == {'q1': 1, 'q2': 1, 'q3': 0}
  assert found.per_query['document_mrr@10'] == {'q1': .5, 'q2': .5, 'q3': 0}
  assert found.per_query['document_recall@2'] == {'q1': .5, 'q2': 1, 'q3': 0}
  gain = 1 / np.log2(3) + 2 / np.log2(4)
  best = 2 / np.log2(2) + 1 / np.log2(3)
  assert found.per_query['document_ndcg@3']['q1'] == pytest.approx(gain / best)
  assert found.per_query['accuracy@2']['q1'] == 0
  assert found.mean['document_accuracy@2'] == pytest.approx(2 / 3)


def test_where_each_passage_is_a_document_they_are_those_of_passages():
  rng = np.random.default_rng(0)
  names = [f'p{i}' for i in range(30)]
  run = {f'q{i}': [(name, float(rng.normal())) for name in
                   rng.permutation(names)[:12]] for i in range(9)}
  judged = {query: {str(name): int(rng.integers(0, 3)) for name in
                    rng.permutation(names)[:5]} for query in run}
  plain = 'accuracy@3', 'ndcg@7', 'mrr', 'map', 'precision@5'
  ranking = metric.Ranking(run, judged, documents=lambda: {
      name: f'of {name}' for name in names})
  one = metrics.score(ranking, plain).per_query
  other = metrics.score(
      ranking, [f'document_{name}' for name in plain]).per_query
  assert one == {name.removeprefix('document_'): values
                 for name, values in other.items()}


def test_ties_are_broken_as_those_of_passages():
  run = {'q': [('a1', 1.0), ('b1', 1.0)]}
  first = trec.ranked(run['q'])[0][0]
  found = metrics.score(
      metric.Ranking(run, {'q': {first: 1}}, documents=lambda: DOCUMENTS),
      ['document_accuracy@1'])
  assert found.mean == {'document_accuracy@1': 1.0}


def test_without_documents_they_are_left_out():
  assert score('document_accuracy@1', documents=None).mean == {}
