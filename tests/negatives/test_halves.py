"""The negative half of a passage is the one without the answer."""

import numpy as np
import pytest

from neg_contrast.data import answers as answers_lib
from neg_contrast.data import tokenizer as tokenizer_lib
from neg_contrast.negatives import halves
from tests import tiny


@pytest.fixture(scope='module')
def tokenizer(tmp_path_factory):
  folder = tmp_path_factory.mktemp('tokenizer')
  tiny.write_tokenizer(folder)
  return tokenizer_lib.load_tokenizer(str(folder))


def overlap(query, texts):
  """A stand-in for BM25: shared words."""
  return [len(set(query.split()) & set(text.split())) for text in texts]


def test_half_never_holds_the_answer_when_the_other_does(tokenizer):
  rng = np.random.default_rng(0)
  maker = halves.HalfMaker(tokenizer, overlap)
  cases = {'one': 0, 'both or neither': 0}
  for _ in range(300):
    words = rng.choice(tiny.WORDS[:12], rng.integers(2, 12)).tolist()
    text = ' '.join(words)
    start = int(rng.integers(len(words)))
    answers = [' '.join(words[start : start + int(rng.integers(1, 3))])]
    query = ' '.join(rng.choice(tiny.WORDS[:12], 3))
    span = maker.negative_half(query, answers, text)
    offsets = tokenizer.offsets(text)
    cut = span[1] if span[0] == 0 else span[0]
    assert span in ((0, cut), (cut, len(offsets)))
    assert abs(2 * cut - len(offsets)) <= 1  # A token is a word here.
    other = (cut, len(offsets)) if span[0] == 0 else (0, cut)
    ours, theirs = (halves.text_of(text, offsets, s) for s in (span, other))
    assert sorted([*ours.split(), *theirs.split()]) == sorted(words)
    has = [answers_lib.has_answer(t, answers) for t in (ours, theirs)]
    if has[0] != has[1]:
      cases['one'] += 1
      assert has == [False, True]
    else:
      cases['both or neither'] += 1
      scores = overlap(query, [ours, theirs])
      assert scores[0] < scores[1] or (
          scores[0] == scores[1] and span[0] == cut)
  assert min(cases.values()) > 30


def test_text_of_one_token_has_no_half(tokenizer):
  maker = halves.HalfMaker(tokenizer, overlap)
  assert maker.negative_half('word1', (), 'word2') is None
  assert maker.negative_half('word1', (), '') is None
  # Without any answer the half less like the query; of equal ones the second.
  assert maker.negative_half('word1', (), 'word1 word2') == (1, 2)
  assert maker.negative_half('word2', (), 'word1 word2') == (0, 1)
  assert maker.negative_half('word3', (), 'word1 word2') == (1, 2)


def test_middle_keeps_words_whole():
  text = 'aa bbbbbb c'
  offsets = [(0, 2), (3, 5), (5, 7), (7, 9), (10, 11)]
  assert halves.middle(text, offsets) == 1  # 1 and 4 begin words.
  # A byte-level tokenizer may have the space in its token.
  spaced = [(0, 1), (1, 2), (2, 5), (5, 6), (6, 7), (7, 8)]
  assert halves.middle('ab cdefgh', spaced) == 2
  assert halves.middle('abcdef', [(0, 2), (2, 4), (4, 6)]) == 1
  assert halves.middle('a', [(0, 1)]) is None
