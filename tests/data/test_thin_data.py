"""What is too little of a data set, in words."""

import pytest

from neg_contrast.data import thin_data


def sizes(**more):
  return thin_data.Sizes(**{
      'examples': 1000, 'batch_size': 16, 'steps': 100, 'tune_queries': 100,
      **more})


def test_enough_is_not_mentioned():
  assert thin_data.of_training(sizes()) == []
  assert thin_data.of_training(sizes(tune_queries=None)) == []
  assert thin_data.of_evaluation('test', 500) == []
  assert thin_data.of_lengths('passage', 100, 5, 256, 300) == []
  assert thin_data.of_lengths('query', 0, 0, 64, 0) == []


@pytest.mark.parametrize('more, said', [
    ({'examples': 15}, 'more than the 15 examples'),
    ({'examples': 15}, 'Choose at most 8'),
    ({'examples': 1}, 'Choose at most 2'),
    ({'steps': 2500}, 'pass 40 times over 1,000 examples'),
    ({'tune_queries': 2}, 'has 2 queries: the checkpoint is chosen by steps '
                          'of 50 %'),
    ({'tune_queries': 1}, 'has 1 query:'),
])
def test_too_little(more, said):
  assert said in ' '.join(thin_data.of_training(sizes(**more)))


def test_a_training_that_stops_early_is_not_told_to():
  many = sizes(steps=2500)
  assert 'patience' in thin_data.of_training(many)[0]
  assert 'patience' not in thin_data.of_training(
      sizes(steps=2500, is_stopped=True))[0]


def test_the_interval_of_a_small_split():
  # 1.96 sqrt(0.25 / 25) = 0.196.
  assert '±20 points' in thin_data.of_evaluation('dev', 25)[0]
  assert '±50 points' in thin_data.of_evaluation('dev', 1)[0]


def test_what_is_cut():
  [said] = thin_data.of_lengths('passage', 200, 50, 256, 4000)
  assert said.startswith('25% of the passages are longer than 256 tokens')
  assert '4,000' in said and 'configs/split.py' in said
  [said] = thin_data.of_lengths('query', 200, 50, 32, 40)
  assert 'queries' in said and 'split' not in said
