"""Sentences: nothing lost or twice, and the awkward full stops."""

import time

import hypothesis
import pytest
from hypothesis import strategies as st

from neg_contrast.stage1 import sentences


def pieces(text):
  return [text[start:end] for start, end in sentences.split(text)]


@pytest.mark.parametrize('marked', [
    'I met Dr. Smith.|He left!|Why?',
    'He lives in the U.S.|The U.S. Army, too.|By J. K. Rowling.',
    'Apple Inc. Cupertino etc.|It is big.|See p. 5, No. 7 and Fig. 2.',
    'No.|"No!" cried he.|"Yes?"|(Perhaps.)|“So.” ‘It is.’',
    'It cost 3.5 dollars.|$5 more.|7 less.',
    '(Painted by J. R.)|Bob left.|He waited ...|Then . . .|But... no… never.',
    'A war.[12][citation needed]|The end.',
    '1. Eggs are white.|2. Milk is too.|Room 1.|Now.',
    'e.g. This, i.e. That vs. Those, cf. Them.|Mr.',
    'Éric est là.|Ça va.|Ünal.',
    '今日は。|明日！|「はい。」|終わり',
    'no stop|\n\nanother line\nof it|\n \n.',
    'at 3 a.m. on|',
    'I.|In time.|(1. A thing).|* A point.',
])
def test_marked_ends_are_found(marked):
  """A bar is where a sentence ends."""
  marked = marked.replace('” ‘', '”|‘')
  expected = [part.strip() for part in marked.split('|') if part.strip()]
  text = ' '.join(marked.split('|'))
  if '。' in text:
    text = marked.replace('|', '')
  assert pieces(text) == expected


@hypothesis.given(st.text('aB1 .!?\n"([])。é\u2028$*-', max_size=60))
def test_all_but_white_space_is_in_one_sentence(text):
  spans = sentences.split(text)
  ends = [0, *(place for span in spans for place in span), len(text)]
  assert ends == sorted(ends)
  assert all(a < b and text[a:b] == text[a:b].strip() for a, b in spans)
  assert ''.join(''.join(pieces(text)).split()) == ''.join(text.split())


@hypothesis.given(st.lists(st.sampled_from(
    ['The cat sat.', 'Who was it?', 'He said "no."', 'Wait...']), max_size=6),
    st.sampled_from([' ', '\n', '  ', '\n\n']))
def test_sentences_joined_come_apart_again(parts, space):
  assert pieces(space.join(parts)) == parts


@pytest.mark.parametrize('text', [
    '.' * 300_000, '. ' + '* ' * 50_000, '.' + ' ' * 50_000, '\n ' * 50_000,
    '.[a' * 20_000, 'a' * 50_000 + '. ' + 'A' * 50_000,
])
def test_odd_texts_take_no_time(text):
  """A pattern that goes back needs a minute or more."""
  began = time.process_time()
  assert ''.join(''.join(pieces(text)).split()) == ''.join(text.split())
  assert time.process_time() - began < 10
