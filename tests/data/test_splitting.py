"""Cutting documents: nothing lost, nothing twice, no passage too long."""

import hypothesis
from hypothesis import strategies as st

from neg_contrast.data import splitting

TEXTS = st.text('ab .\n\u2028é', max_size=80)


def pieces(text, spans):
  return [text[start:end] for start, end in spans]


def test_hundred_words_and_a_rest():
  words = [f'w{i}' for i in range(250)]
  found = pieces('  ' + ' \n'.join(words),
                 splitting.by_words('  ' + ' \n'.join(words), 100))
  assert [len(p.split()) for p in found] == [100, 100, 50]
  assert ' '.join(found).split() == words
  assert splitting.by_words(' \n', 100) == []


def test_letters_of_scripts_without_spaces_are_words():
  text = '机器学习。 GPU和iphone用 ok、ไทย'
  assert pieces(text, splitting.by_words(text, 1)) == [
      '机', '器', '学', '习。', 'GPU', '和', 'iphone', '用', 'ok、',
      'ไ', 'ท', 'ย']
  assert pieces(text, splitting.by_words(text, 5)) == [
      '机器学习。 GPU', '和iphone用 ok、ไ', 'ทย']
  assert pieces('「机」(器)', splitting.by_words('「机」(器)', 1)) == [
      '「机」', '(器)']
  assert pieces('पानी की', splitting.by_words('पानी की', 1)) == ['पानी', 'की']
  text = 'a 机器学习机器'
  one_each = [(i, i + 1) for i in range(len(text)) if text[i] != ' ']
  assert pieces(text, splitting.by_tokens(text, one_each, 4)) == [
      'a 机器学', '习机器']


@hypothesis.given(st.text('a 字 \u0e31ก。b', max_size=40), st.integers(1, 4))
def test_no_letter_of_any_script_is_lost(text, words):
  found = pieces(text, splitting.by_words(text, words))
  assert ''.join(''.join(found).split()) == ''.join(text.split())


@hypothesis.given(TEXTS, st.integers(1, 5))
def test_words_are_kept_in_order(text, words):
  found = pieces(text, splitting.by_words(text, words))
  assert [w for p in found for w in p.split()] == text.split()
  assert all(len(p.split()) == words for p in found[:-1])
  assert all(p == p.strip() for p in found)


def letters(text):
  """A tokenizer whose tokens are up to two letters."""
  offsets, start = [], 0
  while start < len(text):
    if text[start].isspace():
      start += 1
      continue
    is_pair = start + 1 < len(text) and not text[start + 1].isspace()
    offsets.append((start, start + 1 + is_pair))
    start = offsets[-1][1]
  return offsets


@hypothesis.given(TEXTS, st.integers(1, 5))
def test_tokens_are_bounded_and_kept(text, tokens):
  found = pieces(text, splitting.by_tokens(text, letters(text), tokens))
  assert ''.join(''.join(found).split()) == ''.join(text.split())
  assert all(1 <= len(letters(p)) <= tokens for p in found)


def test_tokens_end_with_words():
  text = 'aaaa bb cccccccc d'
  assert pieces(text, splitting.by_tokens(text, letters(text), 3)) == [
      'aaaa bb', 'cccccc', 'cc d']
  assert splitting.by_tokens(' ', [], 3) == []


@hypothesis.given(st.text('a\ud55c \u1ea5', max_size=30), st.integers(1, 5))
def test_characters_of_several_tokens_are_whole(text, tokens):
  """As letters of Hangul are, decomposed; their tokens share offsets."""
  offsets = [(i, i + 1) for i, letter in enumerate(text) if letter != ' '
             for _ in range({'a': 1, '\ud55c': 3}.get(letter, 2))]
  found = pieces(text, splitting.by_tokens(text, offsets, tokens))
  assert ''.join(''.join(found).split()) == ''.join(text.split())
  count = lambda piece: sum(
      {'a': 1, ' ': 0, '\ud55c': 3}.get(letter, 2) for letter in piece)
  assert all(piece and (len(piece) == 1 or count(piece) <= tokens)
             for piece in found)
