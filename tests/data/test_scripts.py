"""What is a word, in scripts with and without spaces between words."""

import re
import sys
import unicodedata

import numpy as np
import pytest

from neg_contrast.data import scripts
from neg_contrast.retrieval import bm25_terms, nearest_text


@pytest.mark.parametrize(('text', 'found'), [
    ('', []),
    ('the running bulls, a 4x4', ['the', 'running', 'bulls', '4x4']),
    ('слово ελληνικά 한국어 x', ['слово', 'ελληνικά', '한국어']),
    ('机器学习', ['机器', '器学', '学习']),
    ('猫 と犬', ['猫', 'と犬']),  # A letter by itself is a word.
    ('iphoneの電池42', ['iphone', 'の電', '電池', '42']),
    ('𠮷野家', ['𠮷野', '野家']),  # Beyond 16 bits.
    ('スマート', ['スマ', 'マー', 'ート']),
    ('สวัสดี', ['สวั', 'วัส', 'สดี']),  # Marks stay with their letters.
    ('ភាសា', ['ភាសា']),
    ('हिन्दी में', ['हिन्दी', 'में']),
    ('தமிழ் மொழி', ['தமிழ்', 'மொழி']),
    ('كِتَاب', ['كتاب']), ('שָׁלוֹם', ['שלום']),  # Without their vowels.
    ('cafe\u0301s', ['cafés']),
    ('İstanbul'.lower(), ['istanbul']),
    ('half \ud800a pair', ['half', 'pair']),
    ('✔️done 1️⃣first', ['done', 'first']),  # Selectors of variants.
    ('h₂o 5 m² 机', ['h₂o', 'm²', '机']),
    ('می\u200cخواهم', ['می', 'خواهم']),  # With a joiner between words,
    ('می\u200cخواهم معمولاً', ['می', 'خواهم', 'معمولا']),
    ('ক্\u200cক', ['ক্ক']),  # or within one.
    (unicodedata.normalize('NFD', '한국어'), ['한국어']),
])
def test_words_of_a_text(text, found):
  assert scripts.words(text, least=2) == found


def test_plain_texts_have_the_words_of_a_regular_expression():
  rng = np.random.default_rng(0)
  pieces = ['a', 'bc', 'é', 'ß', 'я', 'слово', '한국', '4', '_', ' ', '.', '-',
            '\u3000', '½', '№', '\n']
  for _ in range(2000):
    text = ''.join(rng.choice(pieces, rng.integers(1, 12)))
    assert scripts.words(text) == re.findall(r'\w+', text)
    assert scripts.words(text, 2) == re.findall(r'(?u)\b\w\w+\b', text)


def test_texts_that_are_taken_for_plain_have_no_marks():
  for point in range(sys.maxunicode + 1):
    one = chr(point)
    if scripts._is_plain(one):
      assert unicodedata.category(one) not in ('Mn', 'Mc'), hex(point)
      assert not scripts._OPTIONAL.fullmatch(one), hex(point)
      assert not scripts._LETTER.fullmatch(one), hex(point)


def test_other_scripts_in_a_text_change_no_word_of_it():
  """For every character, but some that this Python does not know."""
  others = []
  for point in range(sys.maxunicode + 1):
    one = chr(point)
    if scripts._is_plain(one):
      text = f'ab{one}cd {one}ef {one}'
      for least in (1, 2):
        found = scripts.words(text, least)
        if scripts.words(f'{text} 机', least) != [*found, '机']:
          others.append(point)
  assert len(set(others)) < 10 and all(
      unicodedata.category(chr(point)) == 'Cn' or point == 0x208F
      for point in others), [*map(hex, others)]


@pytest.mark.parametrize('text', [
    '字' * 200_000, 'ก\u0e31' * 100_000, '\u0e31' * 200_000, 'न' * 200_000])
def test_long_texts_take_no_time(text):
  assert len(scripts.words(text)) < 200_000


def test_bm25_finds_words_of_any_script():
  reader = bm25_terms.TermReader()
  read = reader.read(['机器学习', '机器', 'हिन्दी', 'the'])
  assert read.lengths.tolist() == [3, 1, 1, 0]
  assert read.terms[3] == read.terms[0]
  nearest = nearest_text.NearestText(0.9, 0.4)
  assert nearest('東京の天気は', ['大阪の電車', '東京の天気予報', '京都']) == 1
  assert nearest('मौसम कैसा', ['रेल', 'आज का मौसम']) == 1
