"""Salient spans by rules, and what is made of them."""

import pytest

from neg_contrast.data import records
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.models import model_names
from neg_contrast.stage1 import pretexts
from neg_contrast.stage1.pretexts import salient


@pytest.fixture(scope='module')
def wordpiece():
  return tokenizer_lib.load_tokenizer(str(model_names.packaged_minilm()))


@pytest.mark.parametrize('sentence, expected', [
    ('The Rhine rises in Switzerland.', ['Rhine', 'Switzerland']),
    ('On 5 May 1821 Napoleon Bonaparte died, aged 51.',
     ['5 May 1821', 'Napoleon Bonaparte', '51']),
    ('J. K. Rowling wrote 7 books for $1,200.50 and 35% more.',
     ['J. K. Rowling', '$1,200.50', '35%']),
    ('Rain fell on the Bank of England in March.',
     ['Bank of England', 'March']),
    ('In the U.S. Army, General Smith said no.',
     ['U.S. Army', 'General Smith']),
    ('He was born March 4, 1789 in Königsberg.', ['March 4, 1789',
                                                 'Königsberg']),
    ('東京 had 13,960,000 people in 2020.', ['13,960,000', '2020']),
    ('Ludwig van Beethoven, Bonn and Vienna.',
     ['Ludwig van Beethoven', 'Bonn', 'Vienna']),
    ('Paris is big.', []),  # A first word has a capital anyway.
    ('I saw 3 of them, and so did A.', []),
    ('', []), ('. . !', []),
])
def test_spans(sentence, expected):
  found = salient.find(sentence)
  assert [sentence[start:end] for start, end in found] == expected


def make(text, tokenizer, count=9):
  passage = records.Passage('p', 'A title', text, 'd')
  return pretexts.make_pairs(
      'masked_salient_spans', [(7, passage)], tokenizer.offsets, 0, count)


TEXT = ('The river Rhine runs through Basel to the sea. Nothing is said of it. '
        'It was measured in 1904 , they say.')


def test_each_salient_span_is_masked_once(wordpiece):
  pairs = make(TEXT, wordpiece)
  assert {pair.query for pair in pairs} == {
      'The river [MASK] runs through Basel to the sea.',
      'The river Rhine runs through [MASK] to the sea.',
      'It was measured in [MASK], they say.',
  }
  mask = wordpiece.token_id('[MASK]')
  for pair in pairs:
    assert wordpiece.encode(pair.query).count(mask) == 1
    assert pair == pretexts.Pair(pair.query, 7)  # The passage as it is.


def test_what_is_said_twice_or_leaves_nothing_is_not_masked(wordpiece):
  assert make('It runs from Basel, past old Basel, to sea.', wordpiece) == []
  assert make('We saw Basel.', wordpiece) == []


def test_without_a_mask_the_span_is_left_out(wordpiece):
  class NoMask:
    def offsets(self, text):
      return [(at, at + 1) for at, char in enumerate(text)
              if not char.isspace()]

  pairs = make('It was measured in 1904 , they say.', NoMask())
  assert [pair.query for pair in pairs] == ['It was measured in, they say.']
