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
