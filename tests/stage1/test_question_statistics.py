"""Statistics of questions, against hand counts and slow references."""

import hypothesis
import pytest
from hypothesis import strategies as st

from neg_contrast.stage1 import question_statistics as statistics

WORDS = st.lists(st.sampled_from('abc'), max_size=8)


def test_hand_counted():
  found = statistics.describe_questions([
      ('Who wrote the Iliad?', 'It is said that Homer WROTE the Iliad.'),
      ('who wrote -- the Iliad', 'Nothing.'),
      ('In what year?', 'In the year of what? In what: year'),
      ('Is it?', 'It is.'),
  ])
  assert found == statistics.Questions(
      count=4,
      mean_words=13 / 4,
      distinct_share=3 / 4,
      copy_rate=(3 + 0 + 3 + 2) / 13,
      mean_copied_run=(3 + 0 + 3 + 1) / 4,
      question_word_share=3 / 4,
      first_words=(('who', 2 / 4), ('in', 1 / 4), ('is', 1 / 4)),
  )


def test_only_the_most_frequent_first_words_are_named():
  pairs = [(f'w{i} x', '') for i in range(20) for _ in range(i + 1)]
  found = statistics.describe_questions(pairs).first_words
  assert [word for word, _ in found] == [f'w{i}' for i in range(19, 9, -1)]


@hypothesis.given(WORDS, WORDS)
def test_copied_run_is_the_longest(words, text):
  runs = {tuple(text[i:j]) for i in range(len(text) + 1)
          for j in range(i, len(text) + 1)}
  longest = max(j - i for i in range(len(words) + 1)
                for j in range(i, len(words) + 1)
                if tuple(words[i:j]) in runs)
  assert statistics.copied_run(words, text) == longest


def test_words_are_not_parts_of_words():
  assert statistics.copied_run(['a', 'b'], ['aa', 'bb', 'ab', 'b']) == 1


@hypothesis.given(WORDS, WORDS)
def test_overlap_f1(ours, theirs):
  rest, shared = list(theirs), 0
  for word in ours:
    if word in rest:
      rest.remove(word)
      shared += 1
  expected = 0.0
  if shared:
    precision, recall = shared / len(ours), shared / len(theirs)
    expected = 2 * precision * recall / (precision + recall)
  found = statistics.overlap_f1(' '.join(ours), ', '.join(theirs).upper())
  assert found == pytest.approx(expected)


def test_each_question_is_held_against_its_best():
  found = statistics.compare_questions(
      {1: ['a b', 'c d'], 2: ['x'], 3: [], 4: ['y']},
      {1: ['a b', 'a c', 'q'], 2: ['X?'], 3: ['z']},
  )
  assert found.passages == 2
  assert found.made_f1 == pytest.approx((1 + 1 / 2 + 1) / 3)
  assert found.asked_f1 == pytest.approx((1 + 1 / 2 + 0 + 1) / 4)


def test_nothing_to_describe():
  for pairs in ([], [('?', 'a text')]):
    with pytest.raises(ValueError, match='no questions to describe'):
      statistics.describe_questions(pairs)
  with pytest.raises(ValueError, match='no passage has both'):
    statistics.compare_questions({1: ['a']}, {2: ['a']})
