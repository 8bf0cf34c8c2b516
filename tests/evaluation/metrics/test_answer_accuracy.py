import numpy as np
import pytest

from neg_contrast.evaluation import metrics
from neg_contrast.evaluation.metrics import metric


def answer_accuracy(rows, text_of, answers, cuts, rule='string'):
  ids = [f'q{number}' for number in range(len(answers))]
  ranking = metric.Ranking(
      {}, answers=lambda: metric.Answers(ids, answers, rows, text_of, rule))
  return metrics.score(ranking, [f'answer_accuracy@{k}' for k in cuts])


def test_answer_accuracy_reads_until_the_first_hit():
  texts = ['nothing', 'Paris', 'the Rhine', 'Paris again']
  rows = np.array([[0, 1, 3], [2, 0, 1], [0, -1, -1], [0, 2, 3]], np.int32)
  read = []

  def text_of(row):
    read.append(row)
    return texts[row]

  found = answer_accuracy(
      rows, text_of, [['paris'], ['Rhine', 'x'], ['Paris'], ['paris']], (1, 2)
  )
  assert found.mean == {'answer_accuracy@1': 0.25, 'answer_accuracy@2': 0.5}
  assert found.per_query == {
      'answer_accuracy@1': {'q0': 0, 'q1': 1, 'q2': 0, 'q3': 0},
      'answer_accuracy@2': {'q0': 1, 'q1': 1, 'q2': 0, 'q3': 0},
  }
  assert read == [0, 1, 2, 0, 0, 2]


def test_answer_accuracy_takes_patterns():
  found = answer_accuracy(
      np.array([[0]]), lambda row: '1,234 m', [['1,?234']], [1], 'regex'
  )
  assert found.mean == {'answer_accuracy@1': 1}


def test_answer_accuracy_refuses_what_it_can_not_know():
  with pytest.raises(ValueError, match='beyond the depth 2'):
    answer_accuracy(np.zeros((1, 2), int), str, [['x']], [3])
  with pytest.raises(ValueError, match='answers of 1'):
    answer_accuracy(np.zeros((2, 2), int), str, [['x']], [1])
