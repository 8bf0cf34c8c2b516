"""The parts of a passage that may be shown as the match."""

import hypothesis
from hypothesis import strategies as st

from neg_contrast.retrieval import matching


def cut(text):
  return [text[start:end] for start, end in matching.parts(text)]


def test_sentences():
  assert cut('He said "stop it now." Then all of them left! Was it so?') == [
      'He said "stop it now."', 'Then all of them left!', 'Was it so?']


def test_short_sentences_join_the_next():
  assert cut('Dr. Smith went to Washington. It rained.') == [
      'Dr. Smith went to Washington.', 'It rained.']


def test_paragraphs_without_stops():
  assert cut('one two three four\n\nfive six seven eight') == [
      'one two three four', 'five six seven eight']


def test_long_sentences_become_windows():
  words = [f'w{i}' for i in range(100)]
  found = cut(' '.join(words))
  assert [len(part.split()) for part in found] == [33, 33, 34]
  assert ' '.join(found).split() == words


@hypothesis.given(st.text('ab .!?\n"。', max_size=120))
def test_every_word_is_in_one_part(text):
  found = cut(text)
  assert ''.join(''.join(found).split()) == ''.join(text.split())
  assert all(part == part.strip() != '' for part in found)
