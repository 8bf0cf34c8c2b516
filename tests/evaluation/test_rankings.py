"""What early stopping measures of a split, and what it can't."""

import dataclasses

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.evaluation import rankings
from neg_contrast.retrieval import hits
from neg_contrast.settings import config as config_lib
from tests import corpora

PASSAGES = {'p0': 'one', 'p1': 'two'}


def evaluation(folder, criterion):
  data = corpora.data_of(folder, corpora.write_beir(
      folder / 'data', PASSAGES, {'q0': 'one', 'q1': 'two'},
      train={'q0': {'p0': 1}}, dev={'q1': {'p1': 1}})).load()
  config = config_lib.EvaluationConfig(
      criterion=criterion, metrics=('accuracy@1', 'mrr@10'))
  return rankings.Evaluation(config, data, data.prepared.judgements('dev'))


def test_the_criterion_is_measured_whatever_the_metrics_are(tmp_path):
  some = evaluation(tmp_path, 'ndcg@5')
  assert some.tuning_metrics() == ('ndcg@5', 'accuracy@1', 'mrr@10')
  found = hits.Hits(np.array([[1, 0]], np.int32),
                    np.array([[2, 1]], np.float32))
  scores = some.score(some.run_of(found), found, some.tuning_metrics())
  assert scores.mean['ndcg@5'] == 1
  for name in ('accuracy@1', 'mrr@10', 'macro_mrr@10'):
    assert list(evaluation(tmp_path, name).tuning_metrics())[0] == name


def test_a_criterion_needs_what_the_split_has(tmp_path):
  with pytest.raises(errors.UserError) as refused:
    evaluation(tmp_path, 'answer_accuracy@5').tuning_metrics()
  assert str(refused.value) == (
      "config.evaluation.criterion='answer_accuracy@5': needs answers, which "
      f'the tune split of beir:{tmp_path / "data"} does not have; choose '
      'another metric, such as accuracy@1')
  some = evaluation(tmp_path, 'normalized_accuracy')
  with pytest.raises(errors.UserError, match='needs candidates, which'):
    some.tuning_metrics()
  ranked = dataclasses.replace(some, candidates=lambda: None)
  assert ranked.tuning_metrics()[0] == 'normalized_accuracy'


def test_what_was_asked_and_is_not_there_is_left_out_and_told(
    tmp_path, caplog
):
  """A query without answers is no query that was answered wrongly."""
  some = evaluation(tmp_path, 'accuracy@1')
  some = dataclasses.replace(some, config=dataclasses.replace(
      some.config, answer_ks=(5,), metrics=('mrr@10', 'normalized_accuracy')))
  found = hits.Hits(np.array([[1, 0]], np.int32),
                    np.array([[2, 1]], np.float32))
  with caplog.at_level('WARNING', 'absl'):
    assert list(some.score(some.run_of(found), found).mean) == ['mrr@10']
  assert 'normalized_accuracy, answer_accuracy@5: left out' in caplog.text


def test_answers_are_looked_for_in_the_split(tmp_path):
  some = evaluation(tmp_path, 'answer_accuracy@5')
  queries = [dataclasses.replace(query, answers=('one',))
             for query in some.dataset.prepared.queries]
  some.dataset.prepared.__dict__['queries'] = queries
  assert some.tuning_metrics()[0] == 'answer_accuracy@5'
